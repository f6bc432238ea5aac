"""The arbiter passes on the answer in the middle, by who was wrong less of late."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from logged_waits import jobs_of

from offpeak.predictors.port import certain
from offpeak.predictors.scores import compute_score, take_exam, wait_exam
from offpeak.predictors.waits.registry import Arbiter, _middle


class Says:
    """Always says the same."""

    def __init__(self, wait_s):
        self.name = f"{wait_s} s"
        self._wait_s = float(wait_s)

    def learn(self, _outcome, _at_s):
        pass

    def predict(self, question, _at_s):
        return certain(np.full(len(question), self._wait_s), "always")


def exam_of(wait_s):
    """An exam of jobs that waited so long, one an hour."""
    jobs = jobs_of([(3600 * number, 1, 60, 1, 0, 0) for number in range(len(wait_s))])
    start_s = jobs.submit_s + np.array(wait_s)
    return wait_exam(jobs, start_s, start_s + 1, units=16)


def test_the_lower_of_two_is_passed_on_until_the_other_was_better():
    answer = take_exam(Arbiter((Says(0), Says(100))), exam_of([90] * 3))
    assert answer.quantiles[:, 1].tolist() == [0, 100, 100]
    assert answer.basis == ("0 s: always", "100 s: always", "100 s: always")


def test_arbiter_follows_the_better_predictor():
    exam = exam_of([0] * 200 + [500] * 800)
    answer = take_exam(Arbiter((Says(0), Says(500))), exam)
    assert set(answer.mean[:200].tolist()) == {0.0}
    assert set(answer.mean[-200:].tolist()) == {500.0}
    alone = [
        compute_score(exam.actual, take_exam(Says(wait_s), exam), naive=certain(exam.actual, "")).mae
        for wait_s in (0, 500)
    ]
    assert compute_score(exam.actual, answer, naive=certain(exam.actual, "")).mae < min(alone)


def test_jobs_that_find_room_and_jobs_that_do_not_are_judged_apart():
    jobs = jobs_of([(36_000 * number, 1, 60, 1 + 16 * (number % 2), 0, 0) for number in range(60)])
    start_s = jobs.submit_s + np.where(jobs.size > 16, 10_000, 0)
    exam = wait_exam(jobs, start_s, start_s + 1, units=16)
    answer = take_exam(Arbiter((Says(0), Says(10_000))), exam)
    assert answer.mean[2:].tolist() == exam.actual[2:].tolist()


def test_the_middle_one_of_three_is_passed_on_until_another_outweighs_both():
    answer = take_exam(Arbiter((Says(500), Says(0), Says(100))), exam_of([90] * 2 + [490] * 2000))
    assert answer.quantiles[:3, 1].tolist() == [100] * 3
    assert answer.basis[0] == "100 s: always"
    assert set(answer.mean[-1000:].tolist()) == {500.0}
    assert answer.quantiles[-1].tolist() == [500] * 3


@given(arrays(np.float64, (5, 3), elements=st.integers(0, 9)), arrays(np.float64, (5, 3), elements=st.integers(1, 9)))
def test_the_middle_has_no_more_than_half_of_the_weight_on_either_side(predicted_s, weight):
    rows = np.arange(5)
    middle_s = predicted_s[rows, _middle(predicted_s, weight)][:, None]
    assert ((weight * (predicted_s < middle_s)).sum(axis=1) <= weight.sum(axis=1) / 2).all()
    assert ((weight * (predicted_s > middle_s)).sum(axis=1) <= weight.sum(axis=1) / 2).all()
