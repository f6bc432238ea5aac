"""Who gets which limit: nobody one below the run time, everything else by chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak_studies.workloads.tsafrir import EstimateCounts, assigned_s, sufficient, tsafrir_estimates_s

COUNTS = st.lists(st.integers(0, 20), min_size=1, max_size=10)


@given(st.integers(200, 3000), st.integers(6_000, 30 * 86_400), st.integers(0, 99))
def test_estimates_are_between_run_time_and_maximum(count: int, longest_s: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    runtime_s = rng.integers(1, longest_s + 1, count)
    estimate_s = tsafrir_estimates_s(runtime_s, longest_s=longest_s, rng=rng)
    assert len(estimate_s) == count
    assert (estimate_s >= runtime_s).all()
    assert estimate_s.max() == longest_s


@given(st.integers(1, 500), st.integers(0, 99))
def test_limits_that_suffice_are_all_given_away(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    value_s = np.unique(rng.integers(1, 1000, 10))
    jobs = rng.multinomial(count, np.full(len(value_s), 1 / len(value_s)))
    limits_s = np.repeat(value_s, jobs)
    runtime_s = rng.integers(1, limits_s + 1)
    estimate_s = assigned_s(rng.permutation(runtime_s), EstimateCounts(value_s, jobs), rng)
    np.testing.assert_array_equal(np.sort(estimate_s), limits_s)


@given(st.data(), COUNTS)
def test_long_limits_are_made_to_suffice_and_no_job_is_lost(data: st.DataObject, needed: list[int]) -> None:
    where = data.draw(st.lists(st.integers(0, len(needed) - 1), min_size=sum(needed), max_size=sum(needed)))
    requested = np.bincount(np.array(where, np.int64), minlength=len(needed))
    enough = sufficient(requested, np.array(needed))
    assert enough.sum() == sum(needed)
    assert enough.min() >= 0
    assert (np.cumsum(enough[::-1]) >= np.cumsum(needed[::-1])).all()
    if (np.cumsum(requested[::-1]) >= np.cumsum(needed[::-1])).all():
        np.testing.assert_array_equal(enough, requested)


def test_all_assignments_are_equally_likely() -> None:
    """Of four jobs one needs the long limit: the other long one and the two short ones are for the three others."""
    rng = np.random.default_rng(1)
    requested, runtime_s = EstimateCounts(np.array([2, 5]), np.array([2, 2])), np.array([1, 2, 4, 1])
    got_long = np.zeros(4)
    for _ in range(3000):
        got_long += assigned_s(runtime_s, requested, rng) == 5
    assert got_long[2] == 3000
    # Four standard deviations of a thousand in three thousand.
    np.testing.assert_allclose(got_long[[0, 1, 3]], 1000, atol=4 * np.sqrt(3000 * 1 / 3 * 2 / 3))


@pytest.mark.parametrize(
    ("count", "longest_s", "message", "hint"),
    [
        (199, 7200, "199 jobs are too few for modelled estimates", "at least 200 jobs"),
        (200, 5999, "a longest estimate of 5999 s is too short", "at least 6000 s for these jobs"),
        (200, 6999, "a longest estimate of 6999 s is too short", "at least 7000 s for these jobs"),
    ],
)
def test_unsupported_model_parameters_are_refused(count: int, longest_s: int, message: str, hint: str) -> None:
    runtime_s = np.full(count, 7000 if longest_s > 6000 else 1)
    with pytest.raises(BadInput, match=message) as caught:
        tsafrir_estimates_s(runtime_s, longest_s=longest_s, rng=np.random.default_rng(1))
    assert caught.value.hint == hint
