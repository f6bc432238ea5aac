"""Job ids such as 31.head and 32[1].head as numbers: while a log is read, and as the ids of its jobs."""

import re
from collections import Counter

import numpy as np

from offpeak.model.arrays import Int64

LONGEST = 15  # digits of a number that an array of integers can hold
NUMBER = re.compile(rb"(?:0|[1-9][0-9]{0,8})(?![0-9])")  # so short that a key cannot overflow
UNNUMBERED = -1


class JobIds:
    """Splits each id into its number, UNNUMBERED if it begins with none, and a code for the rest, as ".head"."""

    def __init__(self) -> None:
        self._rests: dict[bytes, int] = {}

    def split(self, job: bytes) -> tuple[int, int]:
        """Return the number of an id and the code of the rest."""
        match = NUMBER.match(job)
        number, rest = (int(match[0]), job[match.end() :]) if match else (UNNUMBERED, job)
        return number, self._rests.setdefault(rest, len(self._rests))

    def keys(self, number: Int64, rest: Int64) -> Int64:
        """Return one number for each id, once all have been split; `number` is overwritten."""
        number -= UNNUMBERED
        number *= len(self._rests)
        number += rest
        return number

    def numbered(self, keys: Int64) -> tuple[Int64, dict[int, str]]:
        """Return a number for each job and, by number, the ids that are not just that number.

        The first 31.head is 31. Members of arrays, later runs and jobs of the same number on another server get numbers
        that no job has. The server is left out of an id where it is the one that most jobs belong to.
        """
        texts = tuple(self._rests)
        number, rest = np.divmod(keys, max(len(texts), 1))
        number += UNNUMBERED
        split = [text.partition(b".") for text in texts]
        home = _home([server for _, _, server in split], rest)
        is_home = np.array([server == home for _, _, server in split], bool)
        own = _own_numbers(number, rest, [short for short, _, _ in split])
        is_first = np.zeros(len(own), bool)
        is_first[np.unique(own, return_index=True)[1]] = True
        is_first &= own >= 0
        unused = 1 + int(own.max(initial=UNNUMBERED))
        others = np.flatnonzero(~is_first)
        own[others] = unused + np.arange(len(others))
        names = {}
        for row in np.flatnonzero(~is_first | ~is_home[rest]).tolist():
            begin = b"%d" % number[row] if number[row] >= 0 else b""
            end = split[rest[row]][0] if is_home[rest[row]] else texts[rest[row]]
            names[int(own[row])] = (begin + end).decode(errors="replace")
        return own, names


def _home(servers: list[bytes], rest: Int64) -> bytes:
    """Return the server that most jobs belong to, of several the one that comes first."""
    jobs: Counter[bytes] = Counter()
    count = np.bincount(rest, minlength=len(servers))
    first = np.full(len(servers), len(rest))
    first[rest[::-1]] = np.arange(len(rest) - 1, -1, -1)
    for code in np.argsort(first, kind="stable").tolist():
        jobs[servers[code]] += int(count[code])
    return max(jobs, key=jobs.__getitem__, default=b"")


def _own_numbers(number: Int64, rest: Int64, shorts: list[bytes]) -> Int64:
    """Return the numbers of the ids that are a number on a server, else UNNUMBERED; `shorts` end where that begins."""
    is_plain = np.array([not short for short in shorts], bool)
    # Where an id has leading zeros, or is long, the rest is all of it.
    padded = np.array([int(s) if s.isdigit() and len(s) <= LONGEST else UNNUMBERED for s in shorts], np.int64)
    return np.where(number < 0, padded[rest], np.where(is_plain[rest], number, UNNUMBERED))
