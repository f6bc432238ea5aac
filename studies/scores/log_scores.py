"""Takes every predictor of run times, power and waits through the jobs of a log."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from predictors.job_power import readings_w
from predictors.scores.evaluation import Score, compute_score, take_exam
from studies.scores.log_exams import POWER, RUN_TIME, WAIT, fresh_predictors, log_exam
from studies.scores.log_file import read_log_file


@dataclass(frozen=True)
class LogTask:
    """One predictor, by its name, of a quantity on a log."""

    path: Path
    quantity: str
    predictor: str


@dataclass(frozen=True)
class LogResult:
    """How good a predictor was on a log, which is called `log`; `notes` say what was assumed of the log.

    `cpu_s` is what it took to ask and teach it, without what the states of a what-if are made from: the run times that
    the boosted trees predict, which are a task of their own.
    """

    task: LogTask
    log: str
    score: Score
    cpu_s: float
    notes: tuple[str, ...]


def log_tasks(path: Path) -> tuple[LogTask, ...]:
    """Return what is to be scored on a log; power only where there are readings. BadTrace if it cannot be used."""
    has_readings = bool(np.isfinite(readings_w(read_log_file(path).jobs)).any())
    quantities = (RUN_TIME, POWER, WAIT) if has_readings else (RUN_TIME, WAIT)
    return tuple(LogTask(path, quantity, name) for quantity in quantities for name in fresh_predictors(quantity))


def run_log_task(task: LogTask) -> LogResult:
    """Return how good a predictor was; the same task gives the same score, in any process."""
    log = read_log_file(task.path)
    predictor = fresh_predictors(task.quantity)[task.predictor]
    exam = log_exam(task.path, task.quantity, task.predictor)
    begin_s = time.process_time()
    answer = take_exam(predictor, exam)
    cpu_s = time.process_time() - begin_s
    return LogResult(task, log.name, compute_score(exam.actual, answer), cpu_s, log.notes)
