"""Rule-based scheduling: at each event the queue is gone through in order, and what fits now is started.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", section 4. Strict: the first job that does not
fit holds up all behind it. Non-strict: it is skipped. No reservations in either.
"""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Int64
from plugin.planner.placement import watts
from plugin.planner.problem import NO_LIMIT, TOMORROW, Plan, Problem, Work, empty_plan, first_unit


def rule_based(problem: Problem, order: Int64, solver: str, *, strict: bool) -> Plan:
    """Return the plan that such a scheduler comes to; nodes in lexicographic order."""
    work, machine, rates, running = problem.work, problem.machine, problem.rates, problem.running
    plan = empty_plan(work, solver)
    free = np.stack([machine.cores, machine.memory_mb, machine.gpus], axis=1).astype(np.int64)
    taken = np.stack([running.cores, running.memory_mb, running.gpus], axis=1).astype(np.int64)
    np.subtract.at(free, running.node, taken)
    edges = np.append(rates.edge_s[:-1], rates.horizon_s)
    caps = np.append(rates.cap_w, NO_LIMIT)
    _play(
        order, strict, rates.horizon_s, work.release_s, work.latest_end_s, work.duration_s, work.units,
        _requested_resources(work), _kinds(work), watts(work.power_w), first_unit(work),
        running.node, running.until_s, taken, watts(running.power_w), edges, caps, free, plan.start_s, plan.node,
    )  # fmt: skip
    return plan


def _requested_resources(work: Work) -> Int64:
    return np.stack([work.cores, work.memory_mb, work.gpus], axis=1).astype(np.int64)


def _kinds(work: Work) -> Int64:
    """Return a number for each job, the same for jobs that ask for the same: where one does not fit none does."""
    asked = np.column_stack([_requested_resources(work), work.units])
    return np.unique(asked, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


@kernel
def _play(
    order: Int64,
    strict: bool,
    horizon_s: int,
    release_s: Int64,
    latest_end_s: Int64,
    duration_s: Int64,
    units: Int64,
    asked: Int64,
    kind: Int64,
    power_w: Int64,
    first: Int64,
    ran_node: Int64,
    ran_until_s: Int64,
    ran_asked: Int64,
    ran_power_w: Int64,
    edge_s: Int64,
    cap_w: Int64,
    free: Int64,
    start_s: Int64,
    node: Int64,
) -> None:
    """Move from event to event until the horizon and write starts and nodes."""
    jobs = len(order)
    end_s, ran_end_s = np.full(jobs, NO_LIMIT), ran_until_s.copy()
    waiting, count = order.copy(), jobs
    active, active_count = np.empty(jobs, np.int64), 0
    drawn_w = ran_power_w.sum()
    full = np.zeros(kind.max() + 1 if jobs else 1, np.bool_)
    now_s = 0
    while now_s < horizon_s:
        ended, ended_w = _end_units(now_s, ran_end_s, ran_node, ran_asked, ran_power_w, free)
        still_active, left_w = _end_jobs(now_s, end_s, active, active_count, first, node, asked, power_w, free)
        drawn_w -= ended_w + left_w
        if ended > 0 or still_active < active_count:
            full[:] = False
        active_count = still_active
        kept, stopped = 0, False
        for place in range(count):
            job = waiting[place]
            started = False
            if not stopped and release_s[job] <= now_s and now_s + duration_s[job] <= latest_end_s[job]:
                fits = not full[kind[job]]
                if fits and drawn_w + power_w[job] > _least_cap(edge_s, cap_w, now_s, now_s + duration_s[job]):
                    stopped = strict
                elif fits and _take(free, asked[job], units[job], node, first[job]):
                    start_s[job] = now_s
                    end_s[job] = now_s + duration_s[job]
                    active[active_count] = job
                    active_count += 1
                    drawn_w += power_w[job]
                    started = True
                else:
                    full[kind[job]] = True
                    stopped = strict
            if not started:
                waiting[kept] = job
                kept += 1
        count = kept
        soon_s = min(_soonest_s(now_s, horizon_s, edge_s), _soonest_s(now_s, horizon_s, ran_end_s))
        for place in range(count):
            if release_s[waiting[place]] > now_s:
                soon_s = min(soon_s, release_s[waiting[place]])
        for place in range(active_count):
            soon_s = min(soon_s, end_s[active[place]])
        now_s = soon_s


@kernel
def _end_units(now_s: int, end_s: Int64, on_node: Int64, asked: Int64, power_w: Int64, free: Int64) -> tuple[int, int]:
    """Free what units that ran before have ended by now; return how many, and what they drew."""
    ended, ended_w = 0, 0
    for unit in range(len(end_s)):
        if end_s[unit] <= now_s:
            free[on_node[unit]] += asked[unit]
            ended_w += power_w[unit]
            end_s[unit] = NO_LIMIT
            ended += 1
    return ended, ended_w


@kernel
def _end_jobs(
    now_s: int,
    end_s: Int64,
    active: Int64,
    count: int,
    first: Int64,
    node: Int64,
    asked: Int64,
    power_w: Int64,
    free: Int64,
) -> tuple[int, int]:
    """Free the nodes of jobs that have ended by now; return how many of `active` go on, and what the others drew."""
    kept, ended_w = 0, 0
    for place in range(count):
        job = active[place]
        if end_s[job] <= now_s:
            for unit in range(first[job], first[job + 1]):
                free[node[unit]] += asked[job]
            ended_w += power_w[job]
        else:
            active[kept] = job
            kept += 1
    return kept, ended_w


@kernel
def _soonest_s(now_s: int, horizon_s: int, times_s: Int64) -> int:
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


@kernel
def _take(free: Int64, asked: Int64, units: int, node: Int64, first: int) -> bool:
    """Take what the units ask from the first nodes that have it, a node each; False, nothing taken, if too few have."""
    found = 0
    for row in range(len(free)):
        if free[row, 0] >= asked[0] and free[row, 1] >= asked[1] and free[row, 2] >= asked[2]:
            node[first + found] = row
            found += 1
            if found == units:
                break
    if found < units:
        node[first : first + units] = TOMORROW
        return False
    for unit in range(units):
        free[node[first + unit]] -= asked
    return True
