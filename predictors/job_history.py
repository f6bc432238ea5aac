"""Predicts a quantity of jobs by the recent mean of the most similar jobs that have ended."""

import math
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from predictors.port import Prediction, State, join_states, state_part
from predictors.recent_errors import LEAST, OpenQuestions, RecentErrors
from predictors.trees.boosted import TreeQuantity, categories
from predictors.trees.running_statistics import COMMON, COUNT, OF_A_TARGET, RECENT_MEAN, RunningStatistics

FIELDS = COMMON + OF_A_TARGET


class JobSimilarity(NamedTuple):
    """Jobs that have these columns of their `categories` in common."""

    columns: tuple[int, ...]
    basis: str


class JobHistory:
    """The recent mean of the closest kind of jobs, with quantiles by the recent errors of that kind.

    `kinds` go from the closest to the most general: the first of which there is a job decides. Means and errors are of
    the share of the quantity's scale. Before a job of any kind has ended, the quantity's first prediction is used.
    """

    def __init__(self, name: str, quantity: TreeQuantity, kinds: tuple[JobSimilarity, ...]) -> None:
        self.name = name
        self._quantity, self._kinds = quantity, kinds
        self._running = RunningStatistics(tuple(kind.columns for kind in kinds), targets=1)
        self._errors = [RecentErrors() for _ in range(len(kinds) + 1)]
        self._open: OpenQuestions[tuple[int, float]] = OpenQuestions()

    def learn(self, outcome: Jobs, _at_s: int) -> None:
        """Take in jobs that ended, one after the other; those without an outcome teach nothing."""
        actual = self._quantity.bounded(self._quantity.actual(outcome)[:, None], outcome)[:, 0]
        share = actual / self._quantity.scale(outcome)
        for job_id, came in zip(outcome.job_id.tolist(), share.tolist(), strict=True):
            given = self._open.take_out(job_id)
            if given is not None and came == came:
                kind, predicted = given
                self._errors[kind].add(math.log(max(came, LEAST) / max(predicted, LEAST)), came - predicted)
        known = np.isfinite(share)
        self._running.learn(categories(outcome)[known], share[known, None])

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return what the closest kind of jobs had."""
        kind, predicted = self._closest(question)
        self._open.remember(question.job_id.tolist(), zip(kind.tolist(), predicted.tolist(), strict=True))
        factors = np.array([errors.factors() for errors in self._errors])[kind]
        shift = np.array([errors.shift() for errors in self._errors])[kind]
        shares = np.column_stack([predicted + shift, predicted[:, None] * factors])
        value = self._quantity.bounded(shares * self._quantity.scale(question)[:, None], question)
        basis = tuple(self._kinds[each].basis if each < len(self._kinds) else "no job yet" for each in kind.tolist())
        return Prediction(value[:, 0], value[:, 1:], basis)

    def state(self) -> State:
        """Return the means of all kinds and the errors of each."""
        errors = {f"errors{kind}": errors.state() for kind, errors in enumerate(self._errors)}
        return join_states({"running": self._running.state(), **errors})

    def restore(self, state: State) -> None:
        """Take over means and errors."""
        self._running.restore(state_part(state, "running"))
        for kind, errors in enumerate(self._errors):
            errors.restore(state_part(state, f"errors{kind}"))

    def _closest(self, question: Jobs) -> tuple[Int64, Float64]:
        """Return the index of the closest kind that has jobs, len(kinds) if none has, and its mean share."""
        count = len(self._kinds)
        seen = self._running.of(categories(question)).reshape(-1, count, FIELDS)
        known = seen[:, :, COUNT] > 0
        kind = np.where(known.any(axis=1), known.argmax(axis=1), count)
        mean = seen[np.arange(len(question)), np.minimum(kind, count - 1), COMMON + RECENT_MEAN]
        at_first = self._quantity.at_first(question) / self._quantity.scale(question)
        return kind, np.where(kind < count, mean, at_first)
