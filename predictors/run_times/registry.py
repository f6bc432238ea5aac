"""The predictors of run times, by name: the user's estimate, similar jobs, and boosted trees beside the last two.

The trees predict the share of the estimate that a job uses, from its request and its user's past. The features are
those that Gaussier, Glesser, Reis and Trystram ("Improving backfilling by using machine learning to predict running
times", SC 2015) found relevant; the trees take the place of their linear model.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from predictors.choice import ChosenPredictor
from predictors.job_history import JobHistory, JobSimilarity
from predictors.port import EMPTY_STATE, Prediction, Predictor, State, certain
from predictors.run_times.last_two import LastTwo
from predictors.trees.boosted import APPLICATION, ESTIMATE, SCHEDULE, SIZE, USER, BoostedTrees
from predictors.trees.grow import GrowthSchedule

UNLIMITED_S = 30 * DAY_S
"""The estimate that the agent assumes of a job without a time limit."""


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


KINDS = (
    JobSimilarity((USER, APPLICATION, SIZE, ESTIMATE), "jobs of the same user, name, size and estimate"),
    JobSimilarity((USER, APPLICATION, ESTIMATE), "jobs of the same user, name and estimate"),
    JobSimilarity((USER, APPLICATION), "jobs of the same user and name"),
    JobSimilarity((USER,), "jobs of the same user"),
)


def similar_run_times() -> JobHistory:
    """Return a predictor that has learned nothing; users without ended jobs are taken at their estimate."""
    return JobHistory("similar jobs", RunTimeQuantity(), KINDS)


def boosted_run_time(schedule: GrowthSchedule = SCHEDULE) -> BoostedTrees:
    """Return a predictor that has learned nothing."""
    return BoostedTrees("boosted", RunTimeQuantity(), schedule=schedule)


RUN_TIME_PREDICTORS: tuple[Callable[[], Predictor[Jobs, Jobs]], ...] = (
    UserEstimate,
    LastTwo,
    similar_run_times,
    boosted_run_time,
)
"""Each makes a predictor that has learned nothing."""


def chosen_run_time() -> ChosenPredictor:
    """Return what the agent uses: the best of those that need no training, by their errors on its own jobs."""
    others = (LastTwo(), similar_run_times())
    return ChosenPredictor("run time", UserEstimate(), others, RunTimeQuantity().actual, naive_name="time limit")
