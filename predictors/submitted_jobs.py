"""Jobs as predictors see them: only the data known at submission, with codes that are equal in every log.

Stable codes of users, groups, queues and programs let a predictor keep what it has learned.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs, LogNames

UNKNOWN_S = -1


def jobs_at_submission(jobs: Jobs) -> Jobs:
    """Return the jobs without later data: run time and start are -1, the power is NaN, sizes are the requested ones."""
    unknown_s = np.full(len(jobs), UNKNOWN_S, np.int64)
    return replace(
        jobs,
        runtime_s=unknown_s,
        logged_start_s=unknown_s.copy(),
        node_power_w=np.full(len(jobs), np.nan),
        logged_size=None,
    )


UNKNOWN = -1


def stable_code(name: str | None) -> int:
    """Return the code of a name, -1 of None. In ten million sites of a million names one has two with the same code."""
    if name is None:
        return UNKNOWN
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 2


def with_stable_codes(jobs: Jobs, names: LogNames) -> Jobs:
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
    codes = [stable_code(_name(each, names)) for each in used.tolist()]
    return np.array(codes, np.int64)[place].reshape(number.shape)


def _name(number: int, names: Sequence[str]) -> str | None:
    if number < 0:
        return None
    return names[number] if number < len(names) else str(number)
