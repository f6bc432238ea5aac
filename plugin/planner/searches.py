"""Searches around the job-based heuristic: orders of placement, DelaySearch, MultiSearch, and gains from prices.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling".

* Orders (section 7.1): eleven criteria, each upwards and downwards. * DelaySearch (algorithm 3): delays, one by one,
the jobs that the heuristic would start at once, and runs it again.
  The paper prints neither the delay nor the order of the jobs: here a quarter of an hour, and the largest job first,
  because it leaves the largest gap.
* MultiSearch (algorithm 2): runs the heuristic with all orders on all processors and keeps the best plan. * Prices:
jobs that cost more than they earn are left out, and jobs wait for profitable hours.

A `Budget` limits the time of a solver, on a clock that is passed in.
"""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.plugin.planner.placement import place_one_by_one
from offpeak.plugin.planner.problem import (
    TOMORROW,
    NodeCapacities,
    Plan,
    Problem,
    Work,
    compute_profit,
    net_per_s,
    overlap_s,
    pue_under,
)


@dataclass(frozen=True)
class Budget:
    """The time on `clock` at which the best plan so far is needed, and the seed of all random numbers."""

    until_s: float
    seed: int = 1
    clock: Callable[[], float] = time.monotonic

    @property
    def left_s(self) -> float:
        """The time that is left, 0 at the least."""
        return max(self.until_s - self.clock(), 0.0)


def budget_of(seconds: float, *, seed: int = 1) -> Budget:
    """Return the budget of so many seconds from now."""
    return Budget(time.monotonic() + seconds, seed)


UP, DOWN = "up", "down"


def all_orders(work: Work, machine: NodeCapacities) -> Mapping[str, Int64]:
    """Return all 22 orders by name, such as "duration up"; ties in the order of the jobs, upwards and downwards."""
    keys = _keys(work, machine)
    orders: dict[str, Int64] = {}
    for name, columns in keys.items():
        up = np.lexsort(columns[::-1])
        down = np.lexsort([-column for column in columns[::-1]])
        orders[f"{name} {UP}"], orders[f"{name} {DOWN}"] = up, down
    return orders


def _keys(work: Work, machine: NodeCapacities) -> Mapping[str, tuple[Float64, ...]]:
    shares = [
        requested / max(int(has.max()), 1)
        for requested, has in (
            (work.cores, machine.cores),
            (work.memory_mb, machine.memory_mb),
            (work.gpus, machine.gpus),
        )
    ]
    node_share = np.asarray(np.maximum.reduce(shares))
    whole = node_share * work.units
    power_per_profit = power_per_revenue(work)
    duration_s = work.duration_s.astype(np.float64)
    return {
        "earliest start": (work.release_s.astype(np.float64),),
        "latest start": ((work.latest_end_s - work.duration_s).astype(np.float64),),
        "duration": (duration_s,),
        "units": (work.units.astype(np.float64),),
        "resources per node": (node_share,),
        "resources": (whole,),
        "resources x duration": (whole * duration_s,),
        "power": (work.power_w,),
        "power per profit": (power_per_profit,),
        "power per profit, short first": (power_per_profit, duration_s),
        "power per profit, long first": (power_per_profit, -duration_s),
    }


def power_per_revenue(work: Work) -> Float64:
    """Return watts per money and second; infinite for a job that earns nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = work.power_w / work.revenue_per_s
    return np.where(work.revenue_per_s > 0, ratio, np.inf)


NEGLIGIBLE = 1e-9
"""A gain below this share of what a job costs and earns is rounding."""


def leave_out_jobs(problem: Problem, plan: Plan, which: Int64) -> Plan:
    """Return the plan without these jobs."""
    start_s = plan.start_s.copy()
    start_s[which] = TOMORROW
    node = np.where(np.repeat(start_s, problem.work.units) == TOMORROW, TOMORROW, plan.node)
    return Plan(start_s, node, plan.solver, plan.note)


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


DELAY_S = 900
SOLVER = "delay search"


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


def _by_start(plan: Plan) -> Int64:
    """Return the order of the starts, jobs of tomorrow last."""
    return np.argsort(np.where(plan.placed, plan.start_s, np.iinfo(np.int64).max), kind="stable")


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
