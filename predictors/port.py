"""The port of every predictor: learn outcomes, answer questions with quantiles, save the state as arrays.

An outcome is learned at the second at which it became known, never before; a question is put at a second, and its
answer uses nothing from later seconds. The evaluator in predictors.scores enforces that for all predictors.

The state of a predictor is a mapping of arrays, so it can be kept in a file that can run no code. Open questions are no
part of the state: a restored predictor is not judged by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64

State = Mapping[str, NDArray[Any]]

EMPTY_STATE: State = {}


class Restorable(Protocol):
    """An object whose state can be saved as arrays and restored."""

    def state(self) -> State:
        """Return the learned state as arrays that do not change later."""
        ...

    def restore(self, state: State) -> None:
        """Restore the state of an object of the same kind. Raises KeyError or ValueError if the state does not fit."""
        ...


def join_states(parts: Mapping[str, State]) -> State:
    """Join the states of parts; the name of the part precedes each key."""
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def state_part(state: State, part: str) -> State:
    """Return the state of one part of a joined state."""
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}


def scalar_array(value: float) -> NDArray[Any]:
    """Return a number as an array of one element."""
    return np.array(value)


def check_state(*, is_so: bool, what: str) -> None:
    """Raise ValueError if a restored state is invalid."""
    if not is_so:
        raise ValueError(what)


LEVELS = (0.1, 0.5, 0.9)
"""The probability levels of the quantiles: the outer two enclose 80 %."""
MEDIAN = LEVELS.index(0.5)

Question = TypeVar("Question", contravariant=True)
Outcome = TypeVar("Outcome", contravariant=True)


@dataclass(frozen=True, eq=False)
class Prediction:
    """The predictions for n questions.

    `mean` float64[n]; `quantiles` float64[n, len(LEVELS)], ascending along each row; `basis` describes the basis of
    each, such as "the user's last two jobs". With a few extreme outcomes the mean may be outside all quantiles.
    """

    mean: Float64
    quantiles: Float64
    basis: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def point(self) -> Float64:
        """The point prediction: the median, which is always within the range."""
        return self.quantiles[:, MEDIAN]


class Predictor(Restorable, Protocol[Question, Outcome]):
    """Learns outcomes and predicts; its state can be saved. Neither call changes its arguments."""

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def learn(self, outcome: Outcome, at_s: int) -> None:
        """Learn outcomes that became known at that second; seconds never decrease from call to call."""
        ...

    def predict(self, question: Question, at_s: int) -> Prediction:
        """Predict the outcomes of the questions from all outcomes learned so far."""
        ...


def certain(mean: Float64, basis: str) -> Prediction:
    """Return a prediction whose quantiles all equal its mean."""
    return Prediction(mean, np.repeat(mean[:, None], len(LEVELS), axis=1), (basis,) * len(mean))
