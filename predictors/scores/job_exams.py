"""The exams about single jobs: how long will it run, what will it draw."""

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from predictors.scores.exam import Exam
from predictors.submitted import as_submitted

JobExam = Exam[Jobs, Jobs]


def run_time_exam(jobs: Jobs, start_s: Int64) -> JobExam:
    """Ask at its submission how long [s] each job will run; that is known once it has ended.

    `start_s` int64[n] is when each started: `jobs.logged_start_s`, or of a simulation where the log does not say.
    """
    return _exam(jobs, start_s, jobs.runtime_s.astype(np.float64))


def power_exam(jobs: Jobs, start_s: Int64) -> JobExam:
    """Ask at its submission what [W per allocated unit] each job will draw; that is known once it has ended."""
    return _exam(jobs, start_s, jobs.node_power_w)


def _exam(jobs: Jobs, start_s: Int64, actual: Float64) -> JobExam:
    early = np.flatnonzero(start_s < jobs.submit_s)
    if len(early):
        message = f"job {jobs.job_id[early[0]]} has no start at or after its submission"
        raise BadInput(message, hint="replay the log to know when its jobs could have started")
    end_s = start_s + jobs.runtime_s
    by_end = np.argsort(end_s, kind="stable")
    return Exam(as_submitted(jobs), jobs.submit_s, actual, jobs.take(by_end), end_s[by_end])
