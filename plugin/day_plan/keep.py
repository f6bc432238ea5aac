"""Which jobs can keep their places of a plan made before: what has changed since may have taken these."""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Int64
from plugin.planner.free import ROOM, Free, free_at_first, next_fit, occupy, watts
from plugin.planner.plan import Plan, empty_plan, first_unit
from plugin.planner.problem import Problem

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
        plan, free = empty_plan(work, KEPT), free_at_first(problem, room)
        columns = (work.duration_s, work.cores, work.memory_mb, work.gpus, watts(work.power_w), first)
        if free is not None and _keep(free, jobs, *columns, standing.start_s, standing.node, plan.start_s, plan.node):
            return plan
        room *= 2


@kernel
def _keep(
    free: Free,
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
