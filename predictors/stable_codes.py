"""Codes of users, groups, queues and programs that are the same in every log, so that what is learned can be kept."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs, LogNames

UNKNOWN = -1


def code_of(name: str | None) -> int:
    """Return the code of a name, -1 of None. In ten million sites of a million names one has two with the same code."""
    if name is None:
        return UNKNOWN
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 2


def by_name(jobs: Jobs, names: LogNames) -> Jobs:
    """Return the jobs with codes that hang on the names alone; a log of numbers is taken to call them so."""
    return replace(
        jobs,
        user=_coded(jobs.user, names.user),
        group=_coded(jobs.group, names.group),
        queue=_coded(jobs.queue, names.queue),
        application=_coded(jobs.application, names.application),
    )


def _coded(number: Int64, names: Sequence[str]) -> Int64:
    used, place = np.unique(number, return_inverse=True)
    codes = [code_of(_name(each, names)) for each in used.tolist()]
    return np.array(codes, np.int64)[place].reshape(number.shape)


def _name(number: int, names: Sequence[str]) -> str | None:
    if number < 0:
        return None
    return names[number] if number < len(names) else str(number)
