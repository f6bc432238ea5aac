"""Parses the values that several answers of PBS have in common, and its three formats: text, JSON and XML.

The values are times, sizes, lists of hosts and the hints of a job's owner to us. `qstat -Q -f` and `qstat -B -f` print
names and values in both systems. OpenPBS's JSON has bytes as users wrote them, texts that became numbers, and lacks the
keys that are empty. In Torque's XML the environment of a single user can make the whole document ill-formed.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from plugin.pbs.commands import CannotAskPbs

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HINTS_VARIABLE = "OFFPEAK"
"""The variable of a job's environment in which its owner says what he allows: `qsub -v OFFPEAK=delay=12h`."""

_SIZE = re.compile(r"(\d+)([kmgtp]?)[bw]?", re.IGNORECASE)
_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_HOST = re.compile(r"([^+/(:]+)(?:[/:][^+]*)?\+?")


def as_text(value: object) -> str:
    """Return a field as text: what looks like a number was made one on the way."""
    return "" if value is None else str(value)


def as_int(value: object) -> int:
    """Return a whole number, 0 where there is none."""
    if isinstance(value, int | float):
        return int(value)
    return int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() else 0


@lru_cache(maxsize=65_536)
def ctime_s(written: str) -> int | None:
    """Return the Unix second of `Fri Nov 20 21:49:35 2026` in Greenwich's time; None for what is no such time."""
    try:
        _, month, day, clock, year = written.split()
        hour, minute, second = clock.split(":")
        at = datetime(int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None
    return int(at.timestamp())


@lru_cache(maxsize=4096)
def limit_s(value: str | int | float | None) -> int | None:
    """Return a walltime such as 48:00:00, 30:00 or 90 in seconds; None where there is none."""
    if isinstance(value, int | float):
        return int(value)
    seconds = 0
    for part in (value or "x").split(":"):
        if not part.isdecimal():
            return None
        seconds = seconds * 60 + int(part)
    return seconds


@lru_cache(maxsize=4096)
def memory_mib(value: str | int | None) -> int:
    """Return a size such as 24684092kb or 32gb in MiB, 0 where there is none; a bare number is in bytes."""
    match = _SIZE.fullmatch(as_text(value))
    return int(match[1]) * 1024 ** _EXPONENTS[match[2].lower()] // 1024**2 if match else 0


@lru_cache(maxsize=8192)
def hosts_of(placement: str) -> tuple[str, ...]:
    """Return the nodes, each once, of n003/0-3+n002/0, n001/0*4 or (n003:ncpus=4)+(n001:ncpus=4:mem=1kb)."""
    return tuple(dict.fromkeys(_HOST.findall(placement.replace("(", "").replace(")", ""))))


def has_dependency(depend: str) -> bool:
    """Whether a job waits for others: `beforeok` and its like only say that others wait for it."""
    return any(part and not part.startswith("before") for part in depend.split(","))


def hints_comment(value: str) -> str:
    """Return what the owner wrote into HINTS_VARIABLE as the comment that the queue hook reads."""
    words: Iterable[str] = (word for word in re.split(r"[,;\s]+", value) if word)
    return " ".join(f"offpeak:{word.removeprefix('offpeak:')}" for word in words)


AttributesByName = dict[str, dict[str, str]]

_STARTS = re.compile(r"^(?:Queue|Server): (.+)$", re.MULTILINE)
_FIELD = re.compile(r"^    (\S+) = (.*)$", re.MULTILINE)


def parse_attributes(answer: bytes) -> AttributesByName:
    """Return the fields of each queue, or of the server, by its name. Long lines are broken with a tab."""
    pieces = _STARTS.split(answer.decode(errors="replace").replace("\n\t", ""))[1:]
    return {name: dict(_FIELD.findall(rest)) for name, rest in zip(pieces[::2], pieces[1::2], strict=True)}


def execution_queues(queues: AttributesByName) -> tuple[str, ...]:
    """Return the queues whose jobs run; routing ones only hand jobs on."""
    return tuple(name for name, told in queues.items() if told.get("queue_type", "Execution").startswith("E"))


Record = Mapping[str, Any]


def parse_json(text: bytes, *, source: str) -> Record:
    """Return the answer; CannotAskPbs if it is no JSON object."""
    try:
        told = json.loads(text.decode(errors="replace"), strict=False)
    except ValueError as problem:
        raise CannotAskPbs(f"{source}: its answer is no JSON: {problem}", hint=f"run `{source}` by hand") from None
    if not isinstance(told, dict):
        raise CannotAskPbs(f"{source}: its answer is no object", hint=f"run `{source}` by hand")
    return told


def json_records(told: Record, key: str) -> dict[str, Record]:
    """Return the records below a key by their names; none where the key is absent, as it is when there is none."""
    found = told.get(key)
    return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def json_part(record: Record, key: str) -> Record:
    """Return what a record has below a key, {} for nothing."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}


# What XML 1.0 does not have, though Torque prints it as users wrote it.
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r")
_NO_CHARACTERS = str.maketrans("", "", "\ufffe\uffff")


def xml_records(answer: bytes, tag: str, *, source: str) -> list[ElementTree.Element]:
    """Return the elements of that name below the root, [] for no answer; CannotAskPbs where it is no XML."""
    plain = answer.translate(None, _CONTROLS).decode(errors="replace").translate(_NO_CHARACTERS).strip()
    if not plain:
        return []
    try:
        return ElementTree.fromstring(plain).findall(tag)
    except ElementTree.ParseError as problem:
        raise CannotAskPbs(f"{source}: its answer is no XML: {problem}", hint=f"run `{source}` by hand") from None


def xml_fields(element: ElementTree.Element) -> dict[str, str]:
    """Return the texts of an element's children by their names."""
    return {child.tag: child.text or "" for child in element}
