"""An exam: what is asked when, what becomes known when, and the answers that would have been right."""

from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64

Mask = NDArray[np.bool_]


class Rows(Protocol):
    """Rows of which some can be picked out, such as `Jobs`."""

    def __len__(self) -> int: ...

    def take(self, which: NDArray[np.bool_] | Int64, /) -> Self:
        """Return copies of the rows that the indices select."""
        ...


Asked = TypeVar("Asked", bound=Rows)
Known = TypeVar("Known", bound=Rows)


@dataclass(frozen=True, eq=False)
class Exam(Generic[Asked, Known]):
    """`questions` are asked at `asked_s` int64[n], `outcomes` become known at `known_s` int64[m]; both rise.

    `actual` float64[n] is what is right for each question, NaN where nobody knows.
    """

    questions: Asked
    asked_s: Int64
    actual: Float64
    outcomes: Known
    known_s: Int64

    def without(self, unanswered: Mask, untold: Mask) -> "Exam[Asked, Known]":
        """Return the exam without right answers for the questions `unanswered` and without the outcomes `untold`."""
        told = np.flatnonzero(~untold)
        actual = np.where(unanswered, np.nan, self.actual)
        return replace(self, actual=actual, outcomes=self.outcomes.take(told), known_s=self.known_s[told])
