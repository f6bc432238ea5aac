"""Clusters are the connected points, and a prediction is made of tight ones alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.waits.similar_jobs import NO_ANSWER, NOISE, REACH, clustered_wait_s, clusters

points = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=20)


def plain_clusters(near: np.ndarray) -> list[set[int]]:
    """Return the sets of two points or more that are linked by near ones."""
    found: list[set[int]] = []
    for point, row in enumerate(near):
        touched = [each for each in found if each & set(np.flatnonzero(row))]
        found = [each for each in found if each not in touched] + [set().union({point}, *touched)]
    return [each for each in found if len(each) > 1]


@given(points)
def test_the_clusters_are_the_connected_points(where):
    distance, share = np.array(where).T * 0.0125
    near = np.abs(distance[:, None] - distance) + np.abs(share[:, None] - share) <= REACH
    label = clusters(distance, share)
    assert {frozenset(np.flatnonzero(label == each)) for each in set(label.tolist()) - {NOISE}} == set(
        map(frozenset, plain_clusters(near))
    )


def test_like_jobs_that_agree_are_averaged():
    distance, wait_s = np.full(300, 0.5), np.arange(300.0) * 100
    distance[:4], wait_s[:4] = [0.0, 0.01, 0.01, 0.02], [600, 600, 630, 630]
    assert clustered_wait_s(distance, wait_s) == pytest.approx(615, abs=1)


def test_jobs_that_are_unlike_are_no_answer():
    assert clustered_wait_s(np.full(300, 0.5), np.full(300, 60.0)) == NO_ANSWER


def test_like_jobs_that_disagree_are_no_answer():
    distance, wait_s = np.full(300, 0.25), np.arange(300.0) * 1000
    assert clustered_wait_s(distance, wait_s) == NO_ANSWER
