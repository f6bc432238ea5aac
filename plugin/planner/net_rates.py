"""What a second of a job earns in each step of the rates, at a PUE that is taken as known."""

import numpy as np

from offpeak.model.arrays import Float64
from plugin.planner.plan import Plan
from plugin.planner.problem import Problem
from plugin.planner.profit import J_PER_KWH, overlap_s


def net_per_s(problem: Problem, pue: Float64) -> Float64:
    """Return revenue less energy and cooling of each job in each step [currency/s]; float64[jobs, steps]."""
    work = problem.work
    per_watt = pue * problem.rates.price_per_kwh / J_PER_KWH
    return np.asarray(work.revenue_per_s[:, None] - work.power_w[:, None] * per_watt)


def pue_under(problem: Problem, plan: Plan) -> Float64:
    """Return the PUE of each step if the plan is carried out."""
    work, running, rates = problem.work, problem.running, problem.rates
    placed = plan.placed
    start_s = plan.start_s[placed]
    it_j = work.power_w[placed] @ overlap_s(rates, start_s, start_s + work.duration_s[placed])
    it_j += running.power_w @ overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    return problem.facility.pue_at(it_j / np.diff(rates.edge_s), rates.temperature_c)


def least_pue(problem: Problem) -> Float64:
    """Return the PUE of each step at which energy costs least, whatever the power: a bound."""
    low, high = problem.facility.pue_range(problem.rates.temperature_c)
    return np.where(problem.rates.price_per_kwh >= 0, low, high)
