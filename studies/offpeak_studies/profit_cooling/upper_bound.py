"""An upper bound of the profit of all plans, and the gap between a plan and the bound.

The bound is a Lagrangian relaxation: capacity does not bind but has a price in each step of a grid, as licences and
other limits have, and each job takes the best start for itself at these prices. The earnings of all jobs plus the value
of the whole capacity are, at any prices, at least the profit of the best plan; subgradient steps look for prices that
minimise them. Cooling uses the lowest PUE of the table at the step's temperature.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.plugin.planner.problem import Problem, Rates, compute_profit, empty_plan, overlap_s

ON_NODES = 2
"""The columns of cores and memory; those of limits follow."""
STEPS = 48
ROUNDS = 60


def upper_bound(problem: Problem) -> float:
    """Return the bound on `compute_profit(...).total` of all plans, in the currency of the rates."""
    ran = _bound_of_running(problem)
    if not len(problem.work):
        return ran
    rates = _finer(problem.rates)
    question = replace(problem, rates=rates)
    per_s = net_per_s(question, least_pue(question))
    starts_s = _candidates(question)
    work = problem.work
    on_nodes = np.stack([work.units * work.cores, work.units * work.memory_mb], axis=1)
    needed = np.concatenate([on_nodes, problem.limits.amounts_of(work.demand)], axis=1)
    limits, taken = question.limits, question.limits.taken
    used = np.zeros((len(limits), len(question.rates.edge_s) - 1))
    np.add.at(used, taken.limit, taken.amount[:, None] * overlap_s(question.rates, taken.from_s, taken.until_s))
    has = np.concatenate(
        [_capacity(question), np.maximum(limits.most[:, None] * np.diff(question.rates.edge_s) - used, 0.0)]
    )
    scale = has.max(axis=1, keepdims=True).clip(1)
    return ran + _least(rates, per_s, starts_s, problem.work.duration_s, needed / scale.T, has / scale)


def _bound_of_running(problem: Problem) -> float:
    """Return what running jobs earn at the most: at the most favourable PUE."""
    running, rates = problem.running, problem.rates
    inside_s = overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    per_watt = least_pue(problem) * rates.price_per_kwh / J_PER_KWH
    return float(running.revenue_per_s @ inside_s.sum(axis=1) - (running.power_w @ inside_s) @ per_watt)


def _finer(rates: Rates) -> Rates:
    """Return the same rates with their steps cut at a grid."""
    grid = np.linspace(0, rates.horizon_s, STEPS + 1).astype(np.int64)
    edge_s = np.union1d(rates.edge_s, grid)
    step = np.searchsorted(rates.edge_s, edge_s[:-1], side="right") - 1
    return Rates(edge_s, rates.price_per_kwh[step], rates.temperature_c[step], rates.cap_w[step])


def _candidates(problem: Problem) -> Int64:
    """Return the starts among which a best one is: where what a job earns changes slope; int64[jobs, starts].

    The horizon means no start in this plan.
    """
    work, rates = problem.work, problem.rates
    edges = np.broadcast_to(rates.edge_s, (len(work), len(rates.edge_s)))
    latest_s = np.minimum(work.latest_end_s - work.duration_s, rates.horizon_s)[:, None]
    starts_s = np.concatenate([work.release_s[:, None], latest_s, edges, edges - work.duration_s[:, None]], axis=1)
    may = (starts_s >= work.release_s[:, None]) & (starts_s <= latest_s) & _has_nodes(problem)[:, None]
    return np.where(may, starts_s, rates.horizon_s)


def _has_nodes(problem: Problem) -> NDArray[np.bool_]:
    """Return which jobs find enough nodes in the machine if they have it to themselves."""
    work, machine = problem.work, problem.machine
    fits = work.cores[:, None] <= machine.cores
    fits &= (work.memory_mb[:, None] <= machine.memory_mb) & (work.gpus[:, None] <= machine.gpus)
    return np.asarray(fits.sum(axis=1) >= work.units)


def _capacity(problem: Problem) -> Float64:
    """Return core-seconds and megabyte-seconds that running jobs leave in each step; float64[2, steps]."""
    running, rates, machine = problem.running, problem.rates, problem.machine
    inside_s = overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    used = np.stack([running.cores @ inside_s, running.memory_mb @ inside_s])
    return (
        np.stack([machine.cores.sum() * np.diff(rates.edge_s), machine.memory_mb.sum() * np.diff(rates.edge_s)]) - used
    )


def _least(rates: Rates, per_s: Float64, starts_s: Int64, duration_s: Int64, needed: Float64, has: Float64) -> float:
    """Return the least bound of all subgradient steps."""
    length_s = np.diff(rates.edge_s)
    ends_s = np.minimum(starts_s + duration_s[:, None], rates.horizon_s)
    candidates = CandidateStarts(starts_s, ends_s, _step_at(rates, starts_s), _step_at(rates, ends_s))
    price, has_limits = np.zeros_like(has), len(has) > ON_NODES
    # While the machine is full, a core is worth what the median job earns with one.
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.nan_to_num(np.median(per_s / needed[:, :1], axis=0))
    price[0] = np.maximum(worth, 0) if (needed[:, 0] * duration_s).sum() > has[0].sum() else 0
    best, step_size = np.inf, 0.1 * float(np.abs(worth).max())
    for number in range(ROUNDS):
        used = np.zeros_like(has)
        less_limits = per_s - needed[:, ON_NODES:] @ price[ON_NODES:] if has_limits else per_s
        earned = _best_starts(less_limits, needed, price, rates.edge_s, candidates, used)
        best = min(best, earned + float((price * has).sum()))
        slack = (has - used) / length_s
        norm = float(np.abs(slack).max())
        if norm == 0:
            break
        price = np.maximum(price - step_size / (1 + number / 4) * slack / norm, 0)
    return best


def _step_at(rates: Rates, at_s: Int64) -> Int64:
    return np.clip(np.searchsorted(rates.edge_s, at_s, side="right") - 1, 0, len(rates.edge_s) - 2)


class CandidateStarts(NamedTuple):
    """By job and candidate: start and end, and the steps of the prices in which they lie."""

    starts_s: Int64
    ends_s: Int64
    begin: Int64
    end: Int64


@kernel
def _best_starts(
    per_s: Float64, needed: Float64, price: Float64, edge_s: Int64, candidates: CandidateStarts, used: Float64
) -> float:
    """Return the earnings of all jobs from their best starts, and add their resources to `used`.

    `price` is that of resources; `per_s` is without what jobs pay for limits.
    """
    starts_s, ends_s, begin, end = candidates
    steps = len(edge_s) - 1
    total, net, whole = 0.0, np.empty(steps), np.zeros(steps + 1)
    for job in range(len(per_s)):
        for step in range(steps):
            net[step] = per_s[job, step] - needed[job, 0] * price[0, step] - needed[job, 1] * price[1, step]
            whole[step + 1] = whole[step] + net[step] * (edge_s[step + 1] - edge_s[step])
        most, best = 0.0, -1
        for index in range(starts_s.shape[1]):
            first, last = begin[job, index], end[job, index]
            value = whole[last] + net[last] * (ends_s[job, index] - edge_s[last])
            value -= whole[first] + net[first] * (starts_s[job, index] - edge_s[first])
            if value > most:
                most, best = value, index
        if best < 0:
            continue
        total += most
        for step in range(begin[job, best], end[job, best] + 1):
            inside_s = min(ends_s[job, best], edge_s[step + 1]) - max(starts_s[job, best], edge_s[step])
            used[0, step] += needed[job, 0] * inside_s
            used[1, step] += needed[job, 1] * inside_s
            for limit in range(ON_NODES, needed.shape[1]):
                used[limit, step] += needed[job, limit] * inside_s
    return total


def compute_gap(problem: Problem, profit: float, bound: float) -> float:
    """Return the gap between a plan's profit and the bound, as a share of the bound."""
    nothing = compute_profit(problem, empty_plan(problem.work, "")).total
    return (bound - profit) / (bound - nothing) if bound > nothing else 0.0


def net_per_s(problem: Problem, pue: Float64) -> Float64:
    """Return revenue less energy and cooling of each job in each step [currency/s]; float64[jobs, steps]."""
    work = problem.work
    per_watt = pue * problem.rates.price_per_kwh / J_PER_KWH
    return np.asarray(work.revenue_per_s[:, None] - work.power_w[:, None] * per_watt)


def least_pue(problem: Problem) -> Float64:
    """Return the lowest PUE of each step over all powers: a bound."""
    low, high = problem.facility.pue_range(problem.rates.temperature_c)
    return np.where(problem.rates.price_per_kwh >= 0, low, high)
