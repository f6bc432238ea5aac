"""The recent errors of a predictor, as quantiles of its next error; and its open questions until the job ends.

Conformal prediction over a sliding window: Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005;
for what drifts, Barber et al., "Conformal prediction beyond exchangeability", Annals of Statistics 51, 2023.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from offpeak.compiled import in_place, index, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.predictors.port import LEVELS, Composite, State, check_state, scalar_array

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


LENGTH, OLDEST, ASSUMED = range(3)


class ErrorWindow(NamedTuple):
    """The latest errors of one kind of prediction, or of several: then each array has a row for each kind.

    `log_error`, float64[WINDOW], and `shift`, actual - predicted, are rings of `counts[LENGTH]` values from
    `counts[OLDEST]` on, of which the oldest `counts[ASSUMED]` are assumed; `rising` has the same errors, sorted.
    """

    log_error: Float64
    shift: Float64
    rising: Float64
    counts: Int64

    def of_kind(self, kind: int) -> "ErrorWindow":
        """Return the errors of one of several kinds; what changes them changes these."""
        return ErrorWindow(*(column[kind] for column in self))


def new_windows(kinds: int) -> ErrorWindow:
    """Return the errors of so many kinds of which none has come yet."""
    log_error, rising, counts = np.zeros((kinds, WINDOW)), np.zeros((kinds, WINDOW)), np.zeros((kinds, 3), np.int64)
    log_error[:, : len(PRIOR)], rising[:, : len(PRIOR)] = PRIOR, sorted(PRIOR)
    counts[:, LENGTH] = counts[:, ASSUMED] = len(PRIOR)
    return ErrorWindow(log_error, np.zeros((kinds, WINDOW)), rising, counts)


@part
def first_not_below(rising: Float64, length: int, value: float) -> int:
    """Return the first place of the sorted values at which the value may be inserted."""
    low, high = 0, length
    while low < high:
        middle = (low + high) >> 1
        if rising[index(middle)] < value:
            low = middle + 1
        else:
            high = middle
    return low


@python_first
@in_place
def add_error(errors: ErrorWindow, kind: int, log_error: float, shift: float) -> None:
    """Add an error of that kind and its difference, actual - predicted; the oldest leaves a full window."""
    ring, rising, counts = errors.log_error[kind], errors.rising[kind], errors.counts[kind]
    length = counts[LENGTH]
    if counts[ASSUMED] > 0 or length == WINDOW:
        at = first_not_below(rising, length, ring[index(counts[OLDEST])])
        length -= 1
        while at < length:
            rising[index(at)] = rising[index(at + 1)]
            at += 1
        counts[OLDEST] = (counts[OLDEST] + 1) % WINDOW
        counts[ASSUMED] = max(0, counts[ASSUMED] - 1)
    newest = (counts[OLDEST] + length) % WINDOW
    ring[index(newest)] = log_error
    errors.shift[index(kind), index(newest)] = shift
    place = first_not_below(rising, length, log_error)
    for at in range(length, place, -1):
        rising[index(at)] = rising[index(at - 1)]
    rising[index(place)] = log_error
    counts[LENGTH] = length + 1


@python_first
@in_place
def error_factor(rising: Float64, length: int, level: float) -> float:
    """Return the factor that turns a prediction into its quantile at that level; it never falls with the level.

    The quantile is the empirical one, one further outwards to allow for the coming error.
    """
    place = (length + 1) * level
    outwards = math.floor(place) if level < 0.5 else math.ceil(place)
    return math.exp(rising[min(max(int(outwards) - 1, 0), length - 1)])


class RecentErrors:
    """The latest errors of one kind of prediction, as log(actual / predicted), and the error of the mean.

    They are those of a `kind` in `errors`; without these it has a window of its own.
    """

    def __init__(self, errors: ErrorWindow | None = None, kind: int = 0) -> None:
        self._all, self._kind = errors or new_windows(1), kind

    def add(self, log_error: float, shift: float) -> None:
        """Add an error and its difference, actual - predicted."""
        add_error(self._all, self._kind, log_error, shift)

    def factor(self, level: float) -> float:
        """Return the factor that turns a prediction into its quantile at that level; it never falls with the level."""
        own = self._all.of_kind(self._kind)
        return error_factor(own.rising, int(own.counts[LENGTH]), level)

    def factors(self) -> tuple[float, ...]:
        """Return the factor for each of LEVELS, rising."""
        return tuple(map(self.factor, LEVELS))

    def shift(self) -> float:
        """Return the correction that makes a prediction right on average."""
        own = self._all.of_kind(self._kind)
        length = int(own.counts[LENGTH])
        return math.fsum(own.shift[_by_age(own)].tolist()) / length

    def state(self) -> State:
        """Return the errors, the oldest first."""
        own = self._all.of_kind(self._kind)
        by_age = _by_age(own)
        return {
            "error": own.log_error[by_age],
            "shift": own.shift[by_age],
            "assumed": scalar_array(int(own.counts[ASSUMED])),
        }

    def restore(self, state: State) -> None:
        """Restore the errors."""
        errors, shifts, assumed = state["error"], state["shift"], state["assumed"].item()
        length = len(errors)
        fits = length == len(shifts) and 0 <= assumed <= length and 0 < length <= WINDOW
        check_state(is_so=fits and bool(np.isfinite([errors, shifts]).all()), what="no errors of a predictor")
        own = self._all.of_kind(self._kind)
        own.log_error[:length], own.shift[:length], own.rising[:length] = errors, shifts, np.sort(errors)
        own.counts[:] = length, 0, assumed


def _by_age(errors: ErrorWindow) -> Int64:
    """Return the places of the errors of one kind, the oldest first."""
    places: Int64 = (errors.counts[OLDEST] + np.arange(errors.counts[LENGTH])) % WINDOW
    return places


class ErrorsBySize(Composite):
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

    def parts(self) -> Mapping[str, RecentErrors]:
        """Return the errors of each size."""
        return {str(size): errors for size, errors in enumerate(self._errors)}

    def _errors_of(self, predicted: float) -> RecentErrors:
        return self._errors[bisect_right(self._edges, predicted)]
