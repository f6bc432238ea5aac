"""An answer of OpenPBS in JSON: bytes as users wrote them, numbers that were texts, keys that are absent when empty."""

import json
from collections.abc import Mapping
from typing import Any

from plugin.pbs.ask import CannotAskPbs

Record = Mapping[str, Any]


def answer_of(text: bytes, *, source: str) -> Record:
    """Return the answer; CannotAskPbs if it is no JSON object."""
    try:
        told = json.loads(text.decode(errors="replace"), strict=False)
    except ValueError as problem:
        raise CannotAskPbs(f"{source}: its answer is no JSON: {problem}", hint=f"run `{source}` by hand") from None
    if not isinstance(told, dict):
        raise CannotAskPbs(f"{source}: its answer is no object", hint=f"run `{source}` by hand")
    return told


def records(told: Record, key: str) -> dict[str, Record]:
    """Return the records below a key by their names; none where the key is absent, as it is when there is none."""
    found = told.get(key)
    return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def part(record: Record, key: str) -> Record:
    """Return what a record has below a key, {} for nothing."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}
