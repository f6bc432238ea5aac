"""What several of PBS's answers have in common: times, sizes, lists of hosts, the owner's words for us."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CONSENT = "OFFPEAK"
"""The variable of a job's environment in which its owner says what he allows: `qsub -v OFFPEAK=delay=12h`."""

_SIZE = re.compile(r"(\d+)([kmgtp]?)[bw]?", re.IGNORECASE)
_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_HOST = re.compile(r"([^+/(:]+)(?:[/:][^+]*)?\+?")


def text(value: object) -> str:
    """Return a field as text: what looks like a number was made one on the way."""
    return "" if value is None else str(value)


def number(value: object) -> int:
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
    match = _SIZE.fullmatch(text(value))
    return int(match[1]) * 1024 ** _EXPONENTS[match[2].lower()] // 1024**2 if match else 0


@lru_cache(maxsize=8192)
def hosts_of(placement: str) -> tuple[str, ...]:
    """Return the nodes, each once, of n003/0-3+n002/0, n001/0*4 or (n003:ncpus=4)+(n001:ncpus=4:mem=1kb)."""
    return tuple(dict.fromkeys(_HOST.findall(placement.replace("(", "").replace(")", ""))))


def hangs(depend: str) -> bool:
    """Whether a job waits for others: `beforeok` and its like only say that others wait for it."""
    return any(part and not part.startswith("before") for part in depend.split(","))


def consent_comment(value: str) -> str:
    """Return what the owner wrote into CONSENT as the comment that the queue hook reads."""
    words: Iterable[str] = (word for word in re.split(r"[,;\s]+", value) if word)
    return " ".join(f"offpeak:{word.removeprefix('offpeak:')}" for word in words)
