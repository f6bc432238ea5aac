"""Rule-based scheduling: at each event the queue is gone through in order, and what fits now is started.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", section 4. Strict: the first job that does not
fit holds up all behind it. Non-strict: it is skipped. No reservations in either.
"""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place, kernel
from offpeak.model.arrays import Int64
from plugin.planner.capacity import watts
from plugin.planner.placement import Places
from plugin.planner.problem import (
    NO_LIMIT,
    TOMORROW,
    Demands,
    LimitUse,
    Plan,
    Problem,
    Work,
    empty_plan,
    first_unit,
    resource_columns,
)


class QueuedWork(NamedTuple):
    """The jobs as the kernels take them: `needed[job]` is cores, memory and GPUs of a unit, `kind` the same for jobs
    that need the same, `pools[job]` the bits of the pools that it may use, `first[job]` its first unit."""

    release_s: Int64
    latest_end_s: Int64
    duration_s: Int64
    units: Int64
    needed: Int64
    kind: Int64
    pools: Int64
    power_w: Int64
    first: Int64
    demand: Int64


class RunningUnits(NamedTuple):
    """What is free on each node, `free[node]`, the bit of its pool, and the units that run from the beginning on."""

    free: Int64
    pool: Int64
    node: Int64
    until_s: Int64
    needed: Int64
    power_w: Int64


class PowerCaps(NamedTuple):
    """`cap_w[i]` holds from `edge_s[i]` on."""

    edge_s: Int64
    cap_w: Int64
    horizon_s: int


class LimitState(NamedTuple):
    """The limits: `most` may be taken, `used` is what planned jobs take now, `taken` is what others take."""

    demands: Demands
    most: Int64
    used: Int64
    taken: LimitUse


def rule_based(problem: Problem, order: Int64, solver: str, *, strict: bool) -> Plan:
    """Return the plan of such a scheduler; it takes nodes in lexicographic order."""
    work, machine, rates, running = problem.work, problem.machine, problem.rates, problem.running
    limits = problem.limits
    plan = empty_plan(work, solver)
    free = resource_columns(machine)
    taken = resource_columns(running)
    np.subtract.at(free, running.node, taken)
    edges = np.append(rates.edge_s[:-1], rates.horizon_s)
    jobs = QueuedWork(
        release_s=work.release_s,
        latest_end_s=work.latest_end_s,
        duration_s=work.duration_s,
        units=work.units,
        needed=resource_columns(work),
        kind=_kinds(work),
        pools=work.pools,
        power_w=watts(work.power_w),
        first=first_unit(work),
        demand=work.demand,
    )
    on_nodes = RunningUnits(free, machine.pool, running.node, running.until_s, taken, watts(running.power_w))
    caps = PowerCaps(edges, np.append(rates.cap_w, NO_LIMIT), rates.horizon_s)
    limited = LimitState(limits.demands, limits.most, np.zeros_like(limits.most), limits.taken)
    _play(order, jobs, on_nodes, caps, limited, places=Places(plan.start_s, plan.node), strict=strict)
    return plan


def _kinds(work: Work) -> Int64:
    """Return a number for each job, equal for jobs with equal requests: where one does not fit, none does."""
    needed = np.column_stack([resource_columns(work), work.units, work.pools])
    return np.unique(needed, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


@kernel
def _play(
    order: Int64,
    jobs: QueuedWork,
    running: RunningUnits,
    caps: PowerCaps,
    limits: LimitState,
    places: Places,
    strict: bool,
) -> None:
    """Move from event to event until the horizon and write starts and nodes."""
    start_s, node = places
    # Unpacked once: numba counts the references of an array at each access to it in a tuple.
    release_s, latest_end_s, duration_s, _, _, kind, _, power_w, _, demand = jobs
    edge_s, cap_w, horizon_s = caps
    free, count = running.free, len(order)
    end_s, running_end_s = np.full(count, NO_LIMIT), running.until_s.copy()
    waiting, active, active_count = order.copy(), np.empty(count, np.int64), 0
    drawn_w = running.power_w.sum()
    full = np.zeros(kind.max() + 1 if count else 1, np.bool_)
    now_s = 0
    while now_s < horizon_s:
        ended, ended_w = _end_units(now_s, running_end_s, running)
        still_active, left_w = _end_jobs(
            now_s, end_s, active[:active_count], jobs, places=places, free=free, limits=limits
        )
        drawn_w -= ended_w + left_w
        if ended > 0 or still_active < active_count:
            full[:] = False
        active_count = still_active
        kept, stopped = 0, False
        for place in range(count):
            job = waiting[place]
            started = False
            if not stopped and release_s[job] <= now_s and now_s + duration_s[job] <= latest_end_s[job]:
                fits, until_s = not full[kind[job]], now_s + duration_s[job]
                if fits and (
                    drawn_w + power_w[job] > _least_cap(edge_s, cap_w, now_s, until_s)
                    or _exceeds_limit(limits, demand[job], now_s, until_s)
                ):
                    stopped = strict
                elif fits and _take(running, jobs, job, node):
                    start_s[job] = now_s
                    end_s[job] = now_s + duration_s[job]
                    active[active_count] = job
                    active_count += 1
                    drawn_w += power_w[job]
                    _count(limits, demand[job], 1)
                    started = True
                else:
                    full[kind[job]] = True
                    stopped = strict
            if not started:
                waiting[kept] = job
                kept += 1
        count = kept
        soon_s = min(_earliest_s(now_s, horizon_s, edge_s), _earliest_s(now_s, horizon_s, running_end_s))
        soon_s = min(soon_s, _earliest_s(now_s, horizon_s, limits.taken.until_s))
        for place in range(count):
            if release_s[waiting[place]] > now_s:
                soon_s = min(soon_s, release_s[waiting[place]])
        for place in range(active_count):
            soon_s = min(soon_s, end_s[active[place]])
        now_s = soon_s


@kernel
def _end_units(now_s: int, end_s: Int64, running: RunningUnits) -> tuple[int, int]:
    """Free the nodes of the running units that have ended by now; return how many, and their power [W]."""
    ended, ended_w = 0, 0
    for unit in range(len(end_s)):
        if end_s[unit] <= now_s:
            running.free[running.node[unit]] += running.needed[unit]
            ended_w += running.power_w[unit]
            end_s[unit] = NO_LIMIT
            ended += 1
    return ended, ended_w


@kernel
def _end_jobs(
    now_s: int, end_s: Int64, active: Int64, jobs: QueuedWork, places: Places, free: Int64, limits: LimitState
) -> tuple[int, int]:
    """Free what jobs had that have ended by now; return how many of `active` go on, and the watts of the others."""
    kept, ended_w = 0, 0
    for place in range(len(active)):
        job = active[place]
        if end_s[job] <= now_s:
            for unit in range(jobs.first[job], jobs.first[job + 1]):
                free[places.node[unit]] += jobs.needed[job]
            ended_w += jobs.power_w[job]
            _count(limits, jobs.demand[job], -1)
        else:
            active[kept] = job
            kept += 1
    return kept, ended_w


@kernel
def _earliest_s(now_s: int, horizon_s: int, times_s: Int64) -> int:
    """Return the first of the times after now, the horizon where there is none."""
    soon_s = horizon_s
    for time_s in times_s:
        if now_s < time_s < soon_s:
            soon_s = time_s
    return soon_s


@kernel
def _least_cap(edge_s: Int64, cap_w: Int64, from_s: int, until_s: int) -> int:
    least = NO_LIMIT
    for step in range(len(edge_s)):
        behind_s = edge_s[step + 1] if step + 1 < len(edge_s) else NO_LIMIT
        if edge_s[step] < until_s and behind_s > from_s:
            least = min(least, cap_w[step])
    return least


@in_place
def _exceeds_limit(limits: LimitState, demand: int, from_s: int, until_s: int) -> bool:
    """Return whether some limit has too little left; what others take at any time of the run counts together."""
    demands, taken = limits.demands, limits.taken
    for row in range(demands.first[demand], demands.first[demand + 1]):
        limit = demands.limit[row]
        used = limits.used[limit] + demands.amount[row]
        for other in range(len(taken.limit)):
            if taken.limit[other] == limit and taken.from_s[other] < until_s and taken.until_s[other] > from_s:
                used += taken.amount[other]
        if used > limits.most[limit]:
            return True
    return False


@in_place
def _count(limits: LimitState, demand: int, jobs: int) -> None:
    """Add what so many jobs of that demand take to what is used."""
    demands = limits.demands
    for row in range(demands.first[demand], demands.first[demand + 1]):
        limits.used[demands.limit[row]] += jobs * demands.amount[row]


@kernel
def _take(running: RunningUnits, jobs: QueuedWork, job: int, node: Int64) -> bool:
    """Take the resources from the first nodes that have them, a node each; False, nothing taken, if too few have."""
    free, pool = running.free, running.pool
    needed, pools, units, first = jobs.needed[job], jobs.pools[job], jobs.units[job], jobs.first[job]
    found = 0
    for row in range(len(free)):
        if not pools & pool[row]:
            continue
        if free[row, 0] >= needed[0] and free[row, 1] >= needed[1] and free[row, 2] >= needed[2]:
            node[first + found] = row
            found += 1
            if found == units:
                break
    if found < units:
        node[first : first + units] = TOMORROW
        return False
    for unit in range(units):
        free[node[first + unit]] -= needed
    return True
