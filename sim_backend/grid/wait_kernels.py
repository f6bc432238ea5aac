"""Kernels for the waits at a grid's site: the longest wait behind a queue, and the features of jobs.

Longest wait: when is there room behind a queue whose jobs all run for as long as they may, none before its turn?
Features: of the jobs that were submitted at a site, and of those that might be now.
"""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from predictors.waits.state_row import FEATURES, JobColumns, SubmittedJob, write_row
from sim_backend.engine.state import NEVER


class SiteJobs(NamedTuple):
    """The free units of a site, the running jobs by expected end, and the queue in order; a hole has size NEVER."""

    free: int
    held: Int64
    end_s: Int64
    size: Int64
    estimate_s: Int64


@kernel
def room_after_s(jobs: SiteJobs, now_s: int, units: Int64) -> Float64:
    """Start the queue in its order as soon as there is room; return after which wait [s] so many units are free."""
    free, held, end_s, size, estimate_s = jobs
    most = len(held) + len(size)
    ends, holds = np.empty(most, np.int64), np.empty(most, np.int64)
    ends[: len(held)], holds[: len(held)] = end_s, held
    listed, first, at_s = len(held), 0, now_s
    for job in range(len(size)):
        if size[job] == NEVER:
            continue
        while free < size[job]:
            at_s = max(at_s, ends[first])
            free += holds[first]
            first += 1
        free -= size[job]
        place = listed
        while place > first and ends[place - 1] > at_s + estimate_s[job]:
            ends[place], holds[place] = ends[place - 1], holds[place - 1]
            place -= 1
        ends[place], holds[place] = at_s + estimate_s[job], size[job]
        listed += 1
    wait_s = np.empty(len(units))
    for number in range(len(units)):
        room, event, from_s = free, first, at_s
        while room < units[number] and event < listed:
            room += holds[event]
            from_s = max(from_s, ends[event])
            event += 1
        wait_s[number] = from_s - now_s
    return wait_s


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
def rows_if_submitted_now(
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
