"""Boosted trees find what waits hang on, and a job that does not exist yet can be asked about."""

from dataclasses import replace

import numpy as np
import pytest
from logged_waits import jobs_of

from offpeak.predictors.port import LEVELS, certain
from offpeak.predictors.scores import compute_score, take_exam, wait_exam
from offpeak.predictors.trees.forest import Growth
from offpeak.predictors.waits.questions import NO_JOB
from offpeak.predictors.waits.registry import Arbiter, BoostedWaits
from offpeak.predictors.waits.similar_jobs import SimilarJobs
from offpeak.predictors.waits.states import if_submitted_now

JOBS = 500
QUICK = Growth(trees=30, least_rows=20)


@pytest.fixture(scope="module")
def exam():
    """Wide jobs of user 1 wait for hours, all others for minutes."""
    rng = np.random.default_rng(3)
    size, user = rng.choice([1, 16], JOBS), rng.integers(0, 2, JOBS)
    jobs = jobs_of([(600 * index, 60, 60, size[index], user[index], 0) for index in range(JOBS)])
    wait_s = (np.where((size == 16) & (user == 1), 20_000, 300) * rng.uniform(0.9, 1.1, JOBS)).astype(np.int64)
    start_s = jobs.submit_s + wait_s
    return wait_exam(jobs, start_s, start_s + 60, units=16)


def test_boosted_trees_learn_which_jobs_wait(exam):
    answer = take_exam(BoostedWaits(growth=QUICK), exam)
    late = slice(JOBS // 2, None)
    score = compute_score(exam.actual, answer, naive=certain(np.full(JOBS, exam.actual.mean()), "the mean"))
    assert score.relative_mae < 0.3
    error = np.abs(answer.quantiles[late, 1] - exam.actual[late]) / exam.actual[late]
    assert np.median(error) < 0.1
    assert answer.basis[0] == "the mean so far, no trees yet"
    assert answer.basis[-1].startswith("trees grown from")


def test_a_job_that_does_not_exist_yet_can_be_queried(exam):
    arbiter = Arbiter((BoostedWaits(growth=QUICK), SimilarJobs()))
    take_exam(arbiter, exam)
    state = exam.questions.states[JOBS - 1]
    waits = [if_submitted_now(state, size=size, estimate_s=60, user=1, queue=0) for size in (1, 16)]
    short, long = (arbiter.predict(question, state.now_s) for question in waits)
    assert 0.5 < short.quantiles[0, 1] / 300 < 2
    assert 0.5 < long.quantiles[0, 1] / 20_000 < 2
    assert long.quantiles.shape == (1, len(LEVELS))


def test_such_a_question_leaves_no_trace(exam):
    plain, requests = BoostedWaits(growth=QUICK), BoostedWaits(growth=QUICK)
    made_up = replace(exam.questions.take(np.arange(5)), job_id=np.full(5, NO_JOB))
    requests.predict(made_up, 0)
    assert take_exam(plain, exam).quantiles.tolist() == take_exam(requests, exam).quantiles.tolist()
