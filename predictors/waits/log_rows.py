"""The features of all jobs of a log, each as it was submitted: from when jobs came, started and ended.

A job's state is what was decided before its second: of its second are known the earlier submissions and the ends, not
the starts.
"""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from predictors.waits.state_row import FEATURES, Asked, Columns, write_row


class Times(NamedTuple):
    """Jobs by when they leave the queue, and by when they leave the machine; `leave_s` is by job."""

    by_start: Int64
    by_leave: Int64
    leave_s: Int64


def log_rows(jobs: Jobs, start_s: Int64, end_s: Int64, *, units: int) -> Float64:
    """Return float64[n, len(FEATURES)] of n jobs that started and ended so on a machine of `units`."""
    # What starts in a second is seen to run in the next one, also if it has ended by then.
    leave_s = np.maximum(end_s, start_s + 1)
    times = Times(np.argsort(start_s, kind="stable"), np.argsort(leave_s, kind="stable"), leave_s)
    return _rows(Columns(jobs.size, jobs.submit_s, jobs.estimate_s, start_s, start_s + jobs.estimate_s), times, units)


@kernel
def _rows(jobs: Columns, times: Times, units: int) -> Float64:
    rows = np.zeros((len(jobs.size), len(FEATURES)))
    running, queued = np.empty_like(jobs.size), np.empty_like(jobs.size)
    held = waiting = started = left = 0
    for job in range(len(rows)):
        now_s = jobs.submit_s[job]
        while started < len(rows) and jobs.start_s[times.by_start[started]] < now_s:
            _insert(running, held, times.by_start[started], jobs.expected_end_s)
            held += 1
            started += 1
        while left < len(rows) and times.leave_s[times.by_leave[left]] <= now_s:
            held = _without(running, held, times.by_leave[left])
            left += 1
        waiting = _later_than(queued, waiting, jobs.start_s, now_s)
        # Logs are not free of jobs that hold more than there is.
        there = max(units, jobs.size[running[:held]].sum())
        asked = Asked(now_s, there, jobs.size[job], jobs.estimate_s[job])
        write_row(rows[job], asked, jobs, running[:held], queued[:waiting])
        queued[waiting] = job
        waiting += 1
    return rows


@kernel
def _insert(running: Int64, held: int, job: int, expected_end_s: Int64) -> None:
    """Put a job into the first `held` of `running`, by expected end."""
    place = held
    while place > 0 and expected_end_s[running[place - 1]] > expected_end_s[job]:
        running[place] = running[place - 1]
        place -= 1
    running[place] = job


@kernel
def _without(running: Int64, held: int, job: int) -> int:
    """Take a job out of the first `held` of `running`; return how many are left."""
    place = 0
    while running[place] != job:
        place += 1
    running[place : held - 1] = running[place + 1 : held].copy()
    return held - 1


@kernel
def _later_than(queued: Int64, waiting: int, start_s: Int64, now_s: int) -> int:
    """Keep, in their order, those of the first `waiting` that start at `now_s` or later; return how many."""
    kept = 0
    for place in range(waiting):
        queued[kept] = queued[place]
        kept += start_s[queued[place]] >= now_s
    return kept
