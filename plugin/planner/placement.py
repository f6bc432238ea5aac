"""The job-based heuristic: places one job after the other in a given order, each at its earliest feasible start.

It moves through jobs where rule-based schedulers move through time, so a wide job gets its place before
narrow ones have taken it. `keep_what_fits` keeps the places of an earlier plan where these are still free.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", algorithm 1.
"""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place, kernel
from offpeak.model.arrays import Int64
from offpeak.plugin.planner.capacity import (
    NO_STEPS,
    STEPS_OF_NODES,
    STEPS_OF_TOTALS,
    Capacity,
    FreeCapacity,
    TotalNeeds,
    UnitDemand,
    UnitResources,
    initial_capacity,
    next_fit,
    next_fit_of_totals,
    occupy,
    occupy_totals,
    watts,
    with_more_steps,
)
from offpeak.plugin.planner.problem import NO_DEMAND, TOMORROW, Plan, Problem, Work, empty_plan, first_unit

REMEMBERED = 64
"""Failures that later jobs are compared with."""

KEPT = "kept"


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
    demand: Int64


class Places(NamedTuple):
    """The start of each job, and the node of each unit."""

    start_s: Int64
    node: Int64


def place_one_by_one(
    problem: Problem, order: Int64, solver: str, *, not_before_s: Int64 | None = None, kept: Plan | None = None
) -> Plan:
    """Return the plan with each job of `order` at its earliest feasible start; other jobs are left for tomorrow.

    `not_before_s` holds starts back beyond the releases, int64[n]. Jobs in `kept` stay, and are not in `order`.
    """
    work = problem.work
    from_s = work.release_s if not_before_s is None else np.maximum(work.release_s, not_before_s)
    latest_s = np.minimum(work.latest_end_s - work.duration_s, problem.rates.horizon_s - 1)
    jobs = job_columns(work, from_s, latest_s)
    last_s, capacity = problem.rates.horizon_s - 1, initial_capacity(problem)
    while True:
        plan = empty_plan(work, solver) if kept is None else Plan(kept.start_s.copy(), kept.node.copy(), solver)
        lacking = _place_all(capacity, order, jobs, Places(plan.start_s, plan.node), last_s)
        if lacking == NO_STEPS:
            return plan
        capacity = with_more_steps(problem, capacity, lacking)


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
        demand=work.demand,
    )


@kernel
def _place_all(capacity: Capacity, order: Int64, jobs: WorkColumns, places: Places, last_s: int) -> int:
    """Write starts and nodes; return of which rows there are too few steps, NO_STEPS after all jobs."""
    # Unpacked once: numba counts the references of an array at each access to it in a tuple.
    from_s, latest_s, duration_s, units, cores, memory_mb, gpus, pools, power_w, first, demand = jobs
    free, capped = capacity.nodes, capacity.capped
    start_s, node = places
    nodes = len(free.length)
    when_s = np.empty(nodes, np.int64)
    failed = np.empty((REMEMBERED, 7), np.int64)
    failures = 0
    for job in np.flatnonzero(start_s != TOMORROW):
        end = start_s[job] + duration_s[job]
        needed = UnitResources(cores[job], memory_mb[job], gpus[job], pools[job])
        for row in node[first[job] : first[job + 1]]:
            if not occupy(free, row, start_s[job], end, needed):
                return STEPS_OF_NODES
        capped_w = power_w[job] if capped else 0
        kept = UnitDemand(
            start_s[job], start_s[job], duration_s[job], units[job], needed, TotalNeeds(capped_w, demand[job])
        )
        if not occupy_totals(capacity, kept, start_s[job]):
            return STEPS_OF_TOTALS
    terms = np.empty(7, np.int64)
    for job in order:
        needed = UnitResources(cores[job], memory_mb[job], gpus[job], pools[job])
        terms[0], terms[1], terms[2], terms[6] = needed
        terms[3], terms[4], terms[5] = units[job], duration_s[job], from_s[job]
        if not capped and cannot_fit(failed, min(failures, REMEMBERED), terms):
            continue
        capped_w = power_w[job] if capped else 0
        wanted = UnitDemand(
            from_s[job], latest_s[job], duration_s[job], units[job], needed, TotalNeeds(capped_w, demand[job])
        )
        at_s = _earliest(capacity, when_s, wanted)
        if at_s == TOMORROW:
            if latest_s[job] >= last_s and demand[job] == NO_DEMAND:
                failed[failures % REMEMBERED] = terms
                failures += 1
            continue
        start_s[job] = at_s
        unit, end = first[job], at_s + duration_s[job]
        for row in range(nodes):
            if when_s[row] == at_s:
                if not occupy(free, row, at_s, end, needed):
                    return STEPS_OF_NODES
                node[unit] = row
                unit += 1
                if unit == first[job + 1]:
                    break
        if not occupy_totals(capacity, wanted, at_s):
            return STEPS_OF_TOTALS
    return NO_STEPS


@in_place
def cannot_fit(failed: Int64, remembered: int, terms: Int64) -> bool:
    """Return whether a job that needs no more, no longer and no later has found no place: space only shrinks.

    The last column has the pools: a job that may use more of them is no harder to place.
    """
    for index in range(remembered):
        harder = terms[6] & ~failed[index, 6] == 0
        for column in range(6):
            if terms[column] < failed[index, column]:
                harder = False
                break
        if harder:
            return True
    return False


@kernel
def _earliest(capacity: Capacity, when_s: Int64, job: UnitDemand) -> int:
    """Return the earliest common start on as many nodes as units, which have it in `when_s`; TOMORROW if too late."""
    free, latest_s, units, duration_s = capacity.nodes, job.latest_s, job.units, job.duration_s
    nodes = len(when_s)
    takes_totals = job.totals.power_w > 0 or job.totals.demand != NO_DEMAND
    if units > nodes:
        return TOMORROW
    when_s[:] = -1
    if units == 1 and not takes_totals:
        return _earliest_of_one(free, when_s, job)
    # A node without a free core is searched only from the second on at which its first core is free.
    searched = np.zeros(nodes, np.bool_)
    for row in range(nodes):
        when_s[row] = free.open_s[row]
    at_s = max(job.from_s, int(np.partition(when_s, units - 1)[units - 1]))
    while True:
        if takes_totals:
            at_s = next_fit_of_totals(capacity, job, at_s)
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
        # Before this second fewer nodes than that can start, whatever is left of the totals.
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
    capacity = initial_capacity(problem)
    while True:
        plan = empty_plan(work, KEPT)
        earlier, places = Places(previous.start_s, previous.node), Places(plan.start_s, plan.node)
        lacking = _keep_placed(capacity, jobs, columns, earlier, places)
        if lacking == NO_STEPS:
            return plan
        capacity = with_more_steps(problem, capacity, lacking)


@kernel
def _keep_placed(capacity: Capacity, kept: Int64, jobs: WorkColumns, earlier: Places, places: Places) -> int:
    """Write the starts and nodes of those jobs of `kept` that fit at their earlier places; return as `_place_all`."""
    _, _, duration_s, units, cores, memory_mb, gpus, pools, power_w, first, demand = jobs
    earlier_s, earlier_node = earlier
    start_s, node = places
    free = capacity.nodes
    for job in kept:
        at_s, run_s = earlier_s[job], duration_s[job]
        needed = UnitResources(cores[job], memory_mb[job], gpus[job], pools[job])
        capped_w = power_w[job] if capacity.capped else 0
        wanted = UnitDemand(at_s, at_s, run_s, units[job], needed, TotalNeeds(capped_w, demand[job]))
        fits = next_fit_of_totals(capacity, wanted, at_s) == at_s
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
                return STEPS_OF_NODES
        if not occupy_totals(capacity, wanted, at_s):
            return STEPS_OF_TOTALS
    return NO_STEPS
