"""Keeps forests in files: arrays in an .npz without pickle, so that reading one can run nothing."""

import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from offpeak.errors import BadInput
from offpeak.files import replacing
from predictors.trees.forest import Forest, check

VERSION = 1
REMOVE = "remove the file: it is made again from the history"


@dataclass(frozen=True)
class Origin:
    """What a forest was grown from: `rows` outcomes known from `first_s` to `last_s` [Unix s], and its `mae` then."""

    rows: int
    first_s: int
    last_s: int
    mae: float


def save_forest(path: Path, forest: Forest, origin: Origin) -> None:
    """Write the forest so that the file is there as a whole or not at all; CannotWrite if it cannot be."""
    parts = {**_columns(forest), **{f"origin_{name}": value for name, value in _columns(origin).items()}}
    with replacing(path) as file:
        np.savez_compressed(file, version=VERSION, **parts)


def load_forest(path: Path) -> tuple[Forest, Origin]:
    """Return what `save_forest` wrote; BadInput if the file is missing, damaged or of another version."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            held = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file", hint=f"`ls {path.parent}` shows what is there") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise BadInput(f"{path}: cannot be read: {problem}", hint=REMOVE) from None
    if held.get("version") != VERSION:
        raise BadInput(f"{path}: is no forest of version {VERSION}", hint=REMOVE)
    return _interpreted(held, path)


def _interpreted(held: dict[str, Any], path: Path) -> tuple[Forest, Origin]:
    try:
        forest = Forest(**{column.name: _typed(held[column.name], column.name) for column in fields(Forest)})
        origin = Origin(**{column.name: held[f"origin_{column.name}"].item() for column in fields(Origin)})
    except (KeyError, ValueError, TypeError) as problem:
        raise BadInput(f"{path}: lacks a part: {problem}", hint=REMOVE) from None
    return check(forest, str(path)), origin


DTYPES = {"threshold": np.float64, "value": np.float64, "missing_left": np.bool_}
SCALARS = {"baseline": float, "columns": int}


def _typed(value: Any, name: str) -> Any:
    if name in SCALARS:
        return SCALARS[name](value.item())
    return np.ascontiguousarray(value, DTYPES.get(name, np.int32)).reshape(-1)


def _columns(value: Forest | Origin) -> dict[str, Any]:
    return {column.name: getattr(value, column.name) for column in fields(value)}
