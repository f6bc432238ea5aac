"""How gaps between measured jobs are filled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.job_power import MeasuredPower
from offpeak.model.jobs import Jobs

pytestmark = pytest.mark.quick

NAN = float("nan")
RNG = np.random.default_rng(1)


def jobs_with(user: list[int], power_w: list[float]) -> Jobs:
    one = np.ones(len(power_w), np.int64)
    return Jobs(one, one, one, one, one, np.array(user, np.int64), one, one, one, one, np.array(power_w, np.float64))


def test_a_job_without_reading_gets_its_users_mean_else_the_mean_of_all() -> None:
    jobs = jobs_with([-1, 7, 7, 7, 9, 9], [NAN, 100, 200, NAN, 600, 100])
    assert MeasuredPower().draw_w(jobs, RNG).tolist() == [250, 100, 200, 150, 600, 100]


def test_a_log_without_readings_cannot_be_measured() -> None:
    with pytest.raises(BadInput, match="the log holds no measured power") as caught:
        MeasuredPower().draw_w(jobs_with([1], [NAN]), RNG)
    assert "constant:250W" in caught.value.hint


@given(st.lists(st.tuples(st.integers(-1, 5), st.just(NAN) | st.floats(1, 1e4)), min_size=1))
def test_readings_stay_and_the_rest_lies_between_them(rows: list[tuple[int, float]]) -> None:
    power_w = np.array([power for _, power in rows])
    known = ~np.isnan(power_w)
    if not known.any():
        return
    filled = MeasuredPower().draw_w(jobs_with([user for user, _ in rows], power_w.tolist()), RNG)
    np.testing.assert_array_equal(filled[known], power_w[known])
    assert filled.min() >= power_w[known].min() * (1 - 1e-12)
    assert filled.max() <= power_w[known].max() * (1 + 1e-12)
