"""A job's draw from jobs like it: the more alike, the better, and any at all rather than none."""

from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from predictors.asked import AskedJobs
from predictors.job_power.reading import LEAST_W, readings_w
from predictors.port import Prediction
from predictors.recent_errors import RecentErrors
from predictors.state import State, joined, part_of
from predictors.trees.job_features import APPLICATION, SIZE, USER, categories
from predictors.trees.running import RunningStatistics
from predictors.trees.running_kernel import COMMON, COUNT, OF_A_TARGET, RECENT_MEAN

FIELDS = COMMON + OF_A_TARGET


class Kind(NamedTuple):
    """Jobs that have these columns in common."""

    columns: tuple[int, ...]
    basis: str


KINDS = (
    Kind((USER, APPLICATION, SIZE), "jobs of the same user, name and size"),
    Kind((USER, APPLICATION), "jobs of the same user and name"),
    Kind((USER, SIZE), "jobs of the same user and size"),
    Kind((USER,), "jobs of the same user"),
    Kind((), "all jobs"),
)
"""From the closest to the most general: the first of which there is a job decides."""


class PowerHistory:
    """The recent mean of the closest kind of jobs, with quantiles by the recent errors of that kind.

    `at_first_w` [W per allocated unit] is said until a job with a reading has ended.
    """

    name = "history"

    def __init__(self, at_first_w: float) -> None:
        self._running = RunningStatistics(tuple(kind.columns for kind in KINDS), targets=1)
        self._at_first_w = at_first_w
        self._errors = [RecentErrors() for _ in range(len(KINDS) + 1)]
        self._asked: AskedJobs[tuple[int, float]] = AskedJobs()

    def learn(self, outcome: Jobs, _at_s: int) -> None:
        """Take in jobs that ended, one after the other; those without a reading teach nothing."""
        power_w = readings_w(outcome)
        for job_id, came_w in zip(outcome.job_id.tolist(), power_w.tolist(), strict=True):
            asked = self._asked.take_out(job_id)
            if asked is not None and came_w == came_w:
                kind, said_w = asked
                self._errors[kind].add(float(np.log(came_w / said_w)), came_w - said_w)
        known = np.isfinite(power_w)
        self._running.learn(categories(outcome)[known], power_w[known, None])

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return what is known of the closest kind of jobs [W per allocated unit]."""
        kind, said_w = self._closest(question)
        self._asked.remember(question.job_id.tolist(), zip(kind.tolist(), said_w.tolist(), strict=True))
        factors = np.array([errors.factors() for errors in self._errors])[kind]
        shift_w = np.array([errors.shift() for errors in self._errors])[kind]
        basis = tuple(KINDS[each].basis if each < len(KINDS) else "no job yet" for each in kind.tolist())
        return Prediction(np.maximum(said_w + shift_w, LEAST_W), said_w[:, None] * factors, basis)

    def state(self) -> State:
        """Return the means of all kinds and the errors of each."""
        errors = {f"errors{kind}": errors.state() for kind, errors in enumerate(self._errors)}
        return joined({"running": self._running.state(), **errors})

    def restore(self, state: State) -> None:
        """Take over means and errors."""
        self._running.restore(part_of(state, "running"))
        for kind, errors in enumerate(self._errors):
            errors.restore(part_of(state, f"errors{kind}"))

    def _closest(self, question: Jobs) -> tuple[Int64, Float64]:
        """Return the number of the closest kind that has jobs, len(KINDS) if none has, and their recent mean [W]."""
        seen = self._running.of(categories(question)).reshape(-1, len(KINDS), FIELDS)
        known = seen[:, :, COUNT] > 0
        kind = np.where(known.any(axis=1), known.argmax(axis=1), len(KINDS))
        mean_w = seen[np.arange(len(question)), np.minimum(kind, len(KINDS) - 1), COMMON + RECENT_MEAN]
        return kind, np.where(kind < len(KINDS), mean_w, self._at_first_w)
