"""The plan of the queue beside a PV plant and a battery: their schedule, and jobs placed at the prices that it leaves.

Jobs and battery are planned in turn. The schedule of the battery for the power of the jobs gives a marginal price for
each slot: what one more kWh would cost then, 0 while PV is curtailed. At these prices the jobs are planned again, as
long as that makes the bill smaller. One programme of both would need the orders of jobs on nodes as binary variables;
the planner of jobs needs nothing but prices.
"""

from dataclasses import replace

import numpy as np

from offpeak.model.constants import HOUR_S
from offpeak.model.site_devices import SiteDevices
from offpeak.model.step_series import Series
from plugin.day_plan.day_plan import DayPlan, DeviceSchedule
from plugin.day_plan.inputs import PlanInputs
from plugin.day_plan.make import plan_day
from plugin.planner.dispatch import DispatchProblem, cost_of, solve_dispatch
from plugin.planner.searches import Budget

ROUNDS = 3


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
