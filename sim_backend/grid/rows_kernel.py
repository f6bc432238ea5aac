"""The features of jobs at a site: of those that were submitted there, and of those that might be now."""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from predictors.waits.state_row import FEATURES, JobColumns, SubmittedJob, write_row


@kernel
def rows_as_submitted(known: tuple[JobColumns, Int64], alive: int, units: int, row: Int64, at_s: Int64) -> Float64:
    """Return the features of jobs of the site as they were submitted, float64[n, len(FEATURES)]."""
    jobs, end_s = known
    rows = np.zeros((len(row), len(FEATURES)))
    for number in range(len(row)):
        job = row[number]
        running, queued = _present(jobs, end_s, alive, job, at_s[number])
        write_row(
            rows[number], SubmittedJob(at_s[number], units, jobs.size[job], jobs.estimate_s[job]), jobs, running, queued
        )
    return rows


@kernel
def rows_asked_now(
    known: tuple[JobColumns, Int64], alive: int, units: int, now_s: int, size: Int64, estimate_s: Int64
) -> Float64:
    """Return the features of jobs that would be submitted now."""
    jobs, end_s = known
    rows = np.zeros((len(size), len(FEATURES)))
    running, queued = _present(jobs, end_s, alive, len(jobs.size), now_s)
    for number in range(len(size)):
        write_row(rows[number], SubmittedJob(now_s, units, size[number], estimate_s[number]), jobs, running, queued)
    return rows


@kernel
def _present(jobs: JobColumns, end_s: Int64, alive: int, behind: int, now_s: int) -> tuple[Int64, Int64]:
    """Return which of the jobs [alive, behind) run at that second, by expected end, and which wait."""
    running, queued = np.empty(behind - alive, np.int64), np.empty(behind - alive, np.int64)
    runs = waits = 0
    for job in range(alive, behind):
        if jobs.start_s[job] >= now_s:
            queued[waits] = job
            waits += 1
        elif end_s[job] > now_s:
            running[runs] = job
            runs += 1
    running = running[:runs]
    return running[np.argsort(jobs.expected_end_s[running], kind="mergesort")], queued[:waits]
