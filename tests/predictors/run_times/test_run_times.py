"""Run times stay between a second and the estimate, and the last two are those of the engine."""

import numpy as np
from hypothesis import given
from random_jobs import jobs_of, populations

from predictors.run_times.last_two import LastTwo
from predictors.run_times.registry import RUN_TIME_PREDICTORS
from predictors.submitted_jobs import jobs_at_submission


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
