"""The measures of a schedule, computed by hand and by their laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.schedule_metrics import (
    bounded_slowdown,
    bounded_slowdown_by_delay,
    makespan_s,
    postponement_s,
    response_ratio,
    utilization,
)

pytestmark = pytest.mark.quick


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


WAITS = st.integers(0, 10**9)


@given(st.lists(st.tuples(WAITS, st.integers(10, 10**9)), min_size=1))
def test_the_bounded_slowdowns_agree_from_ten_seconds_on(jobs: list[tuple[int, int]]) -> None:
    wait_s, runtime_s = np.array(jobs, np.int64).T
    assert bounded_slowdown(wait_s, runtime_s) == pytest.approx(bounded_slowdown_by_delay(wait_s, runtime_s))


@given(st.integers(1, 10**9), st.integers(0, 9))
def test_for_shorter_jobs_the_one_by_delay_is_larger(wait_s: int, runtime_s: int) -> None:
    by_response, by_delay = (
        float(measure(column(wait_s), column(runtime_s))[0])
        for measure in (bounded_slowdown, bounded_slowdown_by_delay)
    )
    assert 1 <= by_response < by_delay
    # Rearranged: their difference is the part of the ten seconds that the job did not run, or all of the wait.
    assert by_delay - by_response == pytest.approx(min((10 - runtime_s) / 10, wait_s / 10))


@pytest.mark.parametrize(
    ("wait_s", "runtime_s", "by_response", "by_delay"),
    [(0, 0, 1, 1), (0, 5, 1, 1), (4, 5, 1, 1.4), (20, 5, 2.5, 3), (20, 0, 2, 3), (30, 10, 4, 4), (100, 50, 3, 3)],
)
def test_bounded_slowdowns_by_hand(wait_s: int, runtime_s: int, by_response: float, by_delay: float) -> None:
    assert bounded_slowdown(column(wait_s), column(runtime_s)).tolist() == [by_response]
    assert bounded_slowdown_by_delay(column(wait_s), column(runtime_s)).tolist() == [by_delay]


def test_makespan_is_from_the_first_submission_to_the_last_end() -> None:
    assert makespan_s(column(5, 6, 9), column(70, 8, 10)) == 65
    assert makespan_s(column(5), column(5)) == 0


def test_utilization_by_hand() -> None:
    assert utilization(column(2, 3), column(10, 20), machine_size=4, period_s=40) == 80 / 160
    assert utilization(column(4), column(40), machine_size=4, period_s=40) == 1.0
    assert utilization(column(4), column(0), machine_size=4, period_s=0) == 0.0


def test_a_postponed_job_counts_above_zero() -> None:
    assert postponement_s(column(10, 20, 30), column(10, 25, 5)).tolist() == [0, -5, 25]


def test_response_ratio_is_the_geometric_mean() -> None:
    assert response_ratio(column(10, 10), column(20, 20)) == pytest.approx(2)
    assert response_ratio(column(10, 40), column(40, 10)) == pytest.approx(1)
    assert response_ratio(column(8, 1, 1), column(1, 1, 1)) == pytest.approx(1 / 2)
    assert response_ratio(column(0), column(7)) == pytest.approx(7)


@given(st.lists(st.tuples(*[st.integers(0, 10**7)] * 2), min_size=1, max_size=50))
def test_the_ratio_the_other_way_round_is_its_inverse(responses: list[tuple[int, int]]) -> None:
    one, other = np.array(responses, np.int64).T
    assert response_ratio(one, other) * response_ratio(other, one) == pytest.approx(1)
    assert response_ratio(one, one) == 1.0
    assert math.isfinite(response_ratio(one, other))
