"""Waits by boosted trees: the state, and how long jobs like it waited of late, on a logarithmic scale.

The trees answer with the median, and their latest errors, for short and long answers apart, give the quantiles.
"""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.text import counted
from predictors.port import Prediction, Restorable, State, join_states, scalar_array, state_part
from predictors.recent_errors import OpenQuestions
from predictors.trees.forest import (
    Forest,
    Growth,
    GrowthSchedule,
    TrainingHistory,
    can_grow,
    forest_state,
    grow,
    no_trees,
    restore_forest,
)
from predictors.trees.running_statistics import COMMON, RECENT_MEAN, RunningStatistics
from predictors.waits.questions import NO_JOB, WaitOutcomes, WaitQuestions, WaitSpread
from predictors.waits.states import FEATURES

MOST_ROWS = 200_000
GROWTH = Growth(loss="absolute_error")
SCHEDULE = GrowthSchedule(least=100)
ALL, USER, QUEUE, SIZE, ESTIMATE = range(5)
REQUEST = ("size", "estimate_s")
KINDS = ((ALL,), (USER,), (QUEUE,), (SIZE,), (SIZE, ESTIMATE), (USER, SIZE))
"""Jobs are similar if these are equal, size and estimate by powers of two."""

MEAN_OF_ALL = len(FEATURES) + COMMON + RECENT_MEAN


class BoostedWaits:
    """Predicts waits [s]. The features of a job at the first question are kept until it starts."""

    name = "boosted"

    def __init__(self, *, growth: Growth = GROWTH, schedule: GrowthSchedule = SCHEDULE) -> None:
        self._growth = growth
        self._schedule = schedule
        self._running = RunningStatistics(KINDS, targets=1)
        self._history = TrainingHistory(len(FEATURES) + self._running.columns, MOST_ROWS)
        self._open: OpenQuestions[Float64] = OpenQuestions()
        self._spread = WaitSpread()
        self._forest: Forest | None = None
        self._due_at = schedule.least
        self._can_grow, self._no_trees = can_grow(), no_trees()

    def learn(self, outcome: WaitOutcomes, _at_s: int) -> None:
        """Take in jobs that started, one after the other."""
        category, log_wait = categories(outcome.questions), np.log1p(outcome.wait_s)
        self._spread.learn(outcome)
        for row, job_id in enumerate(outcome.questions.job_id.tolist()):
            known = self._open.take_out(job_id)
            if known is None:
                known = self._known(outcome.questions.take(np.array([row])))[0]
            self._history.add(known, log_wait[row])
            self._running.learn(category[row : row + 1], log_wait[row : row + 1, None])
            if self._can_grow and self._history.count >= self._due_at:
                self._grow()

    def _grow(self) -> None:
        self._forest = grow(self._history.lessons(), self._growth)
        self._due_at = self._schedule.next_after(self._history.count)

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return the expected waits; until enough jobs have started, the mean of those so far."""
        known = self._known(question)
        real = question.job_id != NO_JOB
        self._open.remember(question.job_id[real].tolist(), known[real])
        log_wait = self._forest.answer(known) if self._forest else np.nan_to_num(known[:, MEAN_OF_ALL])
        trees = f"trees grown from {counted(self._history.count, 'job')}"
        basis = trees if self._forest else f"the mean so far, {self._no_trees}"
        return self._spread.around(question, np.maximum(np.expm1(log_wait), 0.0), (basis,) * len(question))

    def state(self) -> State:
        """Return all that was learned, the forest too."""
        parts: dict[str, Restorable] = {"running": self._running, "history": self._history, "spread": self._spread}
        states = {name: part.state() for name, part in parts.items()}
        return {"due_at": scalar_array(self._due_at), **join_states({**states, "forest": forest_state(self._forest)})}

    def restore(self, state: State) -> None:
        """Take over all of it."""
        self._running.restore(state_part(state, "running"))
        self._history.restore(state_part(state, "history"))
        self._spread.restore(state_part(state, "spread"))
        self._forest = restore_forest(state_part(state, "forest"), len(FEATURES) + self._running.columns)
        self._due_at = int(state["due_at"])

    def _known(self, question: WaitQuestions) -> Float64:
        return np.hstack([question.rows, self._running.of(categories(question))])


def categories(question: WaitQuestions) -> Int64:
    """Return the columns of which KINDS are made, int64[n, 5]."""
    request = np.log2(np.maximum(question.rows[:, : len(REQUEST)], 1.0)).astype(np.int64)
    return np.stack([np.zeros_like(question.user), question.user, question.queue, *request.T], axis=1)
