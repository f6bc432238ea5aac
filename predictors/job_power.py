"""Predictors of the power that a job draws per allocated unit [W].

* `DeclaredPower`: one figure for all jobs.
* `power_history`: the recent mean of the most similar jobs that there are.
* `boosted_power`: boosted trees, from a job's request and from the power of its user's earlier jobs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.predictors.choice import ChosenPredictor
from offpeak.predictors.job_history import JobHistory, JobSimilarity
from offpeak.predictors.port import FixedPredictor, Prediction, Predictor, certain
from offpeak.predictors.trees.boosted import APPLICATION, SCHEDULE, SIZE, USER, BoostedTrees
from offpeak.predictors.trees.forest import GrowthSchedule

LEAST_W = 0.1
"""Less than a sleeping core draws; a lower meter value is invalid."""


def readings_w(jobs: Jobs) -> Float64:
    """Return the readings [W per allocated unit], float64[n], NaN if there is none or none that can be."""
    known = np.isfinite(jobs.node_power_w) & (jobs.node_power_w >= LEAST_W)
    return np.where(known, jobs.node_power_w, np.nan)


class DeclaredPower(FixedPredictor):
    """Every job draws `power_w` [W per allocated unit]."""

    name = "constant"

    def __init__(self, power_w: float) -> None:
        self._power_w = power_w

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the declared draw of each job, as if it were certain."""
        return certain(np.full(len(question), float(self._power_w)), "what the site declared")


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


KINDS = (
    JobSimilarity((USER, APPLICATION, SIZE), "jobs of the same user, name and size"),
    JobSimilarity((USER, APPLICATION), "jobs of the same user and name"),
    JobSimilarity((USER, SIZE), "jobs of the same user and size"),
    JobSimilarity((USER,), "jobs of the same user"),
    JobSimilarity((), "all jobs"),
)


def power_history(at_first_w: float) -> JobHistory:
    """Return a predictor that has learned nothing, and predicts `at_first_w` [W per allocated unit] until it has."""
    return JobHistory("history", JobPowerQuantity(at_first_w), KINDS)


def boosted_power(at_first_w: float, schedule: GrowthSchedule = SCHEDULE) -> BoostedTrees:
    """Return a predictor that has learned nothing."""
    return BoostedTrees("boosted", JobPowerQuantity(at_first_w), schedule=schedule)


POWER_PREDICTORS: tuple[Callable[[float], Predictor[Jobs, Jobs]], ...] = (DeclaredPower, power_history, boosted_power)
"""Each makes a predictor that predicts the given power [W per allocated unit] until it has learned something."""


def chosen_power(at_first_w: float) -> ChosenPredictor:
    """Return what the agent uses for jobs without a declared power: that of their node class, or of similar jobs."""
    others = (power_history(at_first_w),)
    return ChosenPredictor("job power", DeclaredPower(at_first_w), others, readings_w, naive_name="node class")
