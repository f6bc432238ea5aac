"""Exams about jobs."""

import numpy as np
import pytest
from hypothesis import given
from random_jobs import jobs_of, populations

from offpeak.errors import BadInput
from offpeak.predictors.scores import power_exam, run_time_exam


@given(populations)
def test_outcomes_become_known_at_the_end_of_their_job(jobs):
    exam = power_exam(jobs, jobs.logged_start_s)
    assert (exam.known_s == exam.outcomes.logged_start_s + exam.outcomes.runtime_s).all()
    assert (np.diff(exam.known_s) >= 0).all()
    assert sorted(exam.outcomes.job_id) == sorted(jobs.job_id)
    assert (exam.question_s == jobs.submit_s).all()
    np.testing.assert_array_equal(exam.actual, jobs.node_power_w)


def test_a_job_needs_a_start():
    jobs = jobs_of([(100, 5, 9, 1, 0, 0, 0, 0, 0, 200.0)])
    assert run_time_exam(jobs, jobs.logged_start_s).actual.tolist() == [5]
    with pytest.raises(BadInput, match="job 1 has no start"):
        run_time_exam(jobs, np.array([-1]))
