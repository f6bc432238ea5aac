"""The jobs of a pool as a capacity policy sees them: those that run, and those that could start now, in their order."""

from collections.abc import Sequence

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.snapshot import QueuedJobs, RunningJobs
from plugin.scheduler.job import HOLDING, Job, JobState
from power.live.site import Sight

DAY_S = 86_400
"""What a job without a limit and without a prediction is taken to run."""

CANNOT_START = ("Dependency", "BeginTime", "JobHeld", "Assoc", "QOS", "Licenses", "Reservation", "Partition", "Account")
"""What the reasons begin with of jobs that no free node would help."""


def is_waiting(job: Job, now_s: int) -> bool:
    """Whether nothing but nodes is missing for the job to start."""
    if job.state is not JobState.PENDING or job.reservation or job.reason.startswith(CANNOT_START):
        return False
    return job.begin_s is None or job.begin_s <= now_s


def is_deferred(job: Job, now_s: int) -> bool:
    """Whether the job may start later only, at a time that is known."""
    return job.state is JobState.PENDING and job.begin_s is not None and job.begin_s > now_s


def holds_nodes(job: Job) -> bool:
    """Whether the job has nodes."""
    return job.state in HOLDING


def units_of(job: Job, units_per_node: int) -> int:
    """Return the units that a job has or asks for, one at least."""
    if units_per_node == 1:
        return max(job.nodes, 1)
    return max(job.nodes * units_per_node if job.whole_nodes else job.cpus, 1)


def running_jobs(jobs: list[tuple[Job, int]], sight: Sight, most_units: int) -> RunningJobs:
    """Return the columns of jobs with the units that they have, cut where all together have more than there are."""
    rows, left = [], most_units
    for job, units in sorted(jobs, key=lambda pair: _start_s(pair[0], sight.now_s)):
        size = min(units, left)
        left -= size
        start_s = _start_s(job, sight.now_s)
        if size > 0:
            rows.append((size, min(job.submit_s, start_s), start_s, _end_s(job, start_s, sight)))
    return RunningJobs(*_columns(rows, 4))


def queued_jobs(jobs: list[Job], sight: Sight, units_per_node: int, most_units: int) -> QueuedJobs:
    """Return the columns of the jobs that wait, the first to start first, without those that are too wide."""
    ordered = sorted(jobs, key=lambda job: (-job.priority, job.submit_s))
    sized = [(units_of(job, units_per_node), job) for job in ordered]
    rows = [
        (size, min(max(job.submit_s, job.begin_s or 0), sight.now_s), _run_s(job, sight))
        for size, job in sized
        if size <= most_units
    ]
    return QueuedJobs(*_columns(rows, 3))


def _start_s(job: Job, now_s: int) -> int:
    return now_s if job.start_s is None else job.start_s


def _run_s(job: Job, sight: Sight) -> int:
    limit_s = DAY_S if job.limit_s is None else job.limit_s
    return max(min(sight.run_s.get(job.job_id, limit_s), limit_s), 1)


def _end_s(job: Job, start_s: int, sight: Sight) -> int:
    """Return when a job that has nodes is expected to end: one that has outlived its prediction, at its limit."""
    predicted_s = start_s + _run_s(job, sight)
    if predicted_s > sight.now_s or job.job_id not in sight.run_s:
        return predicted_s
    return start_s + (DAY_S if job.limit_s is None else job.limit_s)


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Int64]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)
