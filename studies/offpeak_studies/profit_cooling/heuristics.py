"""Searches around the job-based heuristic: DelaySearch, MultiSearch, and gains from prices.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling".

* DelaySearch (algorithm 3): delays, one by one, the jobs that the heuristic would start at once, and runs it again.
  The paper prints neither the delay nor the order of the jobs: here a quarter of an hour, and the largest job first,
  because it leaves the largest gap.
* MultiSearch (algorithm 2): runs the heuristic with all orders on all processors and keeps the best plan.
* Prices: jobs that cost more than they earn are left out, and jobs wait for profitable hours.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.plugin.planner.orders import Budget, all_orders
from offpeak.plugin.planner.placement import place_one_by_one
from offpeak.plugin.planner.problem import TOMORROW, Plan, Problem, compute_profit, overlap_s
from offpeak_studies.profit_cooling.upper_bound import net_per_s

NEGLIGIBLE = 1e-9
"""A gain below this share of what a job costs and earns is rounding."""
DELAY_S = 900
SOLVER = "delay search"


def multi_search(problem: Problem, budget: Budget) -> Plan:
    """Return the best plan of the orders begun within the budget, at least one; it has a note if these were not all."""
    plans, count = plan_in_all_orders(problem, budget), len(_distinct_orders(all_orders(problem.work, problem.machine)))
    best = best_plan(problem, plans)
    if len(plans) == count:
        return best
    return replace(best, note=f"multi-search: time was up when {len(plans)} of {count} orders were tried")


def plan_in_all_orders(problem: Problem, budget: Budget) -> list[Plan]:
    """Return a plan for each different order that was begun within the budget; no price decides about any of them."""
    orders = _distinct_orders(all_orders(problem.work, problem.machine))

    def tried(name: str, order: Int64) -> Plan | None:
        return place_one_by_one(problem, order, f"multi-search, {name}") if budget.left_s else None

    # Kernels run without Python's lock, so threads suffice.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        first, *others = orders.items()
        plans = [pool.submit(place_one_by_one, problem, first[1], f"multi-search, {first[0]}")]
        plans += [pool.submit(tried, *other) for other in others]  # type: ignore[arg-type]
        return [plan for plan in (each.result() for each in plans) if plan is not None]


def _distinct_orders(orders: Mapping[str, Int64]) -> Mapping[str, Int64]:
    """Return the orders without repetitions: where no job has a latest end several criteria give one order."""
    names: dict[bytes, str] = {}
    for name, order in orders.items():
        names.setdefault(order.tobytes(), name)
    return {name: orders[name] for name in names.values()}


def best_plan(problem: Problem, plans: list[Plan]) -> Plan:
    """Return the plan of the largest profit, the first of equal ones, without the jobs that lose money in it.

    Its jobs are held back to the starts that pay best if that is better.
    """
    best = max(
        (leave_out_losses(problem, plan) for plan in plans), key=lambda plan: compute_profit(problem, plan).total
    )
    jobs = np.arange(len(problem.work))
    held_s = _best_starts(problem, best, jobs)
    if (held_s <= problem.work.release_s).all():
        return best
    order = _by_start(best)
    held = leave_out_losses(problem, place_one_by_one(problem, order, best.solver, not_before_s=held_s))
    return better_plan(problem, best, held)


def delay_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return the best plan found within the budget, the incumbent if none is better."""
    best, best_profit = incumbent, compute_profit(problem, incumbent).total
    held_s = np.zeros(len(problem.work), np.int64)
    work = problem.work
    size = np.where(incumbent.placed, work.units * work.cores * work.duration_s, -1)
    for job in np.argsort(-size, kind="stable")[: int(incumbent.placed.sum())]:
        while held_s[job] < problem.rates.horizon_s:
            if not budget.left_s:
                return best
            held_s[job] = max(held_s[job], best.start_s[job]) + DELAY_S
            plan = leave_out_losses(problem, place_one_by_one(problem, _by_start(best), SOLVER, not_before_s=held_s))
            profit = compute_profit(problem, plan).total
            if profit > best_profit:
                best, best_profit = plan, profit
        held_s[job] = max(best.start_s[job], 0)
    return best


def leave_out_losses(problem: Problem, plan: Plan) -> Plan:
    """Return the plan, or a better one without the jobs that lose money where the plan has them.

    The other jobs move up into the room that these leave. Jobs left out are tried where they pay best alone.
    """
    best = _without_losses(problem, plan)
    if best is plan:
        return plan
    order = _by_start(best)
    dropped = plan.placed & ~best.placed
    moved_up = place_one_by_one(problem, order[~dropped[order]], plan.solver)
    best = better_plan(problem, best, _without_losses(problem, moved_up))
    left = np.flatnonzero(plan.placed & ~best.placed)
    if len(left):
        later = place_one_by_one(problem, left, plan.solver, kept=best, not_before_s=_best_starts(problem, best, left))
        best = better_plan(problem, best, _without_losses(problem, later))
    return best if best.note == plan.note else Plan(best.start_s, best.node, plan.solver, plan.note)


def better_plan(problem: Problem, plan: Plan, other: Plan) -> Plan:
    """Return the plan of the larger profit, the first of equal ones."""
    return other if compute_profit(problem, other).total > compute_profit(problem, plan).total else plan


def leave_out_jobs(problem: Problem, plan: Plan, which: Int64) -> Plan:
    """Return the plan without these jobs."""
    start_s = plan.start_s.copy()
    start_s[which] = TOMORROW
    node = np.where(np.repeat(start_s, problem.work.units) == TOMORROW, TOMORROW, plan.node)
    return Plan(start_s, node, plan.solver, plan.note)


def _without_losses(problem: Problem, plan: Plan) -> Plan:
    """Return the plan after which no single job can be left out with a gain; the same plan if there is none already.

    PUE depends on the load, so two jobs may lose money only in combination. All losing jobs are left out if this is
    better than leaving out the worst one; otherwise only the worst one is left out.
    """
    while True:
        gain = gain_of_leaving_out(problem, plan)
        losing = np.flatnonzero(gain > 0)
        if not len(losing):
            return plan
        one = leave_out_jobs(problem, plan, losing[[int(np.argmax(gain[losing]))]])
        plan = better_plan(problem, one, leave_out_jobs(problem, plan, losing))


def gain_of_leaving_out(problem: Problem, plan: Plan) -> Float64:
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


def pue_under(problem: Problem, plan: Plan) -> Float64:
    """Return the PUE of each step if the plan is carried out."""
    work, running, rates = problem.work, problem.running, problem.rates
    placed = plan.placed
    start_s = plan.start_s[placed]
    it_j = work.power_w[placed] @ overlap_s(rates, start_s, start_s + work.duration_s[placed])
    it_j += running.power_w @ overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    return problem.facility.pue_at(it_j / np.diff(rates.edge_s), rates.temperature_c)


def _by_start(plan: Plan) -> Int64:
    """Return the order of the starts, jobs of tomorrow last."""
    return np.argsort(np.where(plan.placed, plan.start_s, np.iinfo(np.int64).max), kind="stable")
