"""Distances between jobs: by hand, and within their bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from offpeak.predictors.waits.similar_jobs import distances, scales

rows_and_waits = st.integers(2, 30).flatmap(
    lambda count: st.tuples(
        arrays(np.float64, (count, 3), elements=st.integers(0, 1000)),
        arrays(np.float64, count, elements=st.integers(0, 10**6)),
    )
)


def test_a_feature_counts_by_its_correlation_and_in_shares_of_its_range():
    rows = np.array([[0.0, 5.0, 3.0], [10.0, 7.0, 3.0], [20.0, 5.0, 3.0]])
    wait_s = np.array([100.0, 200.0, 300.0])
    scale = scales(rows, wait_s)
    assert scale == pytest.approx([1 / 20, 0, 0])
    assert distances(rows, scale, np.array([5.0, 99.0, 99.0])) == pytest.approx(np.sqrt([0.25, 0.25, 0.75]))


@given(rows_and_waits)
def test_no_two_rows_are_farther_apart_than_one_and_each_is_at_itself(case):
    rows, wait_s = case
    scale = scales(rows, wait_s)
    for number, row in enumerate(rows):
        distance = distances(rows, scale, row)
        assert distance[number] == 0
        assert (distance <= 1 + 1e-9).all()


@given(rows_and_waits)
def test_waits_that_do_not_vary_make_all_jobs_alike(case):
    rows, _ = case
    assert (scales(rows, np.full(len(rows), 60.0)) == 0).all()
