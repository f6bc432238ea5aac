"""A predictor of jobs by boosted trees: trained again as jobs end, with quantiles from its own recent errors.

The features of a job are its request, its hour, and the outcomes of similar jobs so far.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.predictors.port import (
    LEVELS,
    Composite,
    Prediction,
    Restorable,
    State,
    join_states,
    scalar_array,
    state_part,
)
from offpeak.predictors.recent_errors import ErrorsBySize, OpenQuestions
from offpeak.predictors.trees.forest import (
    Forest,
    Growth,
    GrowthSchedule,
    TrainingData,
    TrainingHistory,
    can_grow,
    forest_state,
    grow,
    no_trees,
    restore_forest,
)
from offpeak.predictors.trees.running_statistics import RunningStatistics
from offpeak.text import counted

WEEK_DAYS = 7

USER, GROUP, QUEUE, APPLICATION, SIZE, ESTIMATE = range(6)
KINDS = ((USER,), (USER, SIZE), (USER, ESTIMATE), (USER, SIZE, ESTIMATE), (USER, APPLICATION), (GROUP, QUEUE))
"""Jobs are similar if these columns are equal."""

REQUEST_COLUMNS = 4


def categories(jobs: Jobs) -> Int64:
    """Return the columns of which KINDS are made, int64[n, 6]."""
    return np.stack([jobs.user, jobs.group, jobs.queue, jobs.application, jobs.size, jobs.estimate_s], axis=1)


def _request(jobs: Jobs) -> Float64:
    """Return estimate and size as logarithms, hour and day of the week, both by the trace's own zero."""
    day = jobs.submit_s // DAY_S
    estimate, size = np.log(np.maximum(jobs.estimate_s, 1)), np.log(np.maximum(jobs.size, 1))
    return np.stack([estimate, size, (jobs.submit_s - day * DAY_S) / HOUR_S, day % WEEK_DAYS], axis=1)


MOST_ROWS = 200_000
GROWTH = Growth()
SCHEDULE = GrowthSchedule()


class TreeQuantity(Protocol):
    """The predicted quantity of jobs. The trees use its share of the `scale`."""

    @property
    def edges(self) -> tuple[float, ...]:
        """Predictions as a share of the scale are judged apart on either side of these, rising."""
        ...

    def actual(self, jobs: Jobs, /) -> Float64:
        """Return the actual quantity of each job that ended, NaN if unknown."""
        ...

    def scale(self, jobs: Jobs, /) -> Float64:
        """Return the positive scale of the quantity of each job."""
        ...

    def bounded(self, value: Float64, jobs: Jobs, /) -> Float64:
        """Return values float64[n, m] clipped to the possible range of each job, above zero if possible."""
        ...

    def at_first(self, jobs: Jobs, /) -> Float64:
        """Return the prediction before the first forest is grown, float64[n], above zero."""
        ...


class OpenJob(NamedTuple):
    """A job's features and prediction at the question, and the errors of its predictor, a forest or the first one."""

    features: Float64
    predicted: float
    errors: ErrorsBySize


class BoostedTrees(Composite):
    """Predicts a `quantity`. It keeps each question and prediction until the job ends, and then learns from them.

    It grows a forest within `learn`, which takes seconds: it serves replays and commands, not a loop.
    """

    def __init__(
        self, name: str, quantity: TreeQuantity, *, growth: Growth = GROWTH, schedule: GrowthSchedule = SCHEDULE
    ) -> None:
        self.name = name
        self.growth = growth
        self._quantity = quantity
        self._schedule = schedule
        self._can_grow, self._no_trees = can_grow(), no_trees()
        self._running = RunningStatistics(KINDS, targets=1)
        self._columns = self._running.columns + REQUEST_COLUMNS
        self._history = TrainingHistory(self._columns, MOST_ROWS)
        self._forest: Forest | None = None
        self._grown_from = 0
        self._due_at = schedule.least
        self._open: OpenQuestions[OpenJob] = OpenQuestions()
        self._errors = ErrorsBySize(quantity.edges)

    def learn(self, outcome: Jobs, _at_s: int) -> None:
        """Learn jobs that ended, one after the other, except those without a reading."""
        actual = self._quantity.actual(outcome)
        came = self._quantity.bounded(actual[:, None], outcome)[:, 0] / self._quantity.scale(outcome)
        category = categories(outcome)
        for row, job_id in enumerate(outcome.job_id.tolist()):
            open_job = self._open.take_out(job_id)
            if np.isnan(came[row]):
                continue
            if open_job is None:
                self._history.add(self._features(outcome.take(np.array([row])))[0], came[row])
            else:
                open_job.errors.add(open_job.predicted, float(came[row]))
                self._history.add(open_job.features, came[row])
            self._running.learn(category[row : row + 1], came[row : row + 1, None])
            if self._can_grow and self._history.count >= self._due_at:
                if self._forest is None:
                    self._errors = ErrorsBySize(self._quantity.edges)
                self._forest = grow(self.lessons(), self.growth)
                self._due_at = self._schedule.next_after(self._history.count)
                self._grown_from = min(self._history.count, MOST_ROWS)

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the prediction of the trees for each job, corrected by their latest errors."""
        features, scale = self._features(question), self._quantity.scale(question)
        predicted = self._predicted(question, features) / scale
        self._open.remember(
            question.job_id.tolist(),
            (OpenJob(*each, self._errors) for each in zip(features, predicted.tolist(), strict=True)),
        )
        corrected = np.array([self._errors.corrected(share) for share in predicted.tolist()])
        corrected = corrected.reshape(-1, 1 + len(LEVELS))
        value = self._quantity.bounded(corrected * scale[:, None], question)
        return Prediction(value[:, 0], value[:, 1:], (self._basis,) * len(question))

    @property
    def _basis(self) -> str:
        return f"trees grown from {counted(self._grown_from, 'job')}" if self._forest else self._no_trees

    def _predicted(self, question: Jobs, features: Float64) -> Float64:
        if self._forest is None:
            return self._quantity.at_first(question)
        value = self._forest.answer(features) * self._quantity.scale(question)
        return self._quantity.bounded(value[:, None], question)[:, 0]

    def lessons(self) -> TrainingData:
        """Return a copy of the latest MOST_ROWS outcomes and of their features at the time of the question."""
        return self._history.lessons()

    def _features(self, jobs: Jobs) -> Float64:
        """Return float64[n, columns] of jobs as submitted: each row depends on its own job alone."""
        return np.hstack([self._running.of(categories(jobs)), _request(jobs)])

    def parts(self) -> Mapping[str, Restorable]:
        """Return what is learned beside the forest."""
        return {"features": self._running, "history": self._history, "errors": self._errors}

    def state(self) -> State:
        """Return the whole state with the forest."""
        numbers = {"due_at": scalar_array(self._due_at), "grown_from": scalar_array(self._grown_from)}
        return {**numbers, **super().state(), **join_states({"forest": forest_state(self._forest)})}

    def restore(self, state: State) -> None:
        """Restore the whole state."""
        super().restore(state)
        self._forest = restore_forest(state_part(state, "forest"), self._columns)
        self._due_at, self._grown_from = int(state["due_at"]), int(state["grown_from"])
