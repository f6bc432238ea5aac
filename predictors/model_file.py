"""Saves predictors in files: their state as arrays in an .npz without pickle, so that reading one runs no code."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpeak.errors import BadInput
from offpeak.files import replacing
from predictors.port import Predictor, State, join_states, state_part

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

    Raises BadInput if the file is missing, damaged, of another version or another predictor's: then make a new
    predictor.
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
