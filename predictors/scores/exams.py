"""The exams of each kind of predictor: run times, power and waits of jobs, and day-ahead prices.

Each job is predicted at its submission; its wait becomes known at its start, its run time and power at its end. Prices
are predicted at each midnight, for all steps of the day that starts, from the days that have ended.
"""

from datetime import tzinfo

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from offpeak.model.local_time import to_local_s, to_unix_s
from predictors.prices.history import HIGHEST, PriceHistory, PriceSteps
from predictors.scores.evaluation import Exam
from predictors.submitted_jobs import jobs_at_submission
from predictors.waits.questions import WaitOutcomes, WaitQuestions
from predictors.waits.states import LogStates, log_rows

JobExam = Exam[Jobs, Jobs]


def run_time_exam(jobs: Jobs, start_s: Int64) -> JobExam:
    """Ask at its submission how long [s] each job will run; that is known once it has ended.

    `start_s` int64[n] is the start of each job: `jobs.logged_start_s`, or of a simulation if the log has no starts.
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
    return Exam(jobs_at_submission(jobs), jobs.submit_s, actual, jobs.take(by_end), end_s[by_end])


PriceExam = Exam[PriceSteps, PriceHistory]


def price_exam(history: PriceHistory, zone: tzinfo, *, after_days: int = 1, days_ahead: int = 1) -> PriceExam:
    """Ask at midnights of the zone's clock what every step [currency per MWh] of a day will cost, which ends
    `days_ahead` days later.

    Prices become known at the end of their day, so forecasts are scored, not prices that a market published the day
    before. The first `after_days` days have no questions. A gap is NaN in `actual`.
    """
    start_s = history.start_s + history.step_s * np.arange(len(history), dtype=np.int64)
    # If the clock goes back over midnight, the new day continues.
    day = np.maximum.accumulate(to_local_s(start_s, zone) // DAY_S)
    question_s, _ = to_unix_s((day - days_ahead + 1) * DAY_S, zone)
    end_s, _ = to_unix_s((day + 1) * DAY_S, zone)
    chosen = day >= day[:1] + after_days
    actual = np.where(np.abs(history.price) <= HIGHEST, history.price, np.nan)
    return Exam(history.steps.take(chosen), question_s[chosen], actual[chosen], history, end_s)


WaitExam = Exam[WaitQuestions, WaitOutcomes]


def wait_exam(jobs: Jobs, start_s: Int64, end_s: Int64, *, units: int, expected_s: Int64 | None = None) -> WaitExam:
    """Return the exam of jobs that started and ended so, no job before its submission, on a machine of `units`.

    In the states, for predictors that plan, jobs run for `expected_s`, the prediction at their submission, by default
    their estimates. The rows have the estimates.
    """
    rows = log_rows(jobs, start_s, end_s, units=units)
    states = LogStates(jobs, start_s, end_s, jobs.estimate_s if expected_s is None else expected_s, units)
    questions = WaitQuestions(jobs.job_id, jobs.user, jobs.queue, rows, np.arange(len(jobs)), states)
    wait_s = start_s - jobs.submit_s
    by_start = np.argsort(start_s, kind="stable")
    outcomes = WaitOutcomes(questions, wait_s).take(by_start)
    return Exam(questions, jobs.submit_s, wait_s.astype(np.float64), outcomes, start_s[by_start])
