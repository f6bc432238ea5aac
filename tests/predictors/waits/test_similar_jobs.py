"""The published predictor: like jobs that agree are averaged, else it is fitted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.waits.questions import WaitOutcomes, WaitQuestions
from offpeak.predictors.waits.similar_jobs import BASES, CLUSTER, HISTORY, RIDGE, SimilarJobs
from offpeak.predictors.waits.states import FEATURES


def questions(sizes):
    """Jobs that differ in their size alone, and in that much work ahead of them."""
    rows = np.zeros((len(sizes), len(FEATURES)))
    rows[:, 0] = rows[:, 2] = sizes
    unknown = np.full(len(sizes), -1)
    return WaitQuestions(np.arange(len(sizes)), unknown, unknown, rows, unknown, ())


def learned(sizes, wait_s):
    predictor = SimilarJobs()
    predictor.learn(WaitOutcomes(questions(sizes), np.array(wait_s)), 0)
    return predictor


def test_jobs_that_are_the_same_as_others_wait_as_long():
    sizes = np.repeat([1, 50, 100], 100)
    answer = learned(sizes, 60 * sizes).predict(questions([1, 50, 100]), 0)
    assert answer.quantiles[:, 1] == pytest.approx([60, 3000, 6000])
    assert set(answer.basis) == {BASES[CLUSTER]}


def test_where_like_jobs_disagree_a_line_is_drawn():
    sizes = np.arange(1, 201)
    answer = learned(sizes, np.where(sizes % 2, 10_000, 0) + 1000 * sizes).predict(questions([100]), 0)
    assert answer.basis == (BASES[RIDGE],)
    assert answer.quantiles[0, 1] == pytest.approx(105_000, rel=0.05)


def test_without_a_history_nobody_waits():
    answer = SimilarJobs().predict(questions([7]), 0)
    assert (answer.mean.tolist(), answer.quantiles[:, 1].tolist()) == ([0.0], [0.0])


@given(st.integers(1, 50))
def test_jobs_older_than_the_history_are_forgotten(size):
    predictor = learned([size] * 100, [10**6] * 100)
    predictor.learn(WaitOutcomes(questions([size] * HISTORY), np.full(HISTORY, 5)), 0)
    assert predictor.predict(questions([size]), 0).quantiles[0, 1] == pytest.approx(5)
