"""Rule-based scheduling, which moves through time: at each event what fits now starts, in the order of the queue.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", section 4.
"""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Int64
from offpeak.plugin.planner.capacity import (
    NO_STEPS,
    STEPS_OF_NODES,
    STEPS_OF_TOTALS,
    Capacity,
    TotalNeeds,
    UnitDemand,
    UnitResources,
    initial_capacity,
    next_fit,
    next_fit_of_totals,
    occupy,
    occupy_totals,
    with_more_steps,
)
from offpeak.plugin.planner.placement import REMEMBERED, Places, WorkColumns, cannot_fit, job_columns
from offpeak.plugin.planner.problem import TOMORROW, Plan, Problem, empty_plan


def rule_based(problem: Problem, order: Int64, solver: str, *, strict: bool) -> Plan:
    """Return the plan of a scheduler that goes through the queue in order at each event and starts what fits now.

    Strict: the first job that does not fit holds up all behind it. Non-strict: it is skipped. No reservations in
    either. It takes nodes in lexicographic order.
    """
    work, rates = problem.work, problem.rates
    jobs = job_columns(work, work.release_s, np.minimum(work.latest_end_s - work.duration_s, rates.horizon_s - 1))
    events_s = np.concatenate(
        [np.zeros(1, np.int64), work.release_s, rates.edge_s, problem.running.until_s, problem.limits.taken.until_s]
    )
    capacity = initial_capacity(problem)
    while True:
        plan = empty_plan(work, solver)
        lacking = _start_at_events(
            capacity, order, jobs, Places(plan.start_s, plan.node), np.unique(events_s), rates.horizon_s, strict
        )
        if lacking == NO_STEPS:
            return plan
        capacity = with_more_steps(problem, capacity, lacking)


@kernel
def _start_at_events(
    capacity: Capacity, order: Int64, jobs: WorkColumns, places: Places, events_s: Int64, horizon_s: int, strict: bool
) -> int:
    """Write the starts and nodes of what starts at each of the events and ends of jobs.

    Return of which rows there are too few steps, NO_STEPS after all jobs.
    """
    from_s, latest_s, duration_s, units, cores, memory_mb, gpus, pools, power_w, first, demand = jobs
    start_s, node = places
    free, rows = capacity.nodes, np.empty(len(capacity.nodes.length), np.int64)
    failed, terms = np.zeros((REMEMBERED, 7), np.int64), np.zeros(7, np.int64)
    waiting, count, now_s = order.copy(), len(order), events_s[0]
    while now_s < horizon_s:
        kept, failures, held_up = 0, 0, False
        for job in waiting[:count]:
            waiting[kept] = job
            kept += 1
            if held_up or not from_s[job] <= now_s <= latest_s[job]:
                continue
            end_s = now_s + duration_s[job]
            needed = UnitResources(cores[job], memory_mb[job], gpus[job], pools[job])
            terms[0], terms[1], terms[2], terms[6] = needed
            terms[3] = units[job]
            found = 0
            if not cannot_fit(failed, min(failures, REMEMBERED), terms):
                # What runs now only ends later: a node that has enough now has it for the whole run.
                for row in range(len(rows)):
                    if next_fit(free, row, now_s, now_s, duration_s[job], needed) == now_s:
                        rows[found] = row
                        found += 1
                        if found == units[job]:
                            break
                if found < units[job]:
                    failed[failures % REMEMBERED] = terms
                    failures += 1
            totals = TotalNeeds(power_w[job] if capacity.capped else 0, demand[job])
            wanted = UnitDemand(now_s, now_s, duration_s[job], units[job], needed, totals)
            if found < units[job] or next_fit_of_totals(capacity, wanted, now_s) != now_s:
                held_up = strict
                continue
            kept -= 1
            start_s[job] = now_s
            node[first[job] : first[job + 1]] = rows[:found]
            for row in rows[:found]:
                if not occupy(free, row, now_s, end_s, needed):
                    return STEPS_OF_NODES
            if not occupy_totals(capacity, wanted, now_s):
                return STEPS_OF_TOTALS
        count = kept
        later_s = events_s[np.searchsorted(events_s, now_s, side="right") :]
        soon_s = later_s[0] if len(later_s) else horizon_s
        for job in order:
            if start_s[job] != TOMORROW and now_s < start_s[job] + duration_s[job] < soon_s:
                soon_s = start_s[job] + duration_s[job]
        now_s = soon_s
    return NO_STEPS
