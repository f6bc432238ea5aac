"""An answer of Slurm in JSON, whatever version wrote it: numbers may be wrapped, states may be lists."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from plugin.slurm.ask import CannotAskSlurm

Record = Mapping[str, Any]


def records(answer: bytes, *names: str, source: str) -> list[Record]:
    """Return the records below the first of these names that the answer has.

    CannotAskSlurm if it is not JSON, has none of them, or lists an error: Slurm then leaves records out.
    """
    try:
        told = json.loads(answer)
    except ValueError:
        raise CannotAskSlurm(f"{source}: its answer is no JSON", hint='write read = "text" below [slurm]') from None
    errors = told.get("errors") if isinstance(told, dict) else ["no object"]
    if errors:
        raise CannotAskSlurm(f"{source}: {_said(errors)}", hint='write read = "text" below [slurm]')
    found = next((told[name] for name in names if isinstance(told.get(name), list)), None)
    if found is None:
        raise CannotAskSlurm(f"{source}: tells no {names[0]}", hint='write read = "text" below [slurm]')
    return [record for record in found if isinstance(record, dict)]


def number(record: Record, name: str) -> int | None:
    """Return a number, wrapped as {set, infinite, number} or not; None if it is not set or has no end."""
    value = record.get(name)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int | float) else None


def seconds(record: Record, name: str) -> int | None:
    """Return a time in Unix seconds; None for 0 too."""
    return number(record, name) or None


def text(record: Record, name: str) -> str:
    """Return a text, "" for none; of a list its words with commas."""
    value = record.get(name)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else ""


def words(record: Record, name: str) -> tuple[str, ...]:
    """Return a list of words, also where the answer has them in one text with commas."""
    return tuple(word for word in text(record, name).split(",") if word)


def _said(errors: object) -> str:
    first = errors[0] if isinstance(errors, Sequence) and errors else errors
    if isinstance(first, dict):
        return str(first.get("description") or first.get("error") or "an error without a text")
    return str(first)
