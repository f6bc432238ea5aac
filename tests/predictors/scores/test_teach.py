"""Learning what happened since a predictor was kept."""

import numpy as np
import pytest
from hypothesis import given
from random_jobs import populations, user_habits

from offpeak.predictors.job_history import jobs_at_submission
from offpeak.predictors.port import load_model, save_model
from offpeak.predictors.run_times import LastTwo
from offpeak.predictors.scores import compute_score, run_time_exam, take_exam, teach

JOBS = user_habits(300, 1)


def exam_of(jobs):
    return run_time_exam(jobs, jobs.logged_start_s), jobs.logged_start_s + jobs.runtime_s


def test_the_error_on_the_way_is_that_of_the_exam():
    exam, end_s = exam_of(JOBS)
    origin = teach(LastTwo(), exam, end_s, None)
    given = take_exam(LastTwo(), exam)
    assert origin.mae == pytest.approx(compute_score(exam.actual, given, naive=given).mae)
    assert (origin.outcomes, origin.first_s, origin.last_s) == (300, end_s.min(), end_s.max())


def test_one_that_was_kept_learns_only_what_is_new(tmp_path):
    whole, end_s = exam_of(JOBS)
    half_s = int(np.sort(end_s)[150])
    earlier = JOBS.take(end_s <= half_s)
    first = LastTwo()
    origin = teach(first, *exam_of(earlier), None)
    save_model(tmp_path / "model.npz", first, origin)
    again = LastTwo()
    before = load_model(tmp_path / "model.npz", again)
    after = teach(again, whole, end_s, before)
    always = LastTwo()
    teach(always, whole, end_s, None)
    requests = jobs_at_submission(user_habits(20, 2))
    assert again.predict(requests, 10**9).mean.tolist() == always.predict(requests, 10**9).mean.tolist()
    assert (after.outcomes, after.first_s, after.last_s) == (300, origin.first_s, end_s.max())


@given(populations)
def test_no_new_outcome_changes_no_predictor(jobs):
    exam, end_s = exam_of(jobs)
    predictor = LastTwo()
    origin = teach(predictor, exam, end_s, None)
    if len(jobs):
        assert teach(predictor, exam, end_s, origin) == origin
