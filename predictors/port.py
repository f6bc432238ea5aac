"""The port of every predictor: learn outcomes, answer questions with quantiles, save the state as arrays.

An outcome is learned at the second at which it became known, never before; a question is put at a second, and its
answer uses nothing from later seconds. The evaluator in offpeak.predictors.scores enforces that for all predictors.

The state of a predictor is a mapping of arrays, so it is kept in an .npz file without pickle, which can run no code.
Open questions are no part of the state: a restored predictor is not judged by them.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.files import replacing
from offpeak.model.arrays import Float64

State = Mapping[str, NDArray[Any]]


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


class Composite:
    """An object whose state is that of its parts; one without parts has none."""

    def parts(self) -> Mapping[str, Restorable]:
        """Return the parts by their names in the state."""
        return {}

    def state(self) -> State:
        """Return the states of the parts."""
        return join_states({name: part.state() for name, part in self.parts().items()})

    def restore(self, state: State) -> None:
        """Restore each part."""
        for name, part in self.parts().items():
            part.restore(state_part(state, name))


class FixedPredictor(Composite):
    """A predictor that learns nothing."""

    def learn(self, _outcome: object, _at_s: int) -> None:
        """Take no notice."""


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


VERSION = 1
REMOVE = "remove the file: it is made again from the history"


@dataclass(frozen=True)
class ModelOrigin:
    """What a predictor learned from: `outcomes` known from `first_s` to `last_s` [Unix s or the log's], and its `mae`.

    The mean absolute error is that of its answers on the way, each given before the outcome was known.
    """

    outcomes: int
    first_s: int
    last_s: int
    mae: float


def save_model(path: Path, predictor: Predictor[Any, Any], origin: ModelOrigin) -> None:
    """Write the state of the predictor atomically. Raises CannotWrite."""
    about = {"version": np.array(VERSION), "name": np.array(predictor.name), **_numbers(origin)}
    with replacing(path) as file:
        np.savez(file, **join_states({"about": about, "state": predictor.state()}))  # type: ignore[arg-type]


def load_model(path: Path, predictor: Predictor[Any, Any]) -> ModelOrigin:
    """Let the predictor take over what `save_model` wrote of one of the same name, and return where that comes from.

    Raises BadInput if the file is missing, damaged, of another version or another predictor's: make a new one.
    """
    held = _read(path)
    about = state_part(held, "about")
    if about.get("version") != VERSION or about.get("name") != predictor.name:
        raise BadInput(f"{path}: holds no {predictor.name!r} of version {VERSION}", hint=REMOVE)
    try:
        predictor.restore(state_part(held, "state"))
        return ModelOrigin(*(about[name].item() for name in ModelOrigin.__dataclass_fields__))
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise BadInput(f"{path}: lacks a part: {problem}", hint=REMOVE) from None


def _read(path: Path) -> State:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file", hint=f"`ls {path.parent}` shows what is there") from None
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as problem:
        raise BadInput(f"{path}: cannot be read: {problem}", hint=REMOVE) from None


def _numbers(origin: ModelOrigin) -> dict[str, Any]:
    return {name: np.array(getattr(origin, name)) for name in ModelOrigin.__dataclass_fields__}
