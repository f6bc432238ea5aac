"""Keys of services: read when they are needed, from the environment or from a file that nobody else can read."""

import os
from dataclasses import dataclass
from pathlib import Path

from predictors.feeds.condition import Condition, Trouble


@dataclass(frozen=True)
class KeyPlace:
    """Where a key is kept: the environment variable, and lines `VARIABLE=key` of a file of mode 0600."""

    variable: str
    file: Path | None = None


def read_key(place: KeyPlace, source: str) -> str | Trouble:
    """Return the key; the environment wins over the file."""
    if key := os.environ.get(place.variable, "").strip():
        return key
    if place.file is None:
        return Trouble(Condition.NO_KEY, source, f"{place.variable} is not set and no key file is named")
    try:
        return _key_in(place.file, place.variable, source)
    except (OSError, UnicodeDecodeError) as error:
        return Trouble(Condition.NO_KEY, source, f"{place.file} cannot be read: {type(error).__name__}")


def _key_in(file: Path, variable: str, source: str) -> str | Trouble:
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        return Trouble(Condition.NO_KEY, source, f"{file} can be read by others (mode {mode:04o})")
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, key = line.partition("=")
        if name.strip() == variable and key.strip():
            return key.strip()
    return Trouble(Condition.NO_KEY, source, f"{file} has no line {variable}=...")
