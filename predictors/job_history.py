"""Predicts a quantity of jobs by the recent mean of the most similar jobs that have ended.

Predictors see only the data known at submission, with codes of users, groups, queues and programs that are equal in
every log, so that they can keep what they have learned.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place, index, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs, LogNames
from offpeak.predictors.port import Composite, Prediction, Restorable
from offpeak.predictors.recent_errors import LEAST, ErrorWindow, OpenQuestions, RecentErrors, add_error, new_windows
from offpeak.predictors.trees.boosted import TreeQuantity, categories
from offpeak.predictors.trees.running_statistics import (
    COMMON,
    COUNT,
    RECENT_MEAN,
    CategoryTable,
    RunningStatistics,
    category_key,
    find_slot,
)

UNKNOWN_S = -1


def jobs_at_submission(jobs: Jobs) -> Jobs:
    """Return the jobs without later data: run time and start are -1, the power is NaN, sizes are the requested ones."""
    unknown_s = np.full(len(jobs), UNKNOWN_S, np.int64)
    return replace(
        jobs,
        runtime_s=unknown_s,
        logged_start_s=unknown_s.copy(),
        node_power_w=np.full(len(jobs), np.nan),
        logged_size=None,
    )


UNKNOWN = -1


def stable_code(name: str | None) -> int:
    """Return the code of a name, -1 of None. In ten million sites of a million names one has two with the same code."""
    if name is None:
        return UNKNOWN
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 2


def with_stable_codes(jobs: Jobs, names: LogNames) -> Jobs:
    """Return the jobs with codes that hang on the names alone; a log of numbers is taken to call them so."""
    return replace(
        jobs,
        user=_coded(jobs.user, names.user),
        group=_coded(jobs.group, names.group),
        queue=_coded(jobs.queue, names.queue),
        application=_coded(jobs.application, names.application),
    )


def _coded(number: Int64, names: Sequence[str]) -> Int64:
    used, place = np.unique(number, return_inverse=True)
    codes = [stable_code(_name(each, names)) for each in used.tolist()]
    return np.array(codes, np.int64)[place].reshape(number.shape)


def _name(number: int, names: Sequence[str]) -> str | None:
    if number < 0:
        return None
    return names[number] if number < len(names) else str(number)


class JobSimilarity(NamedTuple):
    """Jobs that have these columns of their `categories` in common."""

    columns: tuple[int, ...]
    basis: str


@part
def closest_kind(table: CategoryTable, category: Int64) -> tuple[int, float]:
    """Return the first kind of which a job has ended and its recent mean; the number of kinds if there is none."""
    kinds = table.kinds
    for kind in range(len(kinds)):
        slot = find_slot(table.slot_key, category_key(category, kinds[kind], kind))
        if table.slot_key[index(slot)] != 0 and table.seen[index(slot), COUNT] > 0:
            return kind, float(table.seen[index(slot), COMMON + RECENT_MEAN])
    return len(kinds), math.nan


@part
def add_outcome(errors: ErrorWindow, kind: int, predicted: float, actual: float) -> None:
    """Add the error of a prediction by that kind; both are shares."""
    add_error(errors, kind, math.log(max(actual, LEAST) / max(predicted, LEAST)), actual - predicted)


@python_first
@in_place
def find_closest(table: CategoryTable, category: Int64, at_first: Float64, kind: Int64, share: Float64) -> None:
    """Write for each row of the categories the closest kind and its recent mean, `at_first` where there is none."""
    for row in range(len(category)):
        found, mean = closest_kind(table, category[row])
        kind[index(row)] = found
        share[index(row)] = mean if found < len(table.kinds) else at_first[index(row)]


@python_first
@in_place
def add_outcomes(errors: ErrorWindow, kind: Int64, predicted: Float64, actual: Float64) -> None:
    """Add the errors of predictions, in their order."""
    for row in range(len(kind)):
        add_outcome(errors, kind[index(row)], predicted[index(row)], actual[index(row)])


class JobHistory(Composite):
    """The recent mean of the closest kind of jobs, with quantiles by the recent errors of that kind.

    `kinds` go from the closest to the most general: the first of which there is a job decides. Means and errors are of
    the share of the quantity's scale. Before a job of any kind has ended, the quantity's first prediction is used.
    """

    def __init__(self, name: str, quantity: TreeQuantity, kinds: tuple[JobSimilarity, ...]) -> None:
        self.name = name
        self._quantity, self._kinds = quantity, kinds
        self._running = RunningStatistics(tuple(kind.columns for kind in kinds), targets=1)
        self._windows = new_windows(len(kinds) + 1)
        self._errors = [RecentErrors(self._windows, kind) for kind in range(len(kinds) + 1)]
        self._open: OpenQuestions[tuple[int, float]] = OpenQuestions()

    def learn(self, outcome: Jobs, _at_s: int) -> None:
        """Take in jobs that ended, one after the other; those without an outcome teach nothing."""
        actual = self._quantity.bounded(self._quantity.actual(outcome)[:, None], outcome)[:, 0]
        share = actual / self._quantity.scale(outcome)
        given = [
            (*answer, came)
            for job_id, came in zip(outcome.job_id.tolist(), share.tolist(), strict=True)
            if (answer := self._open.take_out(job_id)) is not None and came == came
        ]
        kind, predicted, came = np.array(given, np.float64).reshape(-1, 3).T
        add_outcomes(self._windows, kind.astype(np.int64), predicted.copy(), came.copy())
        known = np.isfinite(share)
        self._running.learn(categories(outcome)[known], share[known, None])

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return what the closest kind of jobs had."""
        kind, predicted = np.empty(len(question), np.int64), np.empty(len(question))
        at_first = self._quantity.at_first(question) / self._quantity.scale(question)
        find_closest(self._running.table, categories(question), at_first, kind, predicted)
        self._open.remember(question.job_id.tolist(), zip(kind.tolist(), predicted.tolist(), strict=True))
        factors = np.array([errors.factors() for errors in self._errors])[kind]
        shift = np.array([errors.shift() for errors in self._errors])[kind]
        shares = np.column_stack([predicted + shift, predicted[:, None] * factors])
        value = self._quantity.bounded(shares * self._quantity.scale(question)[:, None], question)
        basis = tuple(self._kinds[each].basis if each < len(self._kinds) else "no job yet" for each in kind.tolist())
        return Prediction(value[:, 0], value[:, 1:], basis)

    def parts(self) -> Mapping[str, Restorable]:
        """Return the means of all kinds and the errors of each."""
        return {"running": self._running, **{f"errors{kind}": each for kind, each in enumerate(self._errors)}}
