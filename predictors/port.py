"""The port of every predictor: learn outcomes, answer questions with quantiles, keep what was learned as arrays.

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
    """What can be taken apart into arrays and put together again."""

    def state(self) -> State:
        """Return what was learned; arrays that are not changed later."""
        ...

    def restore(self, state: State) -> None:
        """Take over what another of the same make had learned; KeyError or ValueError if it is no such state."""
        ...


def join_states(parts: Mapping[str, State]) -> State:
    """Return the states of parts as one, each name behind that of its part."""
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def state_part(state: State, part: str) -> State:
    """Return the state of one part of a joined one."""
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}


def scalar_array(value: float) -> NDArray[Any]:
    """Return a number as an array that holds nothing else."""
    return np.array(value)


def check_state(*, is_so: bool, what: str) -> None:
    """Raise ValueError unless what was read can be."""
    if not is_so:
        raise ValueError(what)


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


class Predictor(Restorable, Protocol[Question, Outcome]):
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
