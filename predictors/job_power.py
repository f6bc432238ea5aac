"""Predictors of the power that a job draws per allocated unit [W].

* `DeclaredPower`: one figure for all jobs, or one for each queue, whose nodes are often of one class. *
`JobPowerHistory`: the recent mean of the most similar jobs that there are. * `boosted_power`: boosted trees, from a
job's request and from the power of its user's earlier jobs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from predictors.port import EMPTY_STATE, Prediction, Predictor, State, certain, join_states, state_part
from predictors.recent_errors import OpenQuestions, RecentErrors
from predictors.trees.boosted import APPLICATION, SCHEDULE, SIZE, USER, BoostedTrees, categories
from predictors.trees.grow import GrowthSchedule
from predictors.trees.running_statistics import COMMON, COUNT, OF_A_TARGET, RECENT_MEAN, RunningStatistics

LEAST_W = 0.1
"""Less than a sleeping core draws; a lower meter value is invalid."""


def readings_w(jobs: Jobs) -> Float64:
    """Return the readings [W per allocated unit], float64[n], NaN if there is none or none that can be."""
    known = np.isfinite(jobs.node_power_w) & (jobs.node_power_w >= LEAST_W)
    return np.where(known, jobs.node_power_w, np.nan)


class DeclaredPower:
    """Every job draws `power_w` [W per allocated unit], except jobs of queues in `by_queue_w`."""

    def __init__(self, power_w: float, by_queue_w: Mapping[int, float] | None = None) -> None:
        self.name = "by class" if by_queue_w else "constant"
        self._power_w = power_w
        self._by_queue_w = dict(by_queue_w or {})

    def learn(self, _outcome: Jobs, _at_s: int) -> None:
        """Take no notice."""

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the declared draw of each job, as if it were certain."""
        drawn_w = [self._by_queue_w.get(queue, self._power_w) for queue in question.queue.tolist()]
        return certain(np.array(drawn_w, np.float64), "what the site declared")

    def state(self) -> State:
        """Return nothing."""
        return EMPTY_STATE

    def restore(self, _state: State) -> None:
        """Take no notice."""


FIELDS = COMMON + OF_A_TARGET


class JobSimilarity(NamedTuple):
    """Jobs that have these columns in common."""

    columns: tuple[int, ...]
    basis: str


KINDS = (
    JobSimilarity((USER, APPLICATION, SIZE), "jobs of the same user, name and size"),
    JobSimilarity((USER, APPLICATION), "jobs of the same user and name"),
    JobSimilarity((USER, SIZE), "jobs of the same user and size"),
    JobSimilarity((USER,), "jobs of the same user"),
    JobSimilarity((), "all jobs"),
)
"""From the closest to the most general: the first of which there is a job decides."""


class JobPowerHistory:
    """The recent mean of the closest kind of jobs, with quantiles by the recent errors of that kind.

    `at_first_w` [W per allocated unit] is predicted until a job with a reading has ended.
    """

    name = "history"

    def __init__(self, at_first_w: float) -> None:
        self._running = RunningStatistics(tuple(kind.columns for kind in KINDS), targets=1)
        self._at_first_w = at_first_w
        self._errors = [RecentErrors() for _ in range(len(KINDS) + 1)]
        self._open: OpenQuestions[tuple[int, float]] = OpenQuestions()

    def learn(self, outcome: Jobs, _at_s: int) -> None:
        """Take in jobs that ended, one after the other; those without a reading teach nothing."""
        power_w = readings_w(outcome)
        for job_id, came_w in zip(outcome.job_id.tolist(), power_w.tolist(), strict=True):
            given = self._open.take_out(job_id)
            if given is not None and came_w == came_w:
                kind, predicted_w = given
                self._errors[kind].add(float(np.log(came_w / predicted_w)), came_w - predicted_w)
        known = np.isfinite(power_w)
        self._running.learn(categories(outcome)[known], power_w[known, None])

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the power of the most similar kind of jobs [W per allocated unit]."""
        kind, predicted_w = self._closest(question)
        self._open.remember(question.job_id.tolist(), zip(kind.tolist(), predicted_w.tolist(), strict=True))
        factors = np.array([errors.factors() for errors in self._errors])[kind]
        shift_w = np.array([errors.shift() for errors in self._errors])[kind]
        basis = tuple(KINDS[each].basis if each < len(KINDS) else "no job yet" for each in kind.tolist())
        return Prediction(np.maximum(predicted_w + shift_w, LEAST_W), predicted_w[:, None] * factors, basis)

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
        """Return the number of the closest kind that has jobs, len(KINDS) if none has, and their recent mean [W]."""
        seen = self._running.of(categories(question)).reshape(-1, len(KINDS), FIELDS)
        known = seen[:, :, COUNT] > 0
        kind = np.where(known.any(axis=1), known.argmax(axis=1), len(KINDS))
        mean_w = seen[np.arange(len(question)), np.minimum(kind, len(KINDS) - 1), COMMON + RECENT_MEAN]
        return kind, np.where(kind < len(KINDS), mean_w, self._at_first_w)


@dataclass(frozen=True)
class JobPowerQuantity:
    """The power [W per allocated unit]; `at_first_w` is predicted before there are trees."""

    at_first_w: float
    edges: tuple[float, ...] = ()

    def actual(self, jobs: Jobs, /) -> Float64:
        """Return the readings, NaN if there are none."""
        return readings_w(jobs)

    def scale(self, jobs: Jobs, /) -> Float64:
        """Return 1 W."""
        return np.ones(len(jobs))

    def bounded(self, value: Float64, _jobs: Jobs, /) -> Float64:
        """Return the values, LEAST_W where they are less."""
        return np.maximum(value, LEAST_W)

    def at_first(self, jobs: Jobs, /) -> Float64:
        """Return the initial prediction."""
        return np.full(len(jobs), self.at_first_w)


def boosted_power(at_first_w: float, schedule: GrowthSchedule = SCHEDULE) -> BoostedTrees:
    """Return a predictor that has learned nothing."""
    return BoostedTrees("boosted", JobPowerQuantity(at_first_w), schedule=schedule)


POWER_PREDICTORS: tuple[Callable[[float], Predictor[Jobs, Jobs]], ...] = (DeclaredPower, JobPowerHistory, boosted_power)
"""Each makes a predictor that predicts the given power [W per allocated unit] until it has learned something."""
