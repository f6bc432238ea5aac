"""What several of Slurm's answers have in common: words for nothing, times, numbers with a unit."""

import re
from datetime import UTC, datetime
from functools import lru_cache

NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN", "Never", "NOW"})
"""Words that stand where there is nothing."""

_LIMIT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_NUMBER = re.compile(r"(\d+)(?:\.\d+)?([KMGTP]?)")
_FACTORS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def plain(word: str) -> str:
    """Return the word, "" for one that stands for nothing."""
    return "" if word in NOTHING else word


def unix_s(word: str) -> int | None:
    """Return a time as Unix seconds, None if there is none: a number, or a time without a zone, taken for UTC."""
    return int(word) or None if word.isdecimal() else _written_s(word)


@lru_cache(maxsize=4096)
def _written_s(word: str) -> int | None:
    try:
        return int(datetime.fromisoformat(word).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def limit_s(word: str) -> int | None:
    """Return a time limit such as 1-02:03:04 or 30:00 in seconds; None where there is none, such as UNLIMITED."""
    if not (match := _LIMIT.fullmatch(word)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def count(word: str) -> int:
    """Return a number such as 12, the lower of 2-4, or 2K as 2048; 0 where there is none."""
    return int(word) if word.isdecimal() else _written_count(word)


@lru_cache(maxsize=4096)
def _written_count(word: str) -> int:
    match = _NUMBER.match(word)
    return int(match[1]) * 1024 ** _FACTORS[match[2]] if match else 0


@lru_cache(maxsize=4096)
def memory_mib(word: str) -> int:
    """Return a memory such as 1500M or 4G in MiB, 0 where there is none; a bare number is in MiB."""
    match = _NUMBER.match(word)
    return int(match[1]) * 1024 ** _FACTORS[match[2] or "M"] // 1024**2 if match else 0


@lru_cache(maxsize=4096)
def parts(word: str) -> tuple[str, ...]:
    """Return what a list with commas names."""
    return tuple(part for part in word.split(",") if part) if word not in NOTHING else ()
