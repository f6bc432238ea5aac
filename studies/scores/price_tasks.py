"""Scoring price forecasts, divided into tasks: one predictor on one file each, wherever it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.local_time import DAY_S
from predictors.port import Prediction, certain
from predictors.prices.models import LAST_WEEK, MEMBERS, SINGLE, Member
from predictors.prices.predictor import PricePredictor
from predictors.scores.evaluation import Score, compute_score, take_exam
from predictors.scores.exams import PriceExam, price_exam
from studies.scores.price_files import PriceFile, read_price_file

OURS: Mapping[str, tuple[Member, ...]] = {each.name: (each,) for each in SINGLE} | {"ensemble": MEMBERS}
"""The predictors that every file is scored with, by the names in the tables."""
ALL = "all"
# Of two years and more the first 52 weeks are only learned, of less the first week.
LONG_DAYS, LEARNED_OF_LONG, LEARNED_OF_SHORT = 728, 364, 7


@dataclass(frozen=True, eq=False)
class PriceTask:
    """Score that predictor, of OURS or published in the file; nothing where `refused` says why."""

    file: PriceFile
    predictor: str
    refused: str = ""


@dataclass(frozen=True)
class PriceResult:
    """What came of a task; `score` is None where `refused` says why, `cpu_s` is None where nothing was computed.

    `unit` and `clock` are the file's; of its first `learned_days` nothing is scored.
    """

    file: str
    unit: str
    clock: str
    learned_days: int
    predictor: str
    score: Score | None = None
    days: float = 0.0
    cpu_s: float | None = None
    refused: str = ""


def price_tasks(path: Path, start: str | None = None) -> tuple[PriceTask, ...]:
    """Return what there is to score on a price file; `start` as in `read_price_file`, which tells what is raised."""
    file = read_price_file(path, start=start)
    refused = _refused(file)
    if refused:
        return (PriceTask(file, ALL, refused),)
    return tuple(PriceTask(file, name) for name in (*OURS, *(name for name, _ in file.published)))


def _refused(file: PriceFile) -> str:
    price = file.history.price
    if np.nanmin(price) == np.nanmax(price):
        return "its price never changes: there is nothing to forecast"
    if len(_exam(file).questions) == 0:
        return f"it is too short: the first {LEARNED_OF_SHORT} days are only learned"
    return ""


def run_price_task(task: PriceTask) -> PriceResult:
    """Return the score of the task's predictor, or why it has none, such as that a package is missing."""
    file = task.file
    result = PriceResult(file.name, file.unit, file.clock, learned_days(file), task.predictor, refused=task.refused)
    if task.refused:
        return result
    exam = _exam(file)
    began_s = process_time()
    try:
        given = _given(task, exam)
    except BadInput as problem:
        return replace(result, refused=f"{problem}; {problem.hint}")
    cpu_s = process_time() - began_s if task.predictor in OURS else None
    score = _score(file, exam, given)
    return replace(result, score=score, days=score.count * exam.questions.step_s / DAY_S, cpu_s=cpu_s)


def _given(task: PriceTask, exam: PriceExam) -> Prediction:
    if task.predictor in OURS:
        return _answers(task.file, exam, OURS[task.predictor])
    published = dict(task.file.published)[task.predictor]
    return certain(published[len(published) - len(exam.questions) :], task.predictor)


def _score(file: PriceFile, exam: PriceExam, given: Prediction) -> Score:
    naive = certain(_answers(file, exam, (LAST_WEEK,)).mean, LAST_WEEK.name)
    # What was published may have gaps of its own.
    return compute_score(np.where(np.isnan(given.mean), np.nan, exam.actual), given, naive=naive)


def learned_days(file: PriceFile) -> int:
    """Return how many days are learned before the first one is scored."""
    steps = file.history.steps
    return LEARNED_OF_LONG if steps.end_s - steps.start_s >= LONG_DAYS * DAY_S else LEARNED_OF_SHORT


def _exam(file: PriceFile) -> PriceExam:
    return price_exam(file.history, file.zone, after_days=learned_days(file))


def _answers(file: PriceFile, exam: PriceExam, members: tuple[Member, ...]) -> Prediction:
    return take_exam(PricePredictor(file.zone, holidays=file.holidays, members=members), exam)
