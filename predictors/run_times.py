"""The predictors of run times, by name: the user's estimate, similar jobs, and boosted trees beside the last two.

The trees predict the share of the estimate that a job uses, from its request and its user's past. The features are
those that Gaussier, Glesser, Reis and Trystram ("Improving backfilling by using machine learning to predict running
times", SC 2015) found relevant; the trees take the place of their linear model.

`LastTwo` is by the kernel that the engine inlines. Source: Tsafrir, Etsion, Feitelson, "Backfilling using
system-generated predictions rather than user runtime estimates", IEEE TPDS 18(6), 2007: the mean of the last two run
times of the same user, never above the user's estimate.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from offpeak.compiled import in_place, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from offpeak.predictors.choice import ChosenPredictor
from offpeak.predictors.job_history import JobHistory, JobSimilarity
from offpeak.predictors.port import FixedPredictor, Prediction, Predictor, State, certain, check_state
from offpeak.predictors.trees.boosted import APPLICATION, ESTIMATE, SCHEDULE, SIZE, USER, BoostedTrees
from offpeak.predictors.trees.forest import GrowthSchedule


@part
def learn_run_time(recent_s: Int64, user: int, runtime_s: int) -> None:
    """Remember a finished job. `recent_s` holds two run times [s] a user, the latest first, -1 if there is none."""
    recent_s[2 * user + 1] = recent_s[2 * user]
    recent_s[2 * user] = runtime_s


@part
def predict_run_time(recent_s: Int64, user: int, estimate_s: int) -> int:
    """Return the predicted run time [s], from 1 s to the estimate; the estimate itself without a history."""
    latest = recent_s[2 * user]
    earlier = recent_s[2 * user + 1]
    if latest < 0 or earlier < 0:
        return estimate_s
    return int(min(estimate_s, max(1, (latest + earlier) // 2)))


FIRST_USERS = 256
LAST_TWO, REQUESTED = "the user's last two jobs", "the user's estimate"


class LastTwo:
    """Remembers two run times a user. A user without two ended jobs is taken at their estimate."""

    name = "last two"

    def __init__(self) -> None:
        self._number: dict[int, int] = {}
        self._recent_s = np.full(2 * FIRST_USERS, -1, np.int64)

    def learn(self, outcome: Jobs, _at_s: int) -> None:
        """Take in the run times of jobs that ended, one after the other."""
        ended = outcome.take(outcome.runtime_s >= 0)
        number = np.array([self._numbered(user) for user in ended.user.tolist()], np.int64)
        learn_all(self._recent_s, number, ended.runtime_s)

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the predicted run times [s], as if they were certain."""
        number = np.array([self._number.get(user, -1) for user in question.user.tolist()], np.int64)
        found_s = question.estimate_s.copy()
        predict_all(self._recent_s, number, found_s)
        known = self._recent_s[2 * np.maximum(number, 0) + 1] >= 0
        basis = tuple(LAST_TWO if each else REQUESTED for each in (known & (number >= 0)).tolist())
        return replace(certain(found_s.astype(np.float64), ""), basis=basis)

    def state(self) -> State:
        """Return the users and two run times of each."""
        users = np.fromiter(self._number, np.int64, len(self._number))
        return {"users": users, "recent_s": self._recent_s.copy()}

    def restore(self, state: State) -> None:
        """Take over users and run times."""
        recent_s = np.array(state["recent_s"], np.int64)
        users = state["users"].tolist()
        in_pairs = recent_s.ndim == 1 and len(recent_s) % 2 == 0
        check_state(is_so=in_pairs and len(recent_s) >= max(2, 2 * len(users)), what="fewer run times than users")
        self._number = {user: number for number, user in enumerate(users)}
        self._recent_s = recent_s

    def _numbered(self, user: int) -> int:
        number = self._number.setdefault(user, len(self._number))
        if 2 * number == len(self._recent_s):
            self._recent_s = np.concatenate([self._recent_s, np.full(len(self._recent_s), -1, np.int64)])
        return number


@python_first
@in_place
def learn_all(recent_s: Int64, number: Int64, runtime_s: Int64) -> None:
    """Remember jobs that ended, of users numbered from 0."""
    for job in range(len(number)):
        learn_run_time(recent_s, number[job], runtime_s[job])


@python_first
@in_place
def predict_all(recent_s: Int64, number: Int64, found_s: Int64) -> None:
    """Turn estimates [s] into predictions where the user is known (-1 is not)."""
    for job in range(len(number)):
        if number[job] >= 0:
            found_s[job] = predict_run_time(recent_s, number[job], found_s[job])


UNLIMITED_S = 30 * DAY_S
"""The estimate that the agent assumes of a job without a time limit."""


class UserEstimate(FixedPredictor):
    """Predicts what users estimate."""

    name = "estimate"

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the estimates [s] as if they were certain."""
        return certain(question.estimate_s.astype(np.float64), "the user's estimate")


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
