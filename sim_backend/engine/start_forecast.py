"""Forecasts when one more job would start behind all jobs of a known EASY schedule.

Until it starts, such a job holds nothing and comes last in every pass, so it does not affect the others: one schedule
without it suffices for any number of jobs, each considered alone. All jobs run as long as expected and no more come, so
the first waiting job starts at its reservation.
"""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Int64

UNKNOWN = np.iinfo(np.int64).min


class KnownSchedule(NamedTuple):
    """Jobs as columns: first those that hold units, then those that wait, in the order of the queue."""

    start_s: Int64
    end_s: Int64
    size: Int64


class FreeUnitsSeries(NamedTuple):
    """The state after the pass of each second with an end: free units, and the first job that still waits.

    `extra` is the number of units that its reservation leaves over; UNKNOWN until needed.
    """

    at_s: Int64
    free: Int64
    first: Int64
    extra: Int64


@kernel
def start_times_of_one_more(known: KnownSchedule, now_s: int, units: int, size: Int64, estimate_s: Int64) -> Int64:
    """Return when each of n jobs, none wider than `units`, would start: int64[n]."""
    free_units = _free_units_series(known, now_s, units)
    start_s = np.empty_like(size)
    for number in range(len(size)):
        step = 0
        while not _start_times(known, free_units, step, units, size[number], estimate_s[number]):
            step += 1
        start_s[number] = free_units.at_s[step]
    return start_s


@kernel
def _free_units_series(known: KnownSchedule, now_s: int, units: int) -> FreeUnitsSeries:
    jobs = len(known.size)
    by_start, by_end = np.argsort(known.start_s, kind="mergesort"), np.argsort(known.end_s, kind="mergesort")
    at_s = np.unique(np.append(known.end_s, now_s))
    free, first = np.empty_like(at_s), np.empty_like(at_s)
    started = ended = waiting = 0
    left = units
    for step in range(len(at_s)):
        while started < jobs and known.start_s[by_start[started]] <= at_s[step]:
            left -= known.size[by_start[started]]
            started += 1
        while ended < jobs and known.end_s[by_end[ended]] <= at_s[step]:
            left += known.size[by_end[ended]]
            ended += 1
        while waiting < jobs and known.start_s[waiting] <= at_s[step]:
            waiting += 1
        free[step], first[step] = left, waiting
    return FreeUnitsSeries(at_s, free, first, np.full(len(at_s), UNKNOWN))


@kernel
def _start_times(
    known: KnownSchedule, free_units: FreeUnitsSeries, step: int, units: int, size: int, estimate_s: int
) -> bool:
    """Tell whether the job would start in this pass, beside the first waiting job or as the first one itself."""
    if size > free_units.free[step]:
        return False
    first = free_units.first[step]
    if first == len(known.size) or free_units.at_s[step] + estimate_s <= known.start_s[first]:
        return True
    if free_units.extra[step] == UNKNOWN:
        free_units.extra[step] = (
            units - known.size[first] - _held_beyond(known, free_units.at_s[step], known.start_s[first])
        )
    return bool(size <= free_units.extra[step])


@kernel
def _held_beyond(known: KnownSchedule, at_s: int, until_s: int) -> int:
    """Return how many units jobs that run at `at_s` hold beyond `until_s`."""
    held = 0
    for job in range(len(known.size)):
        if known.start_s[job] <= at_s and known.end_s[job] > until_s:
            held += known.size[job]
    return held
