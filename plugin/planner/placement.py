"""The job-based heuristic: places one job after the other in a given order, each at its earliest feasible start.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", algorithm 1. It moves through jobs where
rule-based schedulers move through time, so a wide job gets its place before narrow ones have taken it. Free capacity
over time is a step function with one row for each node and one more row for the power budget. `keep_what_fits` keeps
the places of an earlier plan where these are still free.
"""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place, kernel
from offpeak.model.arrays import Float64, Int64
from plugin.planner.problem import NO_LIMIT, TOMORROW, Plan, Problem, empty_plan, first_unit

ROOM = 64


class FreeCapacity(NamedTuple):
    """On row n, `cores[n, i]`, `memory_mb[n, i]` and `gpus[n, i]` are free from `at_s[n, i]` on, i < `length[n]`.

    The last row is the budget of power: its cores are watts. Every job asks for a core at least: where none is free the
    other figures mean nothing. `open_s[n]` is when the first core of row n is free.
    """

    length: Int64
    open_s: Int64
    at_s: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64


def initial_free_capacity(problem: Problem, room: int) -> FreeCapacity | None:
    """Return what is free beside the jobs that run; None if `room` steps a row are too few."""
    machine, rates, running = problem.machine, problem.rates, problem.running
    rows = len(machine) + 1
    free = FreeCapacity(
        np.ones(rows, np.int64), np.zeros(rows, np.int64), *(np.zeros((rows, room), np.int64) for _ in range(4))
    )
    free.cores[:-1, 0], free.memory_mb[:-1, 0], free.gpus[:-1, 0] = machine.cores, machine.memory_mb, machine.gpus
    steps = len(rates.cap_w)
    if steps >= room:
        return None
    free.length[-1], free.at_s[-1, :steps], free.cores[-1, :steps] = steps, rates.edge_s[:-1], rates.cap_w
    free.length[-1], free.at_s[-1, steps], free.cores[-1, steps] = steps + 1, rates.horizon_s, NO_LIMIT
    columns = (running.node, running.until_s, running.cores, running.memory_mb, running.gpus, watts(running.power_w))
    return free if occupy_all(free, *columns) else None


def watts(power_w: Float64) -> Int64:
    """Return whole watts, rounded up: a budget is never exceeded by rounding."""
    return np.ceil(power_w - 1e-6).astype(np.int64)


@in_place
def next_fit(
    free: FreeCapacity, row: int, from_s: int, latest_s: int, duration_s: int, cores: int, memory_mb: int, gpus: int
) -> int:
    """Return the first second from which on so much is free on the row for so long.

    It is `from_s` at the earliest, NO_LIMIT if it is later than `latest_s`.
    """
    at_s, last = free.at_s, free.length[row] - 1
    low, high = 0, last
    while low < high:
        middle = (low + high + 1) // 2
        if at_s[row, middle] <= from_s:
            low = middle
        else:
            high = middle - 1
    start_s = from_s
    step = low
    while True:
        if free.cores[row, step] < cores or free.memory_mb[row, step] < memory_mb or free.gpus[row, step] < gpus:
            if step == last or at_s[row, step + 1] > latest_s:
                return NO_LIMIT
            start_s = at_s[row, step + 1]
        elif step == last or at_s[row, step + 1] - start_s >= duration_s:
            return start_s
        step += 1


@in_place
def occupy(free: FreeCapacity, row: int, start_s: int, end_s: int, cores: int, memory_mb: int, gpus: int) -> bool:
    """Take so much from the row between these seconds; False, with nothing taken, if the row has no room for steps."""
    if free.length[row] + 2 > free.at_s.shape[1]:
        return False
    first = _cut(free, row, start_s)
    behind = _cut(free, row, end_s)
    for step in range(first, behind):
        free.cores[row, step] -= cores
        free.memory_mb[row, step] -= memory_mb
        free.gpus[row, step] -= gpus
    _join(free, row, first)
    return True


@in_place
def _join(free: FreeCapacity, row: int, first: int) -> None:
    """Join steps from `first` on with those before them where nobody sees the difference.

    Where no core is free nobody can start, whatever else is: such steps are one.
    """
    kept = max(first, 1) - 1
    for step in range(kept + 1, free.length[row]):
        if free.cores[row, step] == free.cores[row, kept] and (
            free.cores[row, step] == 0
            or (free.memory_mb[row, step] == free.memory_mb[row, kept] and free.gpus[row, step] == free.gpus[row, kept])
        ):
            continue
        kept += 1
        if kept < step:
            free.at_s[row, kept] = free.at_s[row, step]
            free.cores[row, kept] = free.cores[row, step]
            free.memory_mb[row, kept] = free.memory_mb[row, step]
            free.gpus[row, kept] = free.gpus[row, step]
    free.length[row] = kept + 1
    free.open_s[row] = free.at_s[row, 1] if free.cores[row, 0] == 0 and kept else 0


@in_place
def _cut(free: FreeCapacity, row: int, at_s: int) -> int:
    """Return the step that begins at that second, made if there is none."""
    step = int(free.length[row]) - 1
    while free.at_s[row, step] > at_s:
        step -= 1
    if free.at_s[row, step] == at_s:
        return step
    for later in range(free.length[row], step + 1, -1):
        free.at_s[row, later] = free.at_s[row, later - 1]
        free.cores[row, later] = free.cores[row, later - 1]
        free.memory_mb[row, later] = free.memory_mb[row, later - 1]
        free.gpus[row, later] = free.gpus[row, later - 1]
    step += 1
    free.at_s[row, step] = at_s
    free.cores[row, step] = free.cores[row, step - 1]
    free.memory_mb[row, step] = free.memory_mb[row, step - 1]
    free.gpus[row, step] = free.gpus[row, step - 1]
    free.length[row] += 1
    return step


@in_place
def occupy_all(
    free: FreeCapacity, node: Int64, until_s: Int64, cores: Int64, memory_mb: Int64, gpus: Int64, power_w: Int64
) -> bool:
    """Take what runs from the beginning on, unit by unit; False if a row has no room for steps."""
    budget = len(free.length) - 1
    for unit in range(len(node)):
        if not occupy(free, node[unit], 0, until_s[unit], cores[unit], memory_mb[unit], gpus[unit]):
            return False
        if power_w[unit] > 0 and not occupy(free, budget, 0, until_s[unit], power_w[unit], 0, 0):
            return False
    return True


REMEMBERED = 64
"""Failures that later jobs are compared with."""


def place_one_by_one(
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
        free = initial_free_capacity(problem, room)
        if free is not None and _place_all(
            free, order, *asked, capped, last_s, first_unit(work), plan.start_s, plan.node
        ):
            return plan
        room *= 2


@kernel
def _place_all(
    free: FreeCapacity,
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
    free: FreeCapacity,
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
def _earliest_of_one(
    free: FreeCapacity, when_s: Int64, from_s: int, latest_s: int, asked: tuple[int, int, int, int]
) -> int:
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


KEPT = "kept"


def keep_what_fits(problem: Problem, standing: Plan) -> Plan:
    """Return the plan with those jobs only that can start where and when `standing` has them, the earliest first.

    A place that lies before the job's release, behind its latest start or on a node -1 is none.
    """
    work, rates = problem.work, problem.rates
    latest_s = np.minimum(work.latest_end_s - work.duration_s, rates.horizon_s - 1)
    first = first_unit(work)
    timely = standing.placed & (standing.start_s >= work.release_s) & (standing.start_s <= latest_s)
    jobs = np.flatnonzero(timely)
    jobs = jobs[np.argsort(standing.start_s[jobs], kind="stable")]
    room = ROOM
    while True:
        plan, free = empty_plan(work, KEPT), initial_free_capacity(problem, room)
        columns = (work.duration_s, work.cores, work.memory_mb, work.gpus, watts(work.power_w), first)
        if free is not None and _keep_placed(
            free, jobs, *columns, standing.start_s, standing.node, plan.start_s, plan.node
        ):
            return plan
        room *= 2


@kernel
def _keep_placed(
    free: FreeCapacity,
    jobs: Int64,
    duration_s: Int64,
    cores: Int64,
    memory_mb: Int64,
    gpus: Int64,
    power_w: Int64,
    first: Int64,
    wanted_s: Int64,
    wanted_node: Int64,
    start_s: Int64,
    node: Int64,
) -> bool:
    """Write starts and nodes; False if a row of `free` has no room for steps."""
    budget = len(free.length) - 1
    for job in jobs:
        at_s, run_s = wanted_s[job], duration_s[job]
        fits = next_fit(free, budget, at_s, at_s, run_s, power_w[job], 0, 0) == at_s
        for unit in range(first[job], first[job + 1]):
            row = wanted_node[unit]
            if row < 0 or next_fit(free, row, at_s, at_s, run_s, cores[job], memory_mb[job], gpus[job]) != at_s:
                fits = False
                break
        if not fits:
            continue
        start_s[job] = at_s
        for unit in range(first[job], first[job + 1]):
            node[unit] = wanted_node[unit]
            if not occupy(free, wanted_node[unit], at_s, at_s + run_s, cores[job], memory_mb[job], gpus[job]):
                return False
        if not occupy(free, budget, at_s, at_s + run_s, power_w[job], 0, 0):
            return False
    return True
