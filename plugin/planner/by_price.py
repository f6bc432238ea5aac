"""Betters a plan by prices: jobs that cost more than they earn are left out, and jobs wait for hours that pay."""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from plugin.planner.net_rates import net_per_s, pue_under
from plugin.planner.one_by_one import one_by_one
from plugin.planner.plan import TOMORROW, Plan
from plugin.planner.problem import Problem
from plugin.planner.profit import J_PER_KWH, overlap_s, profit_of

NEGLIGIBLE = 1e-9
"""A gain below this share of what a job costs and earns is rounding."""


def without(problem: Problem, plan: Plan, which: Int64) -> Plan:
    """Return the plan without these jobs."""
    start_s = plan.start_s.copy()
    start_s[which] = TOMORROW
    node = np.where(np.repeat(start_s, problem.work.units) == TOMORROW, TOMORROW, plan.node)
    return Plan(start_s, node, plan.solver, plan.note)


def paying(problem: Problem, plan: Plan) -> Plan:
    """Return the plan, or a better one without the jobs that lose money where the plan has them.

    The other jobs move up into the room that these leave. A job that is left out is tried once more at the start that
    pays best for it alone.
    """
    best = _without_losses(problem, plan)
    if best is plan:
        return plan
    order = np.argsort(np.where(best.placed, best.start_s, np.iinfo(np.int64).max), kind="stable")
    dropped = plan.placed & ~best.placed
    moved_up = one_by_one(problem, order[~dropped[order]], plan.solver)
    best = better(problem, best, _without_losses(problem, moved_up))
    left = np.flatnonzero(plan.placed & ~best.placed)
    if len(left):
        later = one_by_one(problem, left, plan.solver, kept=best, not_before_s=_best_starts(problem, best, left))
        best = better(problem, best, _without_losses(problem, later))
    return best if best.note == plan.note else Plan(best.start_s, best.node, plan.solver, plan.note)


def waiting(problem: Problem, plan: Plan) -> Plan:
    """Return the plan, or a better one in which each job waits for the start that pays best for it alone."""
    jobs = np.arange(len(problem.work))
    held_s = _best_starts(problem, plan, jobs)
    if (held_s <= problem.work.release_s).all():
        return plan
    order = np.argsort(np.where(plan.placed, plan.start_s, np.iinfo(np.int64).max), kind="stable")
    held = paying(problem, one_by_one(problem, order, plan.solver, not_before_s=held_s))
    return better(problem, plan, held)


def better(problem: Problem, plan: Plan, other: Plan) -> Plan:
    """Return the plan of the larger profit, the first of equal ones."""
    return other if profit_of(problem, other).total > profit_of(problem, plan).total else plan


def _without_losses(problem: Problem, plan: Plan) -> Plan:
    """Return the plan after which no single job can be left out with a gain; the same plan if there is none already.

    PUE depends on the load, so that two jobs may lose money only beside each other. All losing jobs are left out
    together where this is better than to leave out the worst one, which is tried otherwise.
    """
    while True:
        gain = gain_without(problem, plan)
        losing = np.flatnonzero(gain > 0)
        if not len(losing):
            return plan
        one = without(problem, plan, losing[[int(np.argmax(gain[losing]))]])
        plan = better(problem, one, without(problem, plan, losing))


def gain_without(problem: Problem, plan: Plan) -> Float64:
    """Return by how much the profit grows if only this job is left out, for each job; 0 if the plan has it not."""
    work, running, rates = problem.work, problem.running, problem.rates
    placed = np.flatnonzero(plan.placed)
    gain = np.zeros(len(work))
    if not len(placed):
        return gain
    start_s = plan.start_s[placed]
    inside_s = overlap_s(rates, start_s, start_s + work.duration_s[placed])
    each_j = work.power_w[placed, None] * inside_s
    ran_s = overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    it_j = each_j.sum(axis=0) + running.power_w @ ran_s
    saved = (_cost(problem, it_j) - _cost(problem, it_j - each_j)).sum(axis=1)
    earned = work.revenue_per_s[placed] * inside_s.sum(axis=1)
    gain[placed] = np.where(saved - earned > NEGLIGIBLE * (np.abs(saved) + np.abs(earned)), saved - earned, 0.0)
    return gain


def _cost(problem: Problem, it_j: Float64) -> Float64:
    """Return what energy and cooling cost in each step; the last axis of `it_j` are the steps."""
    rates = problem.rates
    pue = problem.facility.pue_at(it_j / np.diff(rates.edge_s), rates.temperature_c)
    return np.asarray(it_j * pue * rates.price_per_kwh / J_PER_KWH)


def _best_starts(problem: Problem, plan: Plan, jobs: Int64) -> Int64:
    """Return the start that pays best for each of these jobs at the PUE of the plan, at an edge of the rates.

    int64[n], the release for all other jobs and where no edge pays better.
    """
    work, rates = problem.work, problem.rates
    best_s = work.release_s.copy()
    per_s = net_per_s(problem, pue_under(problem, plan))
    most = np.full(len(work), -np.inf)
    for edge_s in (0, *rates.edge_s[1:-1].tolist()):
        start_s = np.maximum(work.release_s[jobs], edge_s)
        earned = (per_s[jobs] * overlap_s(rates, start_s, start_s + work.duration_s[jobs])).sum(axis=1)
        pays = (earned > most[jobs]) & (start_s + work.duration_s[jobs] <= work.latest_end_s[jobs])
        best_s[jobs[pays]], most[jobs[pays]] = start_s[pays], earned[pays]
    return best_s
