"""The plan of a queue whose jobs start on awake nodes only: how many nodes to wake now, how many idle ones to keep.

A unit is free now, at the end of a job, after a boot, or after a shutdown and a boot. The waiting jobs are planned on
these times as EASY starts jobs. Sleeping nodes are woken for a job only where it starts earlier so, as few as it lacks
then, and just in time: a job waits for a node that is about to become free instead of a boot. An idle node is not put
to sleep before a start for which it would have to be woken at once. The idea is that of the power-state-aware scheduler
in arXiv 2512.13268.

The engine calls `plan_queue` within its own kernels, the live power loop in Python.
"""

from typing import NamedTuple

from offpeak.compiled import apart, index, part
from offpeak.model.arrays import Int64
from offpeak.plugin.capacity.rules import NEVER

MOST_PLANNED = 200
"""So many waiting jobs are planned: those behind them start long after the present decision."""


class PoolNow(NamedTuple):
    """Equal nodes now: free units of awake ones, how many sleep, and how long the slowest of these takes to come up.

    An idle node stays awake for a start at `keep_until_s` or before. `is_easy`: jobs may pass the first one that must
    wait, if they do not delay it.
    """

    now_s: int
    units_per_node: int
    idle_units: int
    asleep: int
    wake_s: int
    keep_until_s: int
    is_easy: bool


class PlannedJobs(NamedTuple):
    """The waiting jobs in the order of the queue: units, and seconds for which they are expected to hold them."""

    size: Int64
    hold_s: Int64


class ComingUnits(NamedTuple):
    """When nodes and planned jobs give units, in the order of time, and how many.

    There is room for two more entries for each planned job.
    """

    at_s: Int64
    units: Int64


@apart
def plan_queue(pool: PoolNow, queue: PlannedJobs, waiting: int, coming: ComingUnits, listed: int) -> tuple[int, int]:
    """Return how many nodes to wake now, and how many idle ones to keep awake.

    The queue has so many `waiting` jobs, and so many units are `listed` that are coming; the list is written over.
    """
    up_s = pool.now_s + pool.wake_s
    idle, asleep = pool.idle_units, pool.asleep
    first = wakes = kept = ready = extra = 0
    blocked = False
    shadow_s = NEVER
    for position in range(waiting):
        if idle == 0 and asleep == 0:
            break
        units = int(queue.size[index(position)])
        own = min(units, idle)
        found = own
        start_s = pool.now_s
        behind = first
        while found < units and behind < listed and coming.at_s[index(behind)] <= up_s:
            start_s = int(coming.at_s[index(behind)])
            found += int(coming.units[index(behind)])
            behind += 1
        needed = -(-max(0, units - found) // pool.units_per_node)
        if needed > 0:
            start_s = up_s
        end_s = start_s + max(1, int(queue.hold_s[index(position)]))
        if blocked and ((end_s > shadow_s and units > extra) or needed > asleep):
            continue
        if own == units:
            # It waits for its turn, or lets another job go first, which must not wait for it.
            ready = max(ready, units)
            continue
        if needed > asleep:
            blocked = True
            available = idle + found - own + asleep * pool.units_per_node
            shadow_s, extra = start_on(coming, behind, listed, available, units, up_s)
            extra -= units
            kept += own if shadow_s <= pool.keep_until_s else 0
            if not pool.is_easy:
                break
            continue
        if blocked and end_s > shadow_s:
            extra -= units
        idle -= own
        kept += own
        asleep -= needed
        wakes += needed
        first = behind
        if needed == 0 and found > units:
            first -= 1
            coming.units[index(first)] = found - units
        elif found + needed * pool.units_per_node > units:
            listed = list_units(coming, first, listed, up_s, found + needed * pool.units_per_node - units)
        listed = list_units(coming, first, listed, end_s, units)
    return wakes, -(-max(kept, ready) // pool.units_per_node)


@part
def list_units(coming: ComingUnits, first: int, listed: int, at_s: int, units: int) -> int:
    """Add units to the list, which has one entry for each second, from `first` on; return its new length."""
    place = listed
    while place > first and coming.at_s[index(place - 1)] > at_s:
        place -= 1
    if place > first and coming.at_s[index(place - 1)] == at_s:
        coming.units[index(place - 1)] += units
        return listed
    for later in range(listed, place, -1):
        coming.at_s[index(later)] = coming.at_s[index(later - 1)]
        coming.units[index(later)] = coming.units[index(later - 1)]
    coming.at_s[index(place)] = at_s
    coming.units[index(place)] = units
    return listed + 1


@part
def start_on(coming: ComingUnits, first: int, listed: int, available: int, units: int, from_s: int) -> tuple[int, int]:
    """Return when so many units are available, from a second on at which some are, and how many there are then.

    If all do not suffice, it is the last second at which some become free.
    """
    start_s = from_s
    for at in range(first, listed):
        if available >= units and coming.at_s[index(at)] > start_s:
            break
        start_s = max(start_s, coming.at_s[index(at)])
        available += coming.units[index(at)]
    return int(start_s), int(available)
