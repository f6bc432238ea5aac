"""The predictors of run times, by name: the user's estimate, and boosted trees beside the last two run times.

The trees predict the share of the estimate that a job uses, from its request and its user's past. The features are
those that Gaussier, Glesser, Reis and Trystram ("Improving backfilling by using machine learning to predict running
times", SC 2015) found relevant; the trees take the place of their linear model.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from predictors.port import EMPTY_STATE, Prediction, Predictor, State, certain
from predictors.run_times.last_two import LastTwo
from predictors.trees.boosted import SCHEDULE, BoostedTrees
from predictors.trees.grow import GrowthSchedule


class UserEstimate:
    """Learns nothing."""

    name = "estimate"

    def learn(self, _outcome: Jobs, _at_s: int) -> None:
        """Take no notice."""

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the estimates [s] as if they were certain."""
        return certain(question.estimate_s.astype(np.float64), "the user's estimate")

    def state(self) -> State:
        """Return nothing."""
        return EMPTY_STATE

    def restore(self, _state: State) -> None:
        """Take no notice."""


EDGES = (0.01, 0.03, 0.1, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class RunTimeQuantity:
    """The run time [s] as a share of the user's estimate: from a second to the estimate, as in backfilling."""

    edges: tuple[float, ...] = EDGES

    def actual(self, jobs: Jobs, /) -> Float64:
        """Return the run times, NaN where unknown."""
        return np.where(jobs.runtime_s < 0, np.nan, jobs.runtime_s)

    def scale(self, jobs: Jobs, /) -> Float64:
        """Return the estimates, at least a second."""
        return np.maximum(jobs.estimate_s, 1).astype(np.float64)

    def bounded(self, value: Float64, jobs: Jobs, /) -> Float64:
        """Return the values from a second to the estimate; the estimate where it is less than a second."""
        return np.minimum(np.maximum(value, 1.0), jobs.estimate_s[:, None])

    def at_first(self, jobs: Jobs, /) -> Float64:
        """Return the estimates."""
        return self.scale(jobs)


def boosted_run_time(schedule: GrowthSchedule = SCHEDULE) -> BoostedTrees:
    """Return a predictor that has learned nothing."""
    return BoostedTrees("boosted", RunTimeQuantity(), schedule=schedule)


RUN_TIME_PREDICTORS: tuple[Callable[[], Predictor[Jobs, Jobs]], ...] = (UserEstimate, LastTwo, boosted_run_time)
"""Each makes a predictor that has learned nothing."""
