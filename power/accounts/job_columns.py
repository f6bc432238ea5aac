"""Jobs of a scheduler as the columns that predictors learn from and are asked with."""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from plugin.scheduler.job import Job
from predictors.submitted_jobs import stable_code

UNLIMITED_S = 30 * 86_400
"""What a job without a limit is taken to ask for."""
UNKNOWN_S = -1
MOST_TEXTS = 1 << 16
"""Of so many texts the code is known: in each cycle most jobs are those of the last one."""
_NUMBERS = re.compile(r"\d+")


def columns(jobs: Sequence[Job], node_power_w: Float64 | None = None) -> Jobs:
    """Return the jobs in the order given; `node_power_w` [W per node] is what they drew, NaN and None for not known.

    Users, accounts, partitions and names are codes of their text, the same after every start. Numbers in a name count
    for nothing: a series sim_001, sim_002 is one program. The run time is that of jobs that have ended, else -1.
    """
    users, groups, queues, applications = (
        _coded(texts)
        for texts in (
            [job.user for job in jobs],
            [job.account for job in jobs],
            [job.partitions[0] if job.partitions else "" for job in jobs],
            [_series(job.name) for job in jobs],
        )
    )
    return Jobs(
        job_id=_coded([f"{job.job_id} {job.submit_s}" for job in jobs]),
        submit_s=_whole([job.submit_s for job in jobs]),
        runtime_s=_whole([_runtime_s(job) for job in jobs]),
        estimate_s=_whole([job.limit_s or UNLIMITED_S for job in jobs]),
        size=_whole([max(1, job.nodes) for job in jobs]),
        user=users,
        group=groups,
        queue=queues,
        application=applications,
        logged_start_s=_whole([UNKNOWN_S for _ in jobs]),
        node_power_w=np.full(len(jobs), np.nan) if node_power_w is None else node_power_w,
    )


def _runtime_s(job: Job) -> int:
    has_ended = job.start_s is not None and job.end_s is not None and job.end_s >= job.start_s
    return (job.end_s or 0) - (job.start_s or 0) if has_ended else UNKNOWN_S


def _whole(values: list[int]) -> Int64:
    return np.array(values, np.int64)


def _coded(texts: list[str]) -> Int64:
    return np.array([_code(text) for text in texts], np.int64)


@lru_cache(maxsize=MOST_TEXTS)
def _series(name: str) -> str:
    return _NUMBERS.sub("#", name)


_code = lru_cache(maxsize=MOST_TEXTS)(stable_code)
