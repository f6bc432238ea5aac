"""The published predictor of waits: the waits of similar jobs, or a ridge regression where they differ too much.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.1, after their
"Qespera", CCPE 28(9), 2016. Where the paper gives no number, it is that of the authors' published program
(mcmf-metascheduler-predictors).

Similarity is the Manhattan distance of the features, each relative to its range. DBSCAN over distance and wait finds
clusters among the most similar jobs. The ridge regression is least squares with a penalty on coefficients.
"""

from collections.abc import Mapping

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.predictors.port import Composite, Prediction, Restorable, State, check_state
from offpeak.predictors.waits.questions import WaitOutcomes, WaitQuestions, WaitSpread
from offpeak.predictors.waits.states import PUBLISHED


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


@kernel
def scales(rows: Float64, wait_s: Float64) -> Float64:
    """Return by what to multiply the differences of each feature, float64[width].

    That is the absolute correlation with the wait over the range; the distance of any two of `rows` is then 1 at most.
    """
    width = rows.shape[1]
    scale = np.zeros(width)
    weight = np.zeros(width)
    off_s = wait_s - wait_s.mean()
    for feature in range(width):
        # A contiguous column is read several times faster.
        column = rows[:, feature].copy()
        extent = column.max() - column.min()
        if extent > 0:
            weight[feature] = _correlation(column - column.mean(), off_s)
            scale[feature] = weight[feature] / extent
    return scale / weight.sum() if weight.sum() > 0 else scale


@kernel
def _correlation(x: Float64, y: Float64) -> float:
    """Return the absolute correlation of two columns of mean 0; 0 if one of them is constant."""
    product = x_square = y_square = 0.0
    for row in range(len(x)):
        product += x[row] * y[row]
        x_square += x[row] * x[row]
        y_square += y[row] * y[row]
    both = np.sqrt(x_square * y_square)
    return float(abs(product) / both) if both > 0 else 0.0


@kernel
def distances(rows: Float64, scale: Float64, questions: Float64) -> Float64:
    """Return the root of the scaled Manhattan distance of each row from `questions`, float64[n]."""
    distance = np.zeros(len(rows))
    for number in range(len(rows)):
        for feature in range(len(scale)):
            distance[number] += scale[feature] * abs(rows[number, feature] - questions[feature])
        distance[number] = np.sqrt(distance[number])
    return distance


REACH = 0.04
"""Two points of a cluster are so near: difference in distance plus difference in wait over the range of waits."""
NEAR = 0.2
NOISE_SHARE = 0.3
STEP = 0.04
NOISE = -1
NO_ANSWER = -1.0


@kernel
def clustered_wait_s(distance: Float64, wait_s: Float64) -> float:
    """Return the weighted mean wait of the most similar jobs, NO_ANSWER unless they are similar and agree."""
    extent_s = wait_s.max() - wait_s.min()
    limit = np.partition(distance, len(distance) // 100)[len(distance) // 100]
    near = np.flatnonzero(distance <= limit)[: len(distance) // 100 + 1]
    label = clusters(distance[near], wait_s[near] / (extent_s if extent_s > 0 else 1.0))
    if not _tight(distance[near].mean(), label):
        return NO_ANSWER
    kept = np.ones(len(distance), dtype=np.bool_)
    kept[near[label == NOISE]] = False
    return _steadiest_mean(distance[kept], wait_s[kept], distance.min())


@kernel
def clusters(distance: Float64, share: Float64) -> Int64:
    """Return each point's cluster, NOISE for one alone: DBSCAN with two points to a core, links within REACH."""
    label = np.full(len(distance), NOISE)
    unseen = np.empty(len(distance), dtype=np.int64)
    for first in range(len(distance)):
        if label[first] == NOISE:
            unseen[0] = first
            left = 1
            while left > 0:
                left -= 1
                left = _link(unseen, left, first, label, np.abs(distance - distance[unseen[left]]), share)
    return label


@kernel
def _link(unseen: Int64, left: int, first: int, label: Int64, apart: Float64, share: Float64) -> int:
    """Label the noise points within reach of the point at `left` of `unseen`; return their number."""
    point = unseen[left]
    for other in range(len(label)):
        if other != point and label[other] == NOISE and apart[other] + abs(share[other] - share[point]) <= REACH:
            label[point] = label[other] = first
            unseen[left] = other
            left += 1
    return left


@kernel
def _tight(mean_distance: float, label: Int64) -> bool:
    """Tell whether the nearest jobs are alike, the less so the fewer noise points are among them."""
    noise_count = (label == NOISE).sum()
    if noise_count == 0:
        return bool(mean_distance < NEAR + 0.1)
    found = max(len(np.unique(label)) - 1, 1)
    return bool(mean_distance <= NEAR and noise_count < NOISE_SHARE * (len(label) - noise_count) / found)


@kernel
def _steadiest_mean(distance: Float64, wait_s: Float64, nearest: float) -> float:
    """Return the weighted mean of the ring of width STEP whose waits spread least; NO_ANSWER if none holds two jobs."""
    answer, least = NO_ANSWER, np.inf
    for ring in range(int(np.ceil((NEAR - STEP - nearest) / STEP))):
        begin = nearest + ring * STEP
        inside = (distance >= begin) & (distance < begin + STEP)
        if inside.sum() > 1 and wait_s[inside].std() < least:
            least = wait_s[inside].std()
            weight = np.exp(-(distance[inside] ** 2))
            answer = (weight * wait_s[inside]).sum() / weight.sum()
    return float(answer)


PENALTY = 0.1


@kernel
def ridge_at(rows: Float64, value: Float64, questions: Float64) -> float:
    """Return predictions for `questions` by a ridge regression of `value` on the standardised features of `rows`."""
    standard, mean, deviation = _standardised(rows)
    middle = value.mean()
    products, towards = _normal_equations(standard, value - middle)
    coefficient = solved(products, towards)
    return float(middle + (coefficient * (questions - mean) / deviation).sum())


@kernel
def _standardised(rows: Float64) -> tuple[Float64, Float64, Float64]:
    """Return the rows with columns of mean 0 and deviation 1, and what the means and deviations were."""
    mean, deviation = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    standard = rows.copy()
    for feature in range(rows.shape[1]):
        mean[feature] = rows[:, feature].mean()
        spread = rows[:, feature].std()
        if spread > 0:
            deviation[feature] = spread
        standard[:, feature] = (rows[:, feature] - mean[feature]) / deviation[feature]
    return standard, mean, deviation


@kernel
def _normal_equations(standard: Float64, value: Float64) -> tuple[Float64, Float64]:
    """Return the penalised matrix of products, its lower half, and the right-hand side."""
    width = standard.shape[1]
    products, towards = PENALTY * np.eye(width), np.zeros(width)
    for number in range(len(standard)):
        for feature in range(width):
            towards[feature] += standard[number, feature] * value[number]
            for other in range(feature + 1):
                products[feature, other] += standard[number, feature] * standard[number, other]
    return products, towards


@kernel
def solved(lower: Float64, towards: Float64) -> Float64:
    """Return x of A x = `towards` by Cholesky's factors; of A, positive definite, the lower half is overwritten."""
    width = len(towards)
    x = towards.copy()
    for row in range(width):
        for column in range(row + 1):
            left = lower[row, column] - (lower[row, :column] * lower[column, :column]).sum()
            lower[row, column] = np.sqrt(left) if row == column else left / lower[column, column]
        x[row] = (x[row] - (lower[row, :row] * x[:row]).sum()) / lower[row, row]
    for row in range(width - 1, -1, -1):
        x[row] = (x[row] - (lower[row + 1 :, row] * x[row + 1 :]).sum()) / lower[row, row]
    return x


HISTORY = 2000
FEWEST = 10
FARTHEST, FARTHER_BY = 0.6, 0.1

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
            rows = np.ascontiguousarray(question.rows[:, :PUBLISHED])
            wait_s, number = _published(self._history.rows, self._history.wait_s, rows)
            basis = tuple(BASES[each] for each in number)
        return self._spread.around(question, wait_s, basis)

    def parts(self) -> Mapping[str, Restorable]:
        """Return the last jobs and the errors."""
        return {"history": self._history, "spread": self._spread}


@kernel
def _published(rows: Float64, wait_s: Float64, questions: Float64) -> tuple[Float64, Int64]:
    """Return the predicted wait [s] for each question row, and its index in BASES."""
    scale = scales(rows, wait_s)
    predicted_s, basis = np.empty(len(questions)), np.zeros(len(questions), dtype=np.int64)
    for number in range(len(questions)):
        distance = distances(rows, scale, questions[number])
        predicted_s[number] = clustered_wait_s(distance, wait_s)
        if predicted_s[number] == NO_ANSWER:
            predicted_s[number], basis[number] = _fitted(rows, wait_s, questions[number], distance)
    return predicted_s, basis


@kernel
def _fitted(rows: Float64, wait_s: Float64, questions: Float64, distance: Float64) -> tuple[float, int]:
    """Return the wait by ridge regression; the wait of the nearest job if that is negative."""
    farthest = FARTHEST
    while farthest < 1 and (distance < farthest).sum() <= FEWEST * PUBLISHED:
        farthest += FARTHER_BY
    near = distance < farthest
    if near.sum() >= FEWEST:
        fitted_s = ridge_at(rows[near], wait_s[near], questions)
        if fitted_s > 0:
            return fitted_s, RIDGE
    return wait_s[distance.argmin()], NEAREST
