"""What a plan leaves to the next: jobs that run on, and jobs that have not started."""

from dataclasses import replace

import numpy as np

from plugin.planner.plan import Plan
from plugin.planner.problem import Problem, Running, Work


def running_on(problem: Problem, plan: Plan) -> Running:
    """Return what runs beyond the horizon, its time counted from there."""
    work, ran, horizon_s = problem.work, problem.running, problem.rates.horizon_s
    end_s = plan.start_s + work.duration_s
    job = np.repeat(np.arange(len(work)), work.units)
    unit = np.flatnonzero((plan.placed & (end_s > horizon_s))[job])
    job, old = job[unit], ran.until_s > horizon_s
    return Running(
        np.concatenate([ran.node[old], plan.node[unit]]),
        np.concatenate([ran.until_s[old], end_s[job]]) - horizon_s,
        np.concatenate([ran.cores[old], work.cores[job]]),
        np.concatenate([ran.memory_mb[old], work.memory_mb[job]]),
        np.concatenate([ran.gpus[old], work.gpus[job]]),
        np.concatenate([ran.power_w[old], work.power_w[job] / work.units[job]]),
        np.concatenate([ran.revenue_per_s[old], work.revenue_per_s[job] / work.units[job]]),
    )


def waiting_on(problem: Problem, plan: Plan) -> Work:
    """Return the jobs that have not started, their times counted from the horizon."""
    work = problem.work.take(~plan.placed)
    horizon_s = problem.rates.horizon_s
    return replace(
        work, release_s=np.maximum(work.release_s - horizon_s, 0), latest_end_s=work.latest_end_s - horizon_s
    )
