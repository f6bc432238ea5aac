"""The published predictor of waits: the waits of similar jobs, or a ridge regression where they differ too much.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.1, after their
"Qespera", CCPE 28(9), 2016. Where the paper gives no number, it is that of the authors' published program
(mcmf-metascheduler-predictors).

Similarity is the Manhattan distance of the features, each relative to its range. DBSCAN over distance and wait finds
clusters among the most similar jobs. The ridge regression is least squares with a penalty on coefficients.
"""

import math
from collections.abc import Mapping

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.predictors.port import Composite, Prediction, Restorable, State, check_state
from offpeak.predictors.waits.questions import WaitOutcomes, WaitQuestions, WaitSpread
from offpeak.predictors.waits.states import PUBLISHED

HISTORY = 2000
FEWEST = 10
FARTHEST, FARTHER_BY = 0.6, 0.1
PENALTY = 0.1
REACH = 0.04
"""Two points of a cluster are so near: difference in distance plus difference in wait over the range of waits."""
NEAR = 0.2
NOISE_SHARE = 0.3
STEP = 0.04
NOISE = -1
NO_ANSWER = -1.0

CLUSTER, RIDGE, NEAREST = 0, 1, 2
BASES = ("a cluster of like jobs", "ridge regression", "the most similar job")


class SimilarJobs(Composite):
    """Predicts from the last 2,000 started jobs; the median is the prediction of the published method."""

    name = "similar jobs"

    def __init__(self) -> None:
        self._history = LatestRows(HISTORY, PUBLISHED)
        self._spread = WaitSpread()

    def learn(self, outcome: WaitOutcomes, _at_s: int) -> None:
        """Learn the waits of jobs that started."""
        self._spread.learn(outcome)
        self._history.add(outcome.questions.rows[:, :PUBLISHED], outcome.wait_s)

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return the expected waits; 0 while no job has started."""
        wait_s, basis = np.zeros(len(question)), ("no job has started yet",) * len(question)
        if len(self._history):
            scale = scales(self._history.rows, self._history.wait_s)
            answers = [self._answer(row, scale) for row in question.rows[:, :PUBLISHED]]
            wait_s, basis = np.array([answer for answer, _ in answers]), tuple(BASES[basis] for _, basis in answers)
        return self._spread.around(question, wait_s, basis)

    def _answer(self, question: Float64, scale: Float64) -> tuple[float, int]:
        """Return the wait [s] and the index of its basis in BASES."""
        rows, wait_s = self._history.rows, self._history.wait_s
        distance = distances(rows, scale, question)
        clustered_s = clustered_wait_s(distance, wait_s)
        if clustered_s != NO_ANSWER:
            return clustered_s, CLUSTER
        farthest = FARTHEST
        while farthest < 1 and np.count_nonzero(distance < farthest) <= FEWEST * PUBLISHED:
            farthest += FARTHER_BY
        near = distance < farthest
        if np.count_nonzero(near) >= FEWEST:
            fitted_s = ridge_at(rows[near], wait_s[near], question)
            if fitted_s > 0:
                return fitted_s, RIDGE
        return float(wait_s[distance.argmin()]), NEAREST

    def parts(self) -> Mapping[str, Restorable]:
        """Return the last jobs and the errors."""
        return {"history": self._history, "spread": self._spread}


class LatestRows:
    """Keeps at most `most` rows of `width` numbers, the oldest first."""

    def __init__(self, most: int, width: int) -> None:
        self._most = most
        # Twice the room: rows move to the front only once in `most` additions.
        self._rows = np.empty((2 * most, width))
        self._wait_s = np.empty(2 * most)
        self._end = 0

    def add(self, rows: Float64, wait_s: Int64) -> None:
        """Put rows at the end."""
        for row, wait in zip(rows, wait_s, strict=True):
            if self._end == len(self._rows):
                self._rows[: self._most] = self._rows[self._most :]
                self._wait_s[: self._most] = self._wait_s[self._most :]
                self._end = self._most
            self._rows[self._end] = row
            self._wait_s[self._end] = wait
            self._end += 1

    def __len__(self) -> int:
        return min(self._end, self._most)

    def state(self) -> State:
        """Return the rows and their waits."""
        return {"rows": self.rows.copy(), "wait_s": self.wait_s.copy()}

    def restore(self, state: State) -> None:
        """Take over rows and waits."""
        rows, wait_s = state["rows"], state["wait_s"]
        fits = wait_s.shape == (len(rows),) and len(rows) <= self._most and rows.shape[1:] == self._rows.shape[1:]
        check_state(is_so=fits, what="rows of another shape")
        self._end = len(rows)
        self._rows[: self._end], self._wait_s[: self._end] = rows, wait_s

    @property
    def rows(self) -> Float64:
        """The rows, float64[n, width]."""
        return self._rows[self._end - len(self) : self._end]

    @property
    def wait_s(self) -> Float64:
        """Their waits, float64[n]."""
        return self._wait_s[self._end - len(self) : self._end]


def scales(rows: Float64, wait_s: Float64) -> Float64:
    """Return by what to multiply the differences of each feature, float64[width].

    That is the absolute correlation with the wait over the range; the distance of any two of `rows` is then 1 at most.
    """
    extent = np.ptp(rows, axis=0)
    off, off_s = rows - rows.mean(axis=0), wait_s - wait_s.mean()
    both = np.sqrt((off**2).sum(axis=0) * (off_s**2).sum())
    weight = np.where(extent > 0, _quotient(np.abs(off_s @ off), both), 0.0)
    return _quotient(weight, extent) / (weight.sum() or 1.0)


def _quotient(value: Float64, divisor: Float64) -> Float64:
    """Return 0 where the divisor is 0."""
    return np.divide(value, divisor, out=np.zeros_like(value), where=divisor > 0)


def distances(rows: Float64, scale: Float64, question: Float64) -> Float64:
    """Return the root of the scaled Manhattan distance of each row from the question, float64[n]."""
    return np.sqrt(np.abs(rows - question) @ scale)


def clustered_wait_s(distance: Float64, wait_s: Float64) -> float:
    """Return the weighted mean wait of the most similar jobs, NO_ANSWER unless they are similar and agree.

    They agree if the nearest hundredth are alike, the less so the fewer noise points are among them. The answer is of
    the ring of width STEP whose waits spread least, of those that hold two jobs.
    """
    hundredth = len(distance) // 100
    near = np.flatnonzero(distance <= np.partition(distance, hundredth)[hundredth])[: hundredth + 1]
    label = clusters(distance[near], wait_s[near] / (np.ptp(wait_s) or 1.0))
    noise, mean_distance = label == NOISE, distance[near].mean()
    most_noise = NOISE_SHARE * np.count_nonzero(~noise) / max(len(np.unique(label)) - 1, 1)
    if mean_distance > NEAR if noise.any() else mean_distance >= NEAR + 0.1:
        return NO_ANSWER
    if noise.any() and np.count_nonzero(noise) >= most_noise:
        return NO_ANSWER
    kept = np.ones(len(distance), np.bool_)
    kept[near[noise]] = False
    nearest, distance, wait_s = distance.min(), distance[kept], wait_s[kept]
    answer, least = NO_ANSWER, np.inf
    for ring in range(math.ceil((NEAR - STEP - nearest) / STEP)):
        begin = nearest + ring * STEP
        inside = (distance >= begin) & (distance < begin + STEP)
        if np.count_nonzero(inside) > 1 and (spread := wait_s[inside].std()) < least:
            answer, least = float(np.average(wait_s[inside], weights=np.exp(-(distance[inside] ** 2)))), spread
    return answer


def clusters(distance: Float64, share: Float64) -> Int64:
    """Return each point's cluster, NOISE for one alone: DBSCAN with two points to a core, links within REACH."""
    near = np.abs(distance[:, None] - distance) + np.abs(share[:, None] - share) <= REACH
    label = np.full(len(distance), NOISE)
    for first in range(len(distance)):
        if label[first] != NOISE or np.count_nonzero(near[first]) == 1:
            continue
        unseen = [first]
        while unseen:
            found = np.flatnonzero(near[unseen.pop()] & (label == NOISE))
            label[found] = first
            unseen += found.tolist()
    return label


def ridge_at(rows: Float64, value: Float64, question: Float64) -> float:
    """Return the prediction by a ridge regression of `value` on the standardised features of `rows`."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    deviation[deviation == 0] = 1.0
    standard, middle = (rows - mean) / deviation, value.mean()
    products = standard.T @ standard + PENALTY * np.eye(rows.shape[1])
    coefficient = np.linalg.solve(products, standard.T @ (value - middle))
    return float(middle + coefficient @ ((question - mean) / deviation))
