"""The recent errors of a predictor, as quantiles of its next error; and its open questions until the job ends.

Conformal prediction over a sliding window: Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005;
for what drifts, Barber et al., "Conformal prediction beyond exchangeability", Annals of Statistics 51, 2023.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

import numpy as np

from predictors.port import LEVELS, State, check_state, join_states, scalar_array, state_part

MOST_OPEN = 100_000
"""Cancelled jobs never end: beyond this number the oldest questions are dropped."""

GivenAnswer = TypeVar("GivenAnswer")


class OpenQuestions(Generic[GivenAnswer]):
    """The first answer for each queried job, until it is taken out."""

    def __init__(self) -> None:
        self._open: dict[int, GivenAnswer] = {}

    def __len__(self) -> int:
        return len(self._open)

    def remember(self, job_ids: Iterable[int], predicted: Iterable[GivenAnswer]) -> None:
        """Store the answer for each job that has none yet."""
        for job_id, each in zip(job_ids, predicted, strict=True):
            self._open.setdefault(job_id, each)
        while len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]

    def take_out(self, job_id: int) -> GivenAnswer | None:
        """Remove and return the answer for the job; None if there is none."""
        return self._open.pop(job_id, None)


WINDOW = 500
LEAST = 1e-9
PRIOR = tuple(sorted((step / 10 for step in range(-10, 11)), key=abs, reverse=True))
"""Natural logarithms of actual / predicted from which it begins: a factor of e^0.9 either way encloses 80 %.

Each error that came takes the place of one of them, the outermost first.
"""


class RecentErrors:
    """The latest errors of one kind of prediction, as log(actual / predicted), and the error of the mean."""

    def __init__(self) -> None:
        self._errors = deque(PRIOR)
        self._rising = sorted(PRIOR)
        self._shifts = deque([0.0] * len(PRIOR))
        self._assumed = len(PRIOR)

    def add(self, log_error: float, shift: float) -> None:
        """Add an error and its difference, actual - predicted."""
        if self._assumed or len(self._errors) == WINDOW:
            del self._rising[bisect_left(self._rising, self._errors.popleft())]
            self._shifts.popleft()
            self._assumed = max(0, self._assumed - 1)
        self._errors.append(log_error)
        insort(self._rising, log_error)
        self._shifts.append(shift)

    def factor(self, level: float) -> float:
        """Return the factor that turns a prediction into its quantile at that level; it never falls with the level."""
        return math.exp(self._rising[_rank(level, len(self._rising))])

    def factors(self) -> tuple[float, ...]:
        """Return the factor for each of LEVELS, rising."""
        return tuple(map(self.factor, LEVELS))

    def shift(self) -> float:
        """Return the correction that makes a prediction right on average."""
        return math.fsum(self._shifts) / len(self._shifts)

    def state(self) -> State:
        """Return the errors, the oldest first."""
        return {
            "error": np.array(self._errors),
            "shift": np.array(self._shifts),
            "assumed": scalar_array(self._assumed),
        }

    def restore(self, state: State) -> None:
        """Restore the errors."""
        errors, shifts, assumed = state["error"].tolist(), state["shift"].tolist(), state["assumed"].item()
        fits = len(errors) == len(shifts) and 0 <= assumed <= len(errors) and errors
        check_state(is_so=bool(fits) and all(map(math.isfinite, errors + shifts)), what="no errors of a predictor")
        self._errors, self._rising, self._shifts = deque(errors), sorted(errors), deque(shifts)
        self._assumed = assumed


class ErrorsBySize:
    """Recent errors by the size of the prediction: the rising `edges` separate the sizes.

    `added` is added to both sides of each ratio, so that outcomes below it count as about the same.
    """

    def __init__(self, edges: tuple[float, ...], *, added: float = 0.0) -> None:
        self._edges, self._added = edges, added
        self._errors = [RecentErrors() for _ in range(len(edges) + 1)]

    def add(self, predicted: float, came: float) -> None:
        """Add a prediction and its outcome."""
        log_error = math.log(max(came + self._added, LEAST) / max(predicted + self._added, LEAST))
        self._errors_of(predicted).add(log_error, came - predicted)

    def corrected(self, predicted: float) -> tuple[float, ...]:
        """Return the mean and the quantiles at LEVELS for a prediction."""
        errors = self._errors_of(predicted)
        ratios = (factor * (predicted + self._added) - self._added for factor in errors.factors())
        return (predicted + errors.shift(), *ratios)

    def quantile(self, predicted: float, level: float) -> float:
        """Return the quantile at that level for a prediction."""
        return self._errors_of(predicted).factor(level) * (predicted + self._added) - self._added

    def state(self) -> State:
        """Return the errors of all sizes."""
        return join_states({str(size): errors.state() for size, errors in enumerate(self._errors)})

    def restore(self, state: State) -> None:
        """Restore the errors of all sizes."""
        for size, errors in enumerate(self._errors):
            errors.restore(state_part(state, str(size)))

    def _errors_of(self, predicted: float) -> RecentErrors:
        return self._errors[bisect_right(self._edges, predicted)]


def _rank(level: float, count: int) -> int:
    """Return the index of the empirical quantile, one further outwards to allow for the coming error."""
    place = (count + 1) * level
    outwards = math.floor(place) if level < 0.5 else math.ceil(place)
    return min(max(outwards - 1, 0), count - 1)
