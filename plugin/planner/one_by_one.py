"""The job-based heuristic: one job after the other in a given order, each at its earliest feasible start.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", algorithm 1. It moves through jobs where
rule-based schedulers move through time, so a wide job gets its place before narrow ones have taken it.
"""

import numpy as np

from offpeak.compiled import in_place, kernel
from offpeak.model.arrays import Int64
from plugin.planner.free import ROOM, Free, free_at_first, next_fit, occupy, watts
from plugin.planner.plan import TOMORROW, Plan, empty_plan, first_unit
from plugin.planner.problem import NO_LIMIT, Problem

REMEMBERED = 64
"""Failures that later jobs are compared with."""


def one_by_one(
    problem: Problem, order: Int64, solver: str, *, not_before_s: Int64 | None = None, kept: Plan | None = None
) -> Plan:
    """Return the plan with each job of `order` at its earliest feasible start; other jobs are left for tomorrow.

    `not_before_s` holds starts back beyond the releases, int64[n]. Jobs that `kept` has placed stay where they are, and
    must not be in `order`.
    """
    work = problem.work
    from_s = work.release_s if not_before_s is None else np.maximum(work.release_s, not_before_s)
    latest_s = np.minimum(work.latest_end_s - work.duration_s, problem.rates.horizon_s - 1)
    asked = (from_s, latest_s, work.duration_s, work.units, work.cores, work.memory_mb, work.gpus, watts(work.power_w))
    capped = bool(np.any(problem.rates.cap_w < NO_LIMIT))
    last_s, room = problem.rates.horizon_s - 1, ROOM
    while True:
        plan = empty_plan(work, solver) if kept is None else Plan(kept.start_s.copy(), kept.node.copy(), solver)
        free = free_at_first(problem, room)
        if free is not None and _place_all(
            free, order, *asked, capped, last_s, first_unit(work), plan.start_s, plan.node
        ):
            return plan
        room *= 2


@kernel
def _place_all(
    free: Free,
    order: Int64,
    from_s: Int64,
    latest_s: Int64,
    duration_s: Int64,
    units: Int64,
    cores: Int64,
    memory_mb: Int64,
    gpus: Int64,
    power_w: Int64,
    capped: bool,
    last_s: int,
    first: Int64,
    start_s: Int64,
    node: Int64,
) -> bool:
    """Write starts and nodes; False if a row of `free` has no room for steps."""
    nodes = len(free.length) - 1
    when_s = np.empty(nodes, np.int64)
    failed = np.empty((REMEMBERED, 6), np.int64)
    failures = 0
    for job in np.flatnonzero(start_s != TOMORROW):
        end = start_s[job] + duration_s[job]
        for row in node[first[job] : first[job + 1]]:
            if not occupy(free, row, start_s[job], end, cores[job], memory_mb[job], gpus[job]):
                return False
        if capped and not occupy(free, nodes, start_s[job], end, power_w[job], 0, 0):
            return False
    wish = np.empty(6, np.int64)
    for job in order:
        wish[0], wish[1], wish[2] = cores[job], memory_mb[job], gpus[job]
        wish[3], wish[4], wish[5] = units[job], duration_s[job], from_s[job]
        if not capped and _hopeless(failed, min(failures, REMEMBERED), wish):
            continue
        asked = (duration_s[job], cores[job], memory_mb[job], gpus[job])
        power = power_w[job] if capped else 0
        at_s = _earliest(free, when_s, from_s[job], latest_s[job], units[job], asked, power)
        if at_s == TOMORROW:
            if latest_s[job] >= last_s:
                failed[failures % REMEMBERED] = wish
                failures += 1
            continue
        start_s[job] = at_s
        unit, end = first[job], at_s + duration_s[job]
        for row in range(nodes):
            if when_s[row] == at_s:
                if not occupy(free, row, at_s, end, cores[job], memory_mb[job], gpus[job]):
                    return False
                node[unit] = row
                unit += 1
                if unit == first[job + 1]:
                    break
        if capped and not occupy(free, nodes, at_s, end, power, 0, 0):
            return False
    return True


@in_place
def _hopeless(failed: Int64, remembered: int, wish: Int64) -> bool:
    """Return whether a job that asked for no more, no longer and no later has found no place: space only shrinks."""
    for each in range(remembered):
        harder = True
        for column in range(len(wish)):
            if wish[column] < failed[each, column]:
                harder = False
                break
        if harder:
            return True
    return False


@kernel
def _earliest(
    free: Free,
    when_s: Int64,
    from_s: int,
    latest_s: int,
    units: int,
    asked: tuple[int, int, int, int],
    power_w: int,
) -> int:
    """Return the earliest common start on so many nodes, TOMORROW if there is none by `latest_s`.

    The nodes that can start then have it in `when_s`.
    """
    duration_s, cores, memory_mb, gpus = asked
    nodes = len(when_s)
    if units > nodes:
        return TOMORROW
    when_s[:] = -1
    if units == 1 and power_w == 0:
        return _earliest_of_one(free, when_s, from_s, latest_s, asked)
    # Where no core is free nobody has to look: such a node is asked only when its first one is.
    asked_for = np.zeros(nodes, np.bool_)
    for row in range(nodes):
        when_s[row] = free.open_s[row]
    at_s = max(from_s, int(np.partition(when_s, units - 1)[units - 1]))
    while True:
        if power_w > 0:
            at_s = next_fit(free, nodes, at_s, latest_s, duration_s, power_w, 0, 0)
        if at_s > latest_s:
            return TOMORROW
        ready = 0
        for row in range(nodes):
            if when_s[row] < at_s or (when_s[row] == at_s and not asked_for[row]):
                asked_for[row] = True
                when_s[row] = next_fit(free, row, at_s, latest_s, duration_s, cores, memory_mb, gpus)
            if when_s[row] == at_s:
                ready += 1
                if ready == units:
                    return at_s
        # Before this second fewer nodes than that can start, whatever the budget says.
        at_s = int(np.partition(when_s, units - 1)[units - 1])


@kernel
def _earliest_of_one(free: Free, when_s: Int64, from_s: int, latest_s: int, asked: tuple[int, int, int, int]) -> int:
    """Return the earliest start on any node: no node is searched beyond the best one found before."""
    duration_s, cores, memory_mb, gpus = asked
    best_s = latest_s + 1
    for row in range(len(when_s)):
        if free.open_s[row] >= best_s:
            continue
        at_s = next_fit(free, row, from_s, best_s - 1, duration_s, cores, memory_mb, gpus)
        if at_s < best_s:
            when_s[row] = best_s = at_s
            if at_s == from_s:
                break
    return best_s if best_s <= latest_s else TOMORROW
