"""How many jobs ask for which limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.workloads.tsafrir import (
    HEAD,
    draw_estimate_counts,
    head_shares,
    head_values_s,
    tail_shares,
    tail_values_s,
    whole_jobs,
)

LIMITS_S = st.integers(6_000, 30 * 86_400)


@given(st.integers(200, 1_000_000), LIMITS_S, st.integers(0, 99))
def test_all_jobs_ask_for_something_and_most_for_the_longest(count: int, longest_s: int, seed: int) -> None:
    requested = draw_estimate_counts(count, longest_s, np.random.default_rng(seed))
    assert requested.jobs.sum() == count
    assert requested.jobs.min() >= 1
    assert (np.diff(requested.value_s) > 0).all()
    assert requested.value_s[0] > 0
    assert requested.value_s[-1] == longest_s
    assert requested.jobs[-1] == requested.jobs.max()
    assert HEAD <= len(requested.value_s) <= 565


@given(LIMITS_S)
def test_twenty_round_values_up_to_the_longest(longest_s: int) -> None:
    values_s = head_values_s(longest_s)
    assert len(set(values_s)) == HEAD
    assert values_s[0] == max(values_s) == longest_s
    assert values_s[1:] == sorted(values_s[1:])
    assert all(value_s % 300 == 0 for value_s in values_s[1:])


def test_the_roundest_values_fill_up_the_common_ones() -> None:
    assert [value_s / 3600 for value_s in head_values_s(48 * 3600) if value_s > 12 * 3600] == [
        48,
        18,
        20,
        30,
        40,
        45,
    ]


def test_twenty_values_serve_89_percent_of_the_jobs() -> None:
    assert head_shares().sum() == pytest.approx(0.89)
    assert head_shares()[0] == pytest.approx(0.218, abs=0.001)
    assert tail_shares(300).sum() == pytest.approx(0.11)
    assert (np.diff(head_shares()) < 0).all()
    assert (np.diff(tail_shares(300)) < 0).all()


@given(st.integers(20, 565), LIMITS_S)
def test_the_other_values_are_none_of_the_twenty(values: int, longest_s: int) -> None:
    head_s = head_values_s(longest_s)
    tail_s = tail_values_s(values, head_s)
    assert len(tail_s) <= values - HEAD
    assert len({*head_s, *tail_s}) == HEAD + len(tail_s)
    assert all(0 < value_s < longest_s for value_s in tail_s)


def test_a_thousand_jobs_ask_for_35_values_and_a_million_for_565() -> None:
    rng = np.random.default_rng(1)
    assert [len(draw_estimate_counts(count, 64_800, rng).value_s) for count in (200, 1000, 10_000)] == [20, 35, 90]
    assert len(draw_estimate_counts(1_000_000, 172_800, rng).value_s) == 565


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=50), st.integers(1000, 10**6))
def test_no_job_is_lost_by_rounding(shares: list[float], count: int) -> None:
    jobs = whole_jobs(count, np.array(shares))
    assert jobs.sum() == count
    assert jobs.min() >= 0
    np.testing.assert_allclose(jobs, np.array(shares) / sum(shares) * count, atol=2)
