"""The exam about waits: asked at the submission, known at the start."""

import numpy as np
from hypothesis import given
from logged_waits import UNITS, logged_jobs

from offpeak.predictors.scores import wait_exam


@given(logged_jobs())
def test_each_outcome_is_known_at_its_jobs_start(log):
    exam = wait_exam(log.jobs, log.start_s, log.end_s, units=UNITS)
    assert exam.actual.tolist() == (log.start_s - log.jobs.submit_s).tolist()
    assert (np.diff(exam.known_s) >= 0).all()
    row = np.searchsorted(log.jobs.job_id, exam.outcomes.questions.job_id)
    assert exam.known_s.tolist() == log.start_s[row].tolist()
    assert exam.outcomes.wait_s.tolist() == exam.actual[row].tolist()
    assert (exam.outcomes.questions.rows == exam.questions.rows[row]).all()
