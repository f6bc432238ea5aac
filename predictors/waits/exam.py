"""The exam about queue waits: each job of a log is asked about at its submission; its wait is known at its start."""

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from predictors.scores.exam import Exam
from predictors.waits.log_rows import log_rows
from predictors.waits.log_states import LogStates
from predictors.waits.question import WaitOutcomes, WaitQuestions

WaitExam = Exam[WaitQuestions, WaitOutcomes]


def wait_exam(jobs: Jobs, start_s: Int64, end_s: Int64, *, units: int, expected_s: Int64 | None = None) -> WaitExam:
    """Return the exam of jobs that started and ended so, no job before its submission, on a machine of `units`.

    In the states, for predictors that plan, jobs run for `expected_s`, what was predicted of each at its submission;
    their estimates by default. The rows have the estimates.
    """
    rows = log_rows(jobs, start_s, end_s, units=units)
    states = LogStates(jobs, start_s, end_s, jobs.estimate_s if expected_s is None else expected_s, units)
    questions = WaitQuestions(jobs.job_id, jobs.user, jobs.queue, rows, np.arange(len(jobs)), states)
    wait_s = start_s - jobs.submit_s
    by_start = np.argsort(start_s, kind="stable")
    outcomes = WaitOutcomes(questions, wait_s).take(by_start)
    return Exam(questions, jobs.submit_s, wait_s.astype(np.float64), outcomes, start_s[by_start])
