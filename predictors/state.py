"""What a predictor has learned, as plain arrays by name: so it can be kept in a file that can run nothing.

Whom it was asked about and has not heard of since is no part of that: a restored predictor is not judged by them.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

State = Mapping[str, NDArray[Any]]

NOTHING: State = {}


class Learned(Protocol):
    """What can be taken apart into arrays and put together again."""

    def state(self) -> State:
        """Return what was learned; arrays that are not changed later."""
        ...

    def restore(self, state: State) -> None:
        """Take over what another of the same make had learned; KeyError or ValueError if it is no such state."""
        ...


def joined(parts: Mapping[str, State]) -> State:
    """Return the states of parts as one, each name behind that of its part."""
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def part_of(state: State, part: str) -> State:
    """Return the state of one part of a joined one."""
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}


def number(value: float) -> NDArray[Any]:
    """Return a number as an array that holds nothing else."""
    return np.array(value)


def check(*, is_so: bool, what: str) -> None:
    """Raise ValueError unless what was read can be."""
    if not is_so:
        raise ValueError(what)
