"""Run times stay between a second and the estimate, and the last two are those of the engine."""

import numpy as np
import pytest
from hypothesis import given
from random_jobs import jobs_of, populations

from offpeak.predictors.job_history import jobs_at_submission
from offpeak.predictors.run_times import RUN_TIME_PREDICTORS, LastTwo, UserEstimate, chosen_run_time, similar_run_times
from offpeak.predictors.scores import compute_score, take_exam
from offpeak.ui.forecast.log_scores import read_log_file, run_times_of


@given(populations)
def test_never_above_the_estimate_nor_below_a_second(jobs):
    for make in RUN_TIME_PREDICTORS:
        predictor = make()
        predictor.learn(jobs, 10**8)
        given = predictor.predict(jobs_at_submission(jobs), 10**8)
        for found in (given.mean, *given.quantiles.T):
            assert (found <= jobs.estimate_s).all()
            assert (found >= np.minimum(1, jobs.estimate_s)).all()


@given(populations)
def test_last_two_are_the_users_own(jobs):
    predictor = LastTwo()
    predictor.learn(jobs, 10**8)
    found = predictor.predict(jobs_at_submission(jobs), 10**8).mean
    for row, (user, estimate_s) in enumerate(zip(jobs.user, jobs.estimate_s, strict=True)):
        own_s = jobs.runtime_s[jobs.user == user][-2:]
        expected = min(estimate_s, max(1, own_s.sum() // 2)) if len(own_s) == 2 else estimate_s
        assert found[row] == expected


def test_more_users_than_there_was_room_for():
    jobs = jobs_of([(0, user + 1, 10**6, 1, user, 0, 0, 0, 0, 1.0) for user in range(1000) for _ in range(2)])
    predictor = LastTwo()
    predictor.learn(jobs, 10**8)
    assert predictor.predict(jobs_at_submission(jobs), 10**8).mean.tolist() == (jobs.user + 1).tolist()


@pytest.mark.parametrize(
    ("log", "most", "best"),
    [
        ("sim_backend/sample/sample.swf.gz", 0.15, "similar jobs"),
        ("shared/data/traces/SDSC-SP2_first5000.swf.gz", 0.40, "similar jobs"),
    ],
)
def test_chosen_predictor_of_a_log_errs_little_more_than_the_best(repository, shared, log, most, best):
    path = shared / log.removeprefix("shared/") if log.startswith("shared/") else repository / log
    exam = run_times_of(read_log_file(path))
    naive = take_exam(UserEstimate(), exam)
    scores = {
        each.name: compute_score(exam.actual, take_exam(each, exam), naive=naive).relative_mae
        for each in (LastTwo(), similar_run_times(), chosen_run_time())
    }
    chosen = scores.pop("run time")
    assert min(scores, key=scores.__getitem__) == best
    assert chosen < most
    assert chosen <= 1.1 * scores[best]
