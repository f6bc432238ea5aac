"""Parses the values that several of Slurm's answers have in common, in text and in JSON.

In text these are placeholders for a missing value, times, numbers with a unit, and the lines of `scontrol show config`.
In JSON it depends on the version of Slurm whether numbers are wrapped and whether states are lists.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from plugin.slurm.commands import CannotAskSlurm

NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN", "Never", "NOW"})
"""Slurm's placeholders for a missing value."""

_TIME_LIMIT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_NUMBER = re.compile(r"(\d+)(?:\.\d+)?([KMGTP]?)")
_FACTORS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def plain(text: str) -> str:
    """Return the text, "" for a placeholder."""
    return "" if text in NOTHING else text


def unix_s(text: str) -> int | None:
    """Return a time as Unix seconds, None if there is none: a number, or a time without a zone, read as UTC."""
    return int(text) or None if text.isdecimal() else _written_s(text)


@lru_cache(maxsize=4096)
def _written_s(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def limit_s(text: str) -> int | None:
    """Return a time limit such as 1-02:03:04 or 30:00 in seconds; None where there is none, such as UNLIMITED."""
    if not (match := _TIME_LIMIT.fullmatch(text)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def count(text: str) -> int:
    """Return a number such as 12, the lower of 2-4, or 2K as 2048; 0 where there is none."""
    return int(text) if text.isdecimal() else _written_count(text)


@lru_cache(maxsize=4096)
def _written_count(text: str) -> int:
    match = _NUMBER.match(text)
    return int(match[1]) * 1024 ** _FACTORS[match[2]] if match else 0


@lru_cache(maxsize=4096)
def memory_mib(text: str) -> int:
    """Return a memory such as 1500M or 4G in MiB, 0 where there is none; a bare number is in MiB."""
    match = _NUMBER.match(text)
    return int(match[1]) * 1024 ** _FACTORS[match[2] or "M"] // 1024**2 if match else 0


@lru_cache(maxsize=4096)
def parts(text: str) -> tuple[str, ...]:
    """Return the entries of a list with commas."""
    return tuple(part for part in text.split(",") if part) if text not in NOTHING else ()


def parse_config(text: bytes) -> dict[str, str]:
    """Return the configuration of slurmctld; "" for what is not set."""
    lines = (line.partition(" = ") for line in text.decode(errors="replace").splitlines())
    return {name.strip(): plain(value.strip()) for name, sign, value in lines if sign}


Record = Mapping[str, Any]


def json_records(answer: bytes, *names: str, source: str) -> list[Record]:
    """Return the records below the first of these names that the answer has.

    CannotAskSlurm if it is not JSON, has none of them, or lists an error: Slurm then leaves records out.
    """
    try:
        document = json.loads(answer)
    except ValueError:
        raise CannotAskSlurm(f"{source}: its answer is no JSON", hint='write read = "text" below [slurm]') from None
    errors = document.get("errors") if isinstance(document, dict) else ["no object"]
    if errors:
        raise CannotAskSlurm(f"{source}: {_first_error(errors)}", hint='write read = "text" below [slurm]')
    found = next((document[name] for name in names if isinstance(document.get(name), list)), None)
    if found is None:
        raise CannotAskSlurm(f"{source}: its answer has no {names[0]}", hint='write read = "text" below [slurm]')
    return [record for record in found if isinstance(record, dict)]


def get_number(record: Record, name: str) -> int | None:
    """Return a number, wrapped as {set, infinite, number} or not; None if it is not set or has no end."""
    value = record.get(name)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int | float) else None


def get_time_s(record: Record, name: str) -> int | None:
    """Return a time in Unix seconds; None for 0 too."""
    return get_number(record, name) or None


def get_text(record: Record, name: str) -> str:
    """Return a text, "" for none; a list becomes its entries with commas."""
    value = record.get(name)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else ""


def get_list(record: Record, name: str) -> tuple[str, ...]:
    """Return a list of texts, also where the answer has them in one text with commas."""
    return tuple(entry for entry in get_text(record, name).split(",") if entry)


def _first_error(errors: object) -> str:
    first = errors[0] if isinstance(errors, Sequence) and errors else errors
    if isinstance(first, dict):
        return str(first.get("description") or first.get("error") or "an error without a text")
    return str(first)
