"""Makes the plan of a live queue, or repairs the one that stands."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from offpeak.model.arrays import Int64
from plugin.day_plan.day_plan import DayPlan
from plugin.day_plan.inputs import PlanInputs, build_rates, planned_power, subtract_power
from plugin.day_plan.join import PoolResult, join_pool_plans, subtract_outside_load
from plugin.day_plan.pool_plan import QueueOrder, find_queue_order, refit_plan
from plugin.day_plan.pools import (
    PlanPool,
    PoolProblem,
    StartHold,
    allocated_hosts,
    build_pool_problem,
    find_holds,
    is_worth_waiting,
    running_loads,
    split_into_pools,
)
from plugin.planner.placement import place_one_by_one
from plugin.planner.problem import NO_LIMIT, TOMORROW, Plan, Rates, first_unit
from plugin.planner.searches import Budget
from plugin.queue_hook.start_times import start_costs_by_run_time
from plugin.scheduler.job import HOLDING


def plan_day(sight: PlanInputs, standing: DayPlan | None, budget: Budget) -> DayPlan | None:
    """Return the plan; None where no price is known. What `standing` says stays where nothing speaks against it."""
    prices = sight.queue.prices
    if prices is None or not prices.known.any():
        return None
    line = find_queue_order(sight)
    pools, left_out = split_into_pools(sight.queue, sight.nodes, line.ordered)
    rates = whole = build_rates(sight, prices)
    loads = running_loads(sight, [job for job in sight.queue.jobs if job.state in HOLDING and allocated_hosts(job)])
    in_pools = {job.job_id for pool in pools for job in pool.holding}
    rates = subtract_outside_load(rates, sight, [load for load in loads if load.job_id not in in_pools])
    answers = []
    for pool in pools:
        answers.append(_plan_pool(sight, pool, line, rates, standing, budget))
        rates = subtract_power(rates, *planned_power(answers[-1].question.problem, answers[-1].plan))
    return join_pool_plans(sight, whole, loads, left_out, answers, standing)


def _plan_pool(
    sight: PlanInputs, pool: PlanPool, line: QueueOrder, rates: Rates, standing: DayPlan | None, budget: Budget
) -> PoolResult:
    """Return the pool's plan: jobs wait for a cheap hour only where they come to start in one."""
    windows = [
        np.array([at for at, job in enumerate(pool.waiting) if job.job_id in window], np.int64)
        for window in line.windows
    ]
    holds = find_holds(sight, pool.waiting)
    at_once = {
        job: replace(hold, begin_s=0, for_price=False) if hold.for_price else hold for job, hold in holds.items()
    }
    plan_under = partial(_plan_with_holds, sight, pool, rates=rates, standing=standing, windows=windows, budget=budget)
    free = plan_under(at_once)
    wished = frozenset(job for job, hold in holds.items() if hold.for_price)
    if not wished:
        return free
    held = plan_under(holds)
    kept = {job: holds[job] for job in _jobs_worth_waiting(sight, pool, free.plan, held.plan)}
    return replace(plan_under(at_once | kept), wished=wished)


def _plan_with_holds(
    sight: PlanInputs,
    pool: PlanPool,
    holds: Mapping[str, StartHold],
    *,
    rates: Rates,
    standing: DayPlan | None,
    windows: Sequence[Int64],
    budget: Budget,
) -> PoolResult:
    """Return the plan under these holds; a job that finds no place by its latest start then does without its hold."""
    question = build_pool_problem(sight, pool, holds, rates)
    plan = refit_plan(question.problem, _earlier_plan(question, standing, sight), windows, budget)
    late = np.flatnonzero(~plan.placed & (question.problem.work.latest_end_s < NO_LIMIT))
    if not len(late):
        return PoolResult(question, plan, holds)
    loose = {pool.waiting[at].job_id: StartHold() for at in late}
    question = build_pool_problem(sight, pool, {**holds, **loose}, rates)
    placed = place_one_by_one(question.problem, late, plan.solver, kept=plan)
    return PoolResult(question, replace(placed, note=plan.note), {**holds, **loose})


def _jobs_worth_waiting(sight: PlanInputs, pool: PlanPool, free: Plan, held: Plan) -> list[str]:
    starts_of, now_s = start_costs_by_run_time(sight.queue), sight.queue.now_s
    return [
        job.job_id
        for job, free_s, held_s in zip(pool.waiting, free.start_s.tolist(), held.start_s.tolist(), strict=True)
        if TOMORROW not in (free_s, held_s)
        and is_worth_waiting(sight, starts_of, job, held_start_s=now_s + held_s, free_start_s=now_s + free_s)
    ]


def _earlier_plan(question: PoolProblem, standing: DayPlan | None, sight: PlanInputs) -> Plan | None:
    """Return what stood of the pool's jobs, on this clock and these nodes."""
    if standing is None:
        return None
    work, pool = question.problem.work, question.pool
    row_of = {node.name: row for row, node in enumerate(pool.nodes)}
    start_s, node = np.full(len(work), TOMORROW), np.full(int(work.units.sum()), TOMORROW)
    for at, (job, first) in enumerate(zip(pool.waiting, first_unit(work).tolist(), strict=False)):
        before = standing.by_id.get(job.job_id)
        if before is None or before.start_s is None or len(before.hosts) != work.units[at]:
            continue
        start_s[at] = before.start_s - sight.queue.now_s
        node[first : first + len(before.hosts)] = [row_of.get(host, TOMORROW) for host in before.hosts]
    return Plan(np.where(start_s < 0, TOMORROW, start_s), node, "standing")
