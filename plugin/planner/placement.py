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
from plugin.planner.problem import ALL_POOLS, NO_LIMIT, TOMORROW, Plan, Problem, Work, empty_plan, first_unit

ROOM = 64


class FreeCapacity(NamedTuple):
    """On row n, `cores[n, i]`, `memory_mb[n, i]` and `gpus[n, i]` are free from `at_s[n, i]` on, i < `length[n]`.

    The last row is the power budget: its cores are watts. Every job requests at least one core, so the other figures
    have no meaning while no core is free. `open_s[n]` is when the first core of row n is free, `pool[n]` the bit of its
    pool.
    """

    length: Int64
    open_s: Int64
    at_s: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64
    pool: Int64


class UnitResources(NamedTuple):
    """What a job needs of a row: of a node cores, memory and GPUs, of the power budget watts in place of cores.

    `pools` are the bits of the pools whose nodes it may use.
    """

    cores: int
    memory_mb: int
    gpus: int
    pools: int


class WorkColumns(NamedTuple):
    """The jobs as the kernels take them: a start within [from_s, latest_s]; `first[job]` is the job's first unit."""

    from_s: Int64
    latest_s: Int64
    duration_s: Int64
    units: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64
    pools: Int64
    power_w: Int64
    first: Int64


class UnitDemand(NamedTuple):
    """The demand of one job in the search for a start; `power_w` is 0 without a power budget."""

    from_s: int
    latest_s: int
    duration_s: int
    units: int
    resources: UnitResources
    power_w: int


class Places(NamedTuple):
    """The start of each job, and the node of each unit."""

    start_s: Int64
    node: Int64


def initial_free_capacity(problem: Problem, room: int) -> FreeCapacity | None:
    """Return the free capacity besides the running jobs; None if `room` steps per row are too few."""
    machine, rates, running = problem.machine, problem.rates, problem.running
    rows = len(machine) + 1
    at_s, cores, memory_mb, gpus = np.zeros((4, rows, room), np.int64)
    free = FreeCapacity(
        length=np.ones(rows, np.int64),
        open_s=np.zeros(rows, np.int64),
        at_s=at_s,
        cores=cores,
        memory_mb=memory_mb,
        gpus=gpus,
        pool=np.append(machine.pool, ALL_POOLS),
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
def watts_alone(power_w: int) -> UnitResources:
    """Return the demand from the row of the power budget."""
    return UnitResources(power_w, int(np.int64(0)), int(np.int64(0)), int(np.int64(ALL_POOLS)))


@in_place
def next_fit(free: FreeCapacity, row: int, from_s: int, latest_s: int, duration_s: int, needed: UnitResources) -> int:
    """Return the first second, not before `from_s`, from which the resources are free on the row for `duration_s`.

    NO_LIMIT if that is later than `latest_s`.
    """
    cores, memory_mb, gpus, pools = needed
    if not pools & free.pool[row]:
        return NO_LIMIT
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
def occupy(free: FreeCapacity, row: int, start_s: int, end_s: int, needed: UnitResources) -> bool:
    """Take the resources from the row between these seconds; False, with nothing taken, if the row has no room."""
    cores, memory_mb, gpus, _ = needed
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
    """Join steps from `first` on with the steps before them if no job can be affected.

    No job can start while no core is free, so such steps are joined.
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
    """Take the resources of running units from the beginning on; False if a row has no room for steps."""
    budget = len(free.length) - 1
    for unit in range(len(node)):
        taken = UnitResources(cores[unit], memory_mb[unit], gpus[unit], int(np.int64(ALL_POOLS)))
        if not occupy(free, node[unit], 0, until_s[unit], taken):
            return False
        if power_w[unit] > 0 and not occupy(free, budget, 0, until_s[unit], watts_alone(power_w[unit])):
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
    jobs = job_columns(work, from_s, latest_s)
    capped = bool(np.any(problem.rates.cap_w < NO_LIMIT))
    last_s, room = problem.rates.horizon_s - 1, ROOM
    while True:
        plan = empty_plan(work, solver) if kept is None else Plan(kept.start_s.copy(), kept.node.copy(), solver)
        free = initial_free_capacity(problem, room)
        if free is not None and _place_all(free, order, jobs, Places(plan.start_s, plan.node), capped, last_s):
            return plan
        room *= 2


def job_columns(work: Work, from_s: Int64, latest_s: Int64) -> WorkColumns:
    """Return the jobs as the kernels take them, to start within [from_s, latest_s]."""
    return WorkColumns(
        from_s=from_s,
        latest_s=latest_s,
        duration_s=work.duration_s,
        units=work.units,
        cores=work.cores,
        memory_mb=work.memory_mb,
        gpus=work.gpus,
        pools=work.pools,
        power_w=watts(work.power_w),
        first=first_unit(work),
    )


@kernel
def _place_all(free: FreeCapacity, order: Int64, jobs: WorkColumns, places: Places, capped: bool, last_s: int) -> bool:
    """Write starts and nodes; False if a row of `free` has no room for steps."""
    # Unpacked once: numba counts the references of an array at each access to it in a tuple.
    from_s, latest_s, duration_s, units, cores, memory_mb, gpus, pools, power_w, first = jobs
    start_s, node = places
    nodes = len(free.length) - 1
    when_s = np.empty(nodes, np.int64)
    failed = np.empty((REMEMBERED, 7), np.int64)
    failures = 0
    for job in np.flatnonzero(start_s != TOMORROW):
        end = start_s[job] + duration_s[job]
        needed = UnitResources(cores[job], memory_mb[job], gpus[job], pools[job])
        for row in node[first[job] : first[job + 1]]:
            if not occupy(free, row, start_s[job], end, needed):
                return False
        if capped and not occupy(free, nodes, start_s[job], end, watts_alone(power_w[job])):
            return False
    demand = np.empty(7, np.int64)
    for job in order:
        needed = UnitResources(cores[job], memory_mb[job], gpus[job], pools[job])
        demand[0], demand[1], demand[2], demand[6] = needed
        demand[3], demand[4], demand[5] = units[job], duration_s[job], from_s[job]
        if not capped and _cannot_fit(failed, min(failures, REMEMBERED), demand):
            continue
        capped_w = power_w[job] if capped else 0
        wanted = UnitDemand(from_s[job], latest_s[job], duration_s[job], units[job], needed, capped_w)
        at_s = _earliest(free, when_s, wanted)
        if at_s == TOMORROW:
            if latest_s[job] >= last_s:
                failed[failures % REMEMBERED] = demand
                failures += 1
            continue
        start_s[job] = at_s
        unit, end = first[job], at_s + duration_s[job]
        for row in range(nodes):
            if when_s[row] == at_s:
                if not occupy(free, row, at_s, end, needed):
                    return False
                node[unit] = row
                unit += 1
                if unit == first[job + 1]:
                    break
        if capped and not occupy(free, nodes, at_s, end, watts_alone(capped_w)):
            return False
    return True


@in_place
def _cannot_fit(failed: Int64, remembered: int, demand: Int64) -> bool:
    """Return whether a job that needs no more, no longer and no later has found no place: space only shrinks.

    The last column has the pools: a job that may use more of them is no harder to place.
    """
    for index in range(remembered):
        harder = demand[6] & ~failed[index, 6] == 0
        for column in range(6):
            if demand[column] < failed[index, column]:
                harder = False
                break
        if harder:
            return True
    return False


@kernel
def _earliest(free: FreeCapacity, when_s: Int64, job: UnitDemand) -> int:
    """Return the earliest common start on as many nodes as the job has units, TOMORROW if there is none in time.

    The nodes that can start then have it in `when_s`.
    """
    latest_s, units, duration_s = job.latest_s, job.units, job.duration_s
    nodes = len(when_s)
    if units > nodes:
        return TOMORROW
    when_s[:] = -1
    if units == 1 and job.power_w == 0:
        return _earliest_of_one(free, when_s, job)
    # A node without a free core is searched only from the second on at which its first core is free.
    searched = np.zeros(nodes, np.bool_)
    for row in range(nodes):
        when_s[row] = free.open_s[row]
    at_s = max(job.from_s, int(np.partition(when_s, units - 1)[units - 1]))
    while True:
        if job.power_w > 0:
            at_s = next_fit(free, nodes, at_s, latest_s, duration_s, watts_alone(job.power_w))
        if at_s > latest_s:
            return TOMORROW
        ready = 0
        for row in range(nodes):
            if when_s[row] < at_s or (when_s[row] == at_s and not searched[row]):
                searched[row] = True
                when_s[row] = next_fit(free, row, at_s, latest_s, duration_s, job.resources)
            if when_s[row] == at_s:
                ready += 1
                if ready == units:
                    return at_s
        # Before this second fewer nodes than that can start, with any power budget.
        at_s = int(np.partition(when_s, units - 1)[units - 1])


@kernel
def _earliest_of_one(free: FreeCapacity, when_s: Int64, job: UnitDemand) -> int:
    """Return the earliest start on any node: no node is searched beyond the best one found before."""
    from_s, latest_s = job.from_s, job.latest_s
    best_s = latest_s + 1
    for row in range(len(when_s)):
        if free.open_s[row] >= best_s:
            continue
        at_s = next_fit(free, row, from_s, best_s - 1, job.duration_s, job.resources)
        if at_s < best_s:
            when_s[row] = best_s = at_s
            if at_s == from_s:
                break
    return best_s if best_s <= latest_s else TOMORROW


KEPT = "kept"


def keep_what_fits(problem: Problem, previous: Plan) -> Plan:
    """Return the plan with those jobs only that can start where and when `previous` has them, the earliest first.

    A place before the job's release, after its latest start or on node -1 is invalid.
    """
    work, rates = problem.work, problem.rates
    latest_s = np.minimum(work.latest_end_s - work.duration_s, rates.horizon_s - 1)
    columns = job_columns(work, work.release_s, latest_s)
    timely = previous.placed & (previous.start_s >= work.release_s) & (previous.start_s <= latest_s)
    jobs = np.flatnonzero(timely)
    jobs = jobs[np.argsort(previous.start_s[jobs], kind="stable")]
    room = ROOM
    while True:
        plan, free = empty_plan(work, KEPT), initial_free_capacity(problem, room)
        earlier, places = Places(previous.start_s, previous.node), Places(plan.start_s, plan.node)
        if free is not None and _keep_placed(free, jobs, columns, earlier, places):
            return plan
        room *= 2


@kernel
def _keep_placed(free: FreeCapacity, kept: Int64, jobs: WorkColumns, earlier: Places, places: Places) -> bool:
    """Write the starts and nodes of those jobs of `kept` that fit at their earlier places; False without room."""
    _, _, duration_s, _, cores, memory_mb, gpus, pools, power_w, first = jobs
    earlier_s, earlier_node = earlier
    start_s, node = places
    budget = len(free.length) - 1
    for job in kept:
        at_s, run_s = earlier_s[job], duration_s[job]
        needed, power = UnitResources(cores[job], memory_mb[job], gpus[job], pools[job]), watts_alone(power_w[job])
        fits = next_fit(free, budget, at_s, at_s, run_s, power) == at_s
        for unit in range(first[job], first[job + 1]):
            row = earlier_node[unit]
            if row < 0 or next_fit(free, row, at_s, at_s, run_s, needed) != at_s:
                fits = False
                break
        if not fits:
            continue
        start_s[job] = at_s
        for unit in range(first[job], first[job + 1]):
            node[unit] = earlier_node[unit]
            if not occupy(free, earlier_node[unit], at_s, at_s + run_s, needed):
                return False
        if not occupy(free, budget, at_s, at_s + run_s, power):
            return False
    return True
