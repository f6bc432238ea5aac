"""Scores of all predictors of run times, power and waits on job logs: a row for each log and predictor."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from predictors.job_power import readings_w
from predictors.scores.evaluation import Score, compute_score, take_exam
from studies.report import StudyTable, TableCell
from studies.scores.log_exams import POWER, RUN_TIME, WAIT, fresh_predictors, log_exam, read_log_file


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


READING = (
    "MAE: mean absolute error of the median. RMSE: root of the mean squared error of the mean. Pinball: its mean over "
    "the quantiles 10, 50 and 90 %. Within 80 %: the share of jobs between the outer two, 80 % is right. "
    "Each job is asked about at its submission, by one who knows what has happened until then."
)
PERCENTAGE = "error [%]"
WITHIN_HOUR = "within 1 h [%]"


@dataclass(frozen=True)
class ScoreKind:
    """How the results in a quantity are shown: beside `naive`, and with one measure more."""

    name: str
    title: str
    unit: str
    naive: str
    measure: str
    note: str


KINDS = {
    RUN_TIME: ScoreKind("run-times", "Run times", "s", "estimate", PERCENTAGE, "Relative to the user's estimate."),
    POWER: ScoreKind(
        "power", "Power per unit", "W", "constant", PERCENTAGE, "Relative to one draw declared for all jobs."
    ),
    WAIT: ScoreKind("waits", "Queue waits", "s", "similar jobs", WITHIN_HOUR, "Relative to the published method."),
}
MEASURES: dict[str, Callable[[LogResult], float]] = {
    PERCENTAGE: lambda result: result.score.percentage_error,
    WITHIN_HOUR: lambda result: 100 * result.score.close_share,
}


def log_tables(results: Sequence[LogResult]) -> tuple[StudyTable, ...]:
    """Return a table for each quantity of which there are results."""
    by_quantity = {quantity: [each for each in results if each.task.quantity == quantity] for quantity in KINDS}
    return tuple(_score_table(KINDS[quantity], found) for quantity, found in by_quantity.items() if found)


def _score_table(kind: ScoreKind, results: Sequence[LogResult]) -> StudyTable:
    mae = f"MAE [{kind.unit}]", f"RMSE [{kind.unit}]", "rel. MAE"
    headers = ("log", "predictor", "jobs", *mae, f"pinball [{kind.unit}]", "within 80 % [%]", kind.measure, "CPU [s]")
    naive_mae = {result.task.path: result.score.mae for result in results if result.task.predictor == kind.naive}
    rows = tuple(_score_row(kind, result, naive_mae.get(result.task.path)) for result in results)
    return StudyTable(kind.name, kind.title, " ".join([kind.note, READING, *_log_notes(results)]), headers, rows)


def _score_row(kind: ScoreKind, result: LogResult, naive_mae: float | None) -> tuple[TableCell, ...]:
    score = result.score
    relative = score.mae / naive_mae if naive_mae else None
    errors = score.mae, score.rmse, relative, fmean(score.pinball), 100 * score.coverage
    return (
        result.log,
        result.task.predictor,
        f"{score.count:,}",
        *map(_known, errors),
        _known(MEASURES[kind.measure](result)),
        result.cpu_s,
    )


def _known(value: float | None) -> float | None:
    """Return the value, None if it is NaN: nothing was measured."""
    return None if value is None or value != value else value


def _log_notes(results: Sequence[LogResult]) -> list[str]:
    """Return a sentence for each log of which something was assumed."""
    notes = {result.log: result.notes for result in results if result.notes}
    return [f"{log}: {'; '.join(said)}." for log, said in notes.items()]
