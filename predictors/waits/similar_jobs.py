"""The published predictor: the waits of jobs like it, or a ridge regression where they are unlike or disagree.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.1, after their
"Qespera", CCPE 28(9), 2016. Where the paper gives no number, it is that of the authors' published program.
"""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from predictors.port import Prediction
from predictors.state import State, joined, part_of
from predictors.waits.clusters import NO_ANSWER, clustered_wait_s
from predictors.waits.likeness import distances, scales
from predictors.waits.question import WaitOutcomes, WaitQuestions
from predictors.waits.ridge import ridge_at
from predictors.waits.spread import Spread
from predictors.waits.state_row import PUBLISHED
from predictors.waits.window import Window

HISTORY = 2000
FEWEST = 10
FARTHEST, FARTHER_BY = 0.6, 0.1

CLUSTER, RIDGE, NEAREST = 0, 1, 2
BASES = ("a cluster of like jobs", "ridge regression", "the most similar job")


class SimilarJobs:
    """Predicts from the last 2,000 jobs that started; the median is what the published method says."""

    name = "similar jobs"

    def __init__(self) -> None:
        self._history = Window(HISTORY, PUBLISHED)
        self._spread = Spread()

    def learn(self, outcome: WaitOutcomes, _at_s: int) -> None:
        """Take in jobs that started."""
        self._spread.learn(outcome)
        self._history.add(outcome.asked.rows[:, :PUBLISHED], outcome.wait_s)

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return the expected waits; 0 while no job has started."""
        wait_s, basis = np.zeros(len(question)), ("no job has started yet",) * len(question)
        if len(self._history):
            rows = np.ascontiguousarray(question.rows[:, :PUBLISHED])
            wait_s, number = _published(self._history.rows, self._history.wait_s, rows)
            basis = tuple(BASES[each] for each in number)
        return self._spread.around(question, wait_s, basis)

    def state(self) -> State:
        """Return the last jobs and the errors."""
        return joined({"history": self._history.state(), "spread": self._spread.state()})

    def restore(self, state: State) -> None:
        """Take over jobs and errors."""
        self._history.restore(part_of(state, "history"))
        self._spread.restore(part_of(state, "spread"))


@kernel
def _published(rows: Float64, wait_s: Float64, asked: Float64) -> tuple[Float64, Int64]:
    """Return the predicted wait [s] of each asked row, and on which of BASES it rests."""
    scale = scales(rows, wait_s)
    predicted_s, basis = np.empty(len(asked)), np.zeros(len(asked), dtype=np.int64)
    for number in range(len(asked)):
        distance = distances(rows, scale, asked[number])
        predicted_s[number] = clustered_wait_s(distance, wait_s)
        if predicted_s[number] == NO_ANSWER:
            predicted_s[number], basis[number] = _fitted(rows, wait_s, asked[number], distance)
    return predicted_s, basis


@kernel
def _fitted(rows: Float64, wait_s: Float64, asked: Float64, distance: Float64) -> tuple[float, int]:
    """Return what the ridge regression says; the nearest job's wait where it says less than nothing."""
    farthest = FARTHEST
    while farthest < 1 and (distance < farthest).sum() <= FEWEST * PUBLISHED:
        farthest += FARTHER_BY
    near = distance < farthest
    if near.sum() >= FEWEST:
        fitted_s = ridge_at(rows[near], wait_s[near], asked)
        if fitted_s > 0:
            return fitted_s, RIDGE
    return wait_s[distance.argmin()], NEAREST
