"""The run-time predictor: the mean of a user's last two jobs, within the estimate."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.compiled import in_place
from offpeak.predictors.run_times import learn_run_time, predict_run_time

USERS = 3
jobs = st.lists(st.tuples(st.integers(0, USERS - 1), st.integers(0, 10**6)), max_size=30)


@in_place
def learn(recent_s, user, runtime_s):
    learn_run_time(recent_s, user, runtime_s)


@in_place
def predict(recent_s, user, estimate_s):
    return predict_run_time(recent_s, user, estimate_s)


def nothing_learned():
    return np.full(2 * USERS, -1, dtype=np.int64)


def test_the_mean_of_the_last_two():
    recent_s = nothing_learned()
    for runtime_s in (1000, 60, 91):
        learn(recent_s, 1, runtime_s)
    assert predict(recent_s, 1, 3600) == 75
    assert predict(recent_s, 1, 70) == 70
    assert predict(recent_s, 0, 3600) == predict(recent_s, 2, 3600) == 3600


def test_one_job_is_no_history():
    recent_s = nothing_learned()
    learn(recent_s, 0, 10)
    assert predict(recent_s, 0, 3600) == 3600


def test_a_prediction_is_at_least_a_second_unless_the_estimate_is_less():
    recent_s = nothing_learned()
    learn(recent_s, 0, 0)
    learn(recent_s, 0, 1)
    assert predict(recent_s, 0, 3600) == 1
    assert predict(recent_s, 0, 0) == 0


@given(jobs, st.integers(0, USERS - 1), st.integers(0, 10**6))
def test_it_depends_on_the_users_own_last_two_jobs_only_and_reads_without_writing(finished, user, estimate_s):
    recent_s = nothing_learned()
    for each, runtime_s in finished:
        learn(recent_s, each, runtime_s)
    own_s = [runtime_s for each, runtime_s in finished if each == user][-2:]
    before = recent_s.copy()
    expected = min(estimate_s, max(1, sum(own_s) // 2)) if len(own_s) == 2 else estimate_s
    assert predict(recent_s, user, estimate_s) == expected
    assert (recent_s == before).all()
