"""The port of every predictor: learn what was, predict what will be, and say how wrong that may be.

An outcome is learned at the second at which it became known, never before; a question is asked at a second, and what
answers it knows nothing of later ones. The evaluator in predictors.scores keeps to that for all predictors alike.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from offpeak.model.arrays import Float64
from predictors.state import Learned

LEVELS = (0.1, 0.5, 0.9)
"""The shares of outcomes that are to lie below each quantile: the outer two enclose 80 %."""
MEDIAN = LEVELS.index(0.5)

Question = TypeVar("Question", contravariant=True)
Outcome = TypeVar("Outcome", contravariant=True)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is expected of each of n things that were asked about.

    `mean` float64[n]; `quantiles` float64[n, len(LEVELS)], rising along each row; `basis` says in words what each rests
    on, such as "the user's last two jobs". Where a few outcomes are far off the mean may lie outside all quantiles.
    """

    mean: Float64
    quantiles: Float64
    basis: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def point(self) -> Float64:
        """The figure that stands for each beside its range: the median, which always lies within it."""
        return self.quantiles[:, MEDIAN]


class Predictor(Learned, Protocol[Question, Outcome]):
    """Learns as time passes, and can be kept. Neither call changes what it is given."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def learn(self, outcome: Outcome, at_s: int) -> None:
        """Take in what has become known at that second; seconds never fall from call to call."""
        ...

    def predict(self, question: Question, at_s: int) -> Prediction:
        """Return what is expected, from what was learned so far."""
        ...


def certain(mean: Float64, basis: str) -> Prediction:
    """Return a prediction of which nothing is known but its mean: all quantiles are that."""
    return Prediction(mean, np.repeat(mean[:, None], len(LEVELS), axis=1), (basis,) * len(mean))
