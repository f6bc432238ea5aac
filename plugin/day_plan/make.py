"""Makes the plan of a live queue, or repairs the current one; beside a PV plant and a battery, with their schedule.

Jobs and battery are planned in turn. The schedule of the battery for the power of the jobs gives a marginal price for
each slot: what one more kWh would cost then, 0 while PV is curtailed. At these prices the jobs are planned again, as
long as that makes the bill smaller. One programme of both would need the orders of jobs on nodes as binary variables;
the planner of jobs needs nothing but prices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.site_devices import SiteDevices
from offpeak.model.step_series import Series
from offpeak.plugin.day_plan.day_plan import DayPlan, DeviceSchedule
from offpeak.plugin.day_plan.inputs import PlanInputs, build_rates, planned_power, subtract_power
from offpeak.plugin.day_plan.join import PoolResult, QueueOrder, find_queue_order, join_pool_plans, refit_plan
from offpeak.plugin.day_plan.limits import (
    Supply,
    subtract_outside_load,
    taken_by_planned,
    taken_by_running,
    unexplained_w,
)
from offpeak.plugin.day_plan.pools import (
    PlanPool,
    PoolProblem,
    StartHold,
    allocated_hosts,
    build_pool_problem,
    find_holds,
    is_worth_waiting,
    running_loads,
    split_arrays,
    split_into_pools,
)
from offpeak.plugin.planner.dispatch import DispatchProblem, cost_of, solve_dispatch
from offpeak.plugin.planner.orders import Budget, budget_of
from offpeak.plugin.planner.placement import place_one_by_one
from offpeak.plugin.planner.problem import NO_LIMIT, TOMORROW, Plan, first_unit
from offpeak.plugin.queue_hook.positions import job_number
from offpeak.plugin.queue_hook.start_times import BeginTimePlanner
from offpeak.plugin.scheduler.job import HOLDING

UNPRICED_S = 2 * DAY_S
"""The time of a plan without prices."""

ROUNDS = 3


def plan_day(inputs: PlanInputs, previous: DayPlan | None, budget: Budget) -> DayPlan | None:
    """Return the plan, None if no price is known. Starts of the `previous` plan stay without a reason to move."""
    prices = inputs.queue.prices
    if prices is None or not prices.known.any():
        return None
    return _plan_in_order(inputs, prices, find_queue_order(inputs), previous, budget)


def plan_under_caps(inputs: PlanInputs) -> DayPlan:
    """Return the plan in the scheduler's present order, for what caps leave to each job; it needs no prices."""
    facts, now_s = inputs.queue, inputs.queue.now_s
    prices = facts.prices
    if prices is None or not prices.known.any():
        prices = Series(np.array([now_s]), now_s + UNPRICED_S, np.zeros(1), "", "none")
    in_line = sorted(facts.pending, key=lambda job: (-job.priority, job_number(job.job_id)))
    return _plan_in_order(inputs, prices, QueueOrder(tuple(in_line), ()), None, budget_of(0.0))


def _plan_in_order(
    inputs: PlanInputs, prices: Series, order: QueueOrder, previous: DayPlan | None, budget: Budget
) -> DayPlan:
    pools, left_out = split_into_pools(inputs.queue, inputs.nodes, order.ordered)
    rates = whole = build_rates(inputs, prices)
    loads = running_loads(inputs, [job for job in inputs.queue.jobs if job.state in HOLDING and allocated_hosts(job)])
    in_pools = {job.job_id for pool in pools for job in pool.holding}
    others_w = unexplained_w(inputs, loads)
    rates = subtract_outside_load(rates, inputs, [load for load in loads if load.job_id not in in_pools], others_w)
    supply = Supply(rates, taken_by_running(inputs))
    results = []
    for pool in (split_arrays(inputs, each) for each in pools):
        results.append(_plan_pool(inputs, pool, order, supply, previous, budget))
        supply = _without_pool(supply, results[-1])
    plan = join_pool_plans(inputs, whole, loads, left_out, results, previous, others_w=others_w)
    return replace(plan, remarks=(*filter(None, (order.remark,)), *plan.remarks))


def _without_pool(supply: Supply, result: PoolResult) -> Supply:
    """Return what the pool leaves to others: the power of its jobs counts against caps, and its jobs take limits."""
    problem, plan = result.question.problem, result.plan
    taken = taken_by_planned(result.question.pool.amounts, problem.work, plan)
    return Supply(subtract_power(supply.rates, *planned_power(problem, plan)), supply.taken + taken)


def _plan_pool(
    inputs: PlanInputs, pool: PlanPool, order: QueueOrder, supply: Supply, previous: DayPlan | None, budget: Budget
) -> PoolResult:
    """Return the pool's plan: jobs wait for a cheap hour only if they can start in one."""
    windows = [
        np.array([at for at, job in enumerate(pool.waiting) if job.job_id in window], np.int64)
        for window in order.windows
    ]
    holds = find_holds(inputs, pool.waiting)
    at_once = {
        job: replace(hold, begin_s=0, for_price=False) if hold.for_price else hold for job, hold in holds.items()
    }
    plan_under = partial(
        _plan_with_holds, inputs, pool, supply=supply, previous=previous, windows=windows, budget=budget
    )
    free = plan_under(at_once)
    wants_delay = frozenset(job for job, hold in holds.items() if hold.for_price)
    if not wants_delay:
        return free
    held = plan_under(holds)
    kept = {job: holds[job] for job in _jobs_worth_waiting(inputs, pool, free.plan, held.plan)}
    return replace(plan_under(at_once | kept), wants_delay=wants_delay)


def _plan_with_holds(
    inputs: PlanInputs,
    pool: PlanPool,
    holds: Mapping[str, StartHold],
    *,
    supply: Supply,
    previous: DayPlan | None,
    windows: Sequence[Int64],
    budget: Budget,
) -> PoolResult:
    """Return the plan under these holds; a job that finds no place by its latest start then does without its hold."""
    question = build_pool_problem(inputs, pool, holds, supply)
    plan = refit_plan(question.problem, _earlier_plan(question, previous, inputs), windows, budget)
    late = np.flatnonzero(~plan.placed & (question.problem.work.latest_end_s < NO_LIMIT))
    if not len(late):
        return PoolResult(question, plan, holds)
    loose = {pool.waiting[at].job_id: StartHold() for at in late}
    question = build_pool_problem(inputs, pool, {**holds, **loose}, supply)
    placed = place_one_by_one(question.problem, late, plan.solver, kept=plan)
    return PoolResult(question, replace(placed, note=plan.note), {**holds, **loose})


def _jobs_worth_waiting(inputs: PlanInputs, pool: PlanPool, free: Plan, held: Plan) -> list[str]:
    planner, now_s = BeginTimePlanner(inputs.queue, inputs.rules), inputs.queue.now_s
    return [
        job.job_id
        for job, free_s, held_s in zip(pool.waiting, free.start_s.tolist(), held.start_s.tolist(), strict=True)
        if TOMORROW not in (free_s, held_s)
        and is_worth_waiting(planner, job, held_start_s=now_s + held_s, free_start_s=now_s + free_s)
    ]


def _earlier_plan(question: PoolProblem, previous: DayPlan | None, inputs: PlanInputs) -> Plan | None:
    """Return the previous plan of the pool's jobs, with times and nodes of this problem."""
    if previous is None:
        return None
    work, pool = question.problem.work, question.pool
    row_of = {node.name: row for row, node in enumerate(pool.nodes)}
    start_s, node = np.full(len(work), TOMORROW), np.full(int(work.units.sum()), TOMORROW)
    for at, (job, first) in enumerate(zip(pool.waiting, first_unit(work).tolist(), strict=False)):
        before = previous.by_id.get(job.job_id)
        if before is None or before.start_s is None or len(before.hosts) != work.units[at]:
            continue
        start_s[at] = before.start_s - inputs.queue.now_s
        node[first : first + len(before.hosts)] = [row_of.get(host, TOMORROW) for host in before.hosts]
    return Plan(np.where(start_s < 0, TOMORROW, start_s), node, "standing")


def plan_beside_devices(inputs: PlanInputs, devices: SiteDevices, budget: Budget) -> DayPlan | None:
    """Return the plan with the schedule of the devices, None if no price is known.

    Raises BadInput if the PV power is not known for the time of the plan.
    """
    plan, prices = plan_day(inputs, None, budget), inputs.queue.prices
    if plan is None or prices is None:
        return None
    at_grid_prices = plan.power_profile
    best = _with_schedule(plan, devices)
    for _ in range(ROUNDS - 1):
        assert best.devices is not None
        edge_s, marginal = best.devices.edge_s, 1000 * best.devices.dispatch.marginal_per_kwh
        series = Series(edge_s[:-1], int(edge_s[-1]), marginal, prices.unit, prices.source)
        again = plan_day(replace(inputs, queue=replace(inputs.queue, prices=series)), None, budget)
        assert again is not None
        profile = again.power_profile
        at = np.searchsorted(at_grid_prices.edge_s, profile.edge_s[:-1], side="right") - 1
        price_per_kwh = at_grid_prices.price_per_kwh[np.clip(at, 0, None)]
        other = _with_schedule(replace(again, power_profile=replace(profile, price_per_kwh=price_per_kwh)), devices)
        if _rank(other) >= _rank(best):
            break
        best = other
    return best


def _with_schedule(plan: DayPlan, devices: SiteDevices) -> DayPlan:
    profile = plan.power_profile
    inside = np.empty(0, np.int64) if devices.pv is None else devices.pv.start_s
    inside = inside[(inside > profile.edge_s[0]) & (inside < profile.edge_s[-1])]
    edge_s = np.union1d(profile.edge_s, inside)
    at = np.searchsorted(profile.edge_s, edge_s[:-1], side="right") - 1
    slots = len(at)
    problem = DispatchProblem(
        hours=np.diff(edge_s) / HOUR_S,
        load_kw=(profile.power_w * profile.pue / 1000)[at],
        pv_kw=devices.pv_kw(edge_s),
        import_per_kwh=profile.price_per_kwh[at],
        export_per_kwh=np.zeros(slots),
        battery=devices.battery,
        demand=np.empty((0, slots), np.bool_),
        peak_per_kw=np.empty(0),
        peak_so_far_kw=np.empty(0),
    )
    dispatch = solve_dispatch(problem)
    return replace(
        plan, devices=DeviceSchedule(edge_s, problem.load_kw, problem.pv_kw, dispatch, cost_of(problem, dispatch))
    )


def _rank(plan: DayPlan) -> tuple[int, float]:
    """Return what is smaller for a better plan: jobs that find no place, then the bill.

    The mean price is taken off for each kWh: a plan that moves energy behind its end does not save the cost of it.
    """
    profile, schedule = plan.power_profile, plan.devices
    assert schedule is not None
    hours = np.diff(profile.edge_s) / HOUR_S
    mean_price = float(np.average(profile.price_per_kwh, weights=hours))
    energy_kwh = float(profile.power_w * profile.pue / 1000 @ hours)
    return sum(job.start_s is None for job in plan.jobs), schedule.cost - mean_price * energy_kwh
