"""The profit of a plan: revenue less energy less cooling within the horizon; and net earnings at a given PUE."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from plugin.planner.problem import Plan, Problem, Rates


@dataclass(frozen=True)
class Profit:
    """Money and energy of a plan within its horizon, what ran before included."""

    revenue: float
    energy_cost: float
    cooling_cost: float
    it_j: float
    cooling_j: float

    @property
    def total(self) -> float:
        """Revenue less both costs."""
        return self.revenue - self.energy_cost - self.cooling_cost

    @property
    def pue(self) -> float:
        """Facility energy over IT energy, 1 where nothing ran."""
        return 1 + self.cooling_j / self.it_j if self.it_j else 1.0


def compute_profit(problem: Problem, plan: Plan) -> Profit:
    """Return what the plan comes to: eq. (3) of the paper, with cooling as W x (PUE - 1)."""
    work, running, rates = problem.work, problem.running, problem.rates
    placed = plan.placed
    start_s, duration_s = plan.start_s[placed], work.duration_s[placed]
    inside_s = overlap_s(rates, start_s, start_s + duration_s)
    before_s = overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    it_j = work.power_w[placed] @ inside_s + running.power_w @ before_s
    revenue = float(work.revenue_per_s[placed] @ inside_s.sum(axis=1) + running.revenue_per_s @ before_s.sum(axis=1))
    power_w = it_j / np.diff(rates.edge_s)
    cooling_j = it_j * (problem.facility.pue_at(power_w, rates.temperature_c) - 1)
    price_per_j = rates.price_per_kwh / J_PER_KWH
    cost, cooling_cost = float(it_j @ price_per_j), float(cooling_j @ price_per_j)
    return Profit(revenue, cost, cooling_cost, float(it_j.sum()), float(cooling_j.sum()))


def overlap_s(rates: Rates, start_s: Int64, end_s: Int64) -> Float64:
    """Return how long each stretch of time lies within each step of the rates; float64[n, steps]."""
    low, high = rates.edge_s[:-1], rates.edge_s[1:]
    inside = np.minimum(end_s[:, None], high) - np.maximum(start_s[:, None], low)
    return np.asarray(np.maximum(inside, 0), np.float64)


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
