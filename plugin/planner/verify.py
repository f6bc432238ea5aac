"""Checks a plan without anything that made it, by every rule at every instant and its profit, and bounds the profit.

The upper bound is a Lagrangian relaxation: capacity does not bind but has a price in each step of a grid, as licences
and other limits have, and each job takes the best start for itself at these prices. The earnings of all jobs plus the
value of the whole capacity are, at any prices, at least the profit of the best plan; subgradient steps look for prices
that minimise them. Cooling uses the lowest PUE of the table at the step's temperature.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import kernel
from offpeak.display import watts_text
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.plugin.planner.problem import (
    TOMORROW,
    Plan,
    Problem,
    Rates,
    compute_profit,
    empty_plan,
    least_pue,
    may_use,
    net_per_s,
    overlap_s,
    resource_columns,
)

SAME = 1e-6
"""Sums of watts that differ by less than this share are equal."""


@dataclass(frozen=True)
class PlanVerdict:
    """What is wrong with a plan, a sentence each, and its profit summed up instant by instant."""

    violations: tuple[str, ...]
    profit: float


def verify_plan(problem: Problem, plan: Plan) -> PlanVerdict:
    """Return the verdict; a plan without violations is one that the machine can carry out."""
    running, work = problem.running, problem.work
    unit = np.flatnonzero(np.repeat(plan.start_s, work.units) != TOMORROW)
    job = np.repeat(np.arange(len(work)), work.units)[unit]
    pieces = _Pieces(
        np.concatenate([running.node, plan.node[unit]]),
        np.concatenate([np.zeros_like(running.until_s), plan.start_s[job]]),
        np.concatenate([running.until_s, plan.start_s[job] + work.duration_s[job]]),
        np.concatenate([resource_columns(running), resource_columns(work)[job]]),
        np.concatenate([running.power_w, (work.power_w / work.units)[job]]),
        np.concatenate([running.revenue_per_s, (work.revenue_per_s / work.units)[job]]),
    )
    wrong = [*_broken_jobs(problem, plan), *_overfull(problem, pieces), *_above_cap(problem, pieces)]
    wrong += _above_limits(problem, plan) if len(problem.limits) else ()
    return PlanVerdict(tuple(wrong), _profit(problem, pieces))


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Units on their nodes, as columns; `asks` are cores, MB and GPUs, int64[pieces, 3]."""

    node: Int64
    start_s: Int64
    end_s: Int64
    asks: Int64
    power_w: Float64
    revenue_per_s: Float64


def _broken_jobs(problem: Problem, plan: Plan) -> Iterator[str]:
    work, start_s = problem.work, plan.start_s
    placed = start_s != TOMORROW
    outside = placed & ((start_s < 0) | (start_s >= problem.rates.horizon_s))
    early = placed & (start_s < work.release_s)
    late = placed & (start_s + work.duration_s > work.latest_end_s)
    job = np.repeat(np.arange(len(work)), work.units)
    unplaced = _any_of(job, plan.node != TOMORROW, len(work)) & ~placed
    found = (plan.node < 0) | (plan.node >= len(problem.machine))
    found[~found] = ~may_use(problem, job[~found], plan.node[~found])
    order = np.lexsort([plan.node, job])
    twice = (np.diff(job[order]) == 0) & (np.diff(plan.node[order]) == 0)
    found[order[1:][twice]] = True
    wrong = _any_of(job, found, len(work)) & placed
    first = np.cumsum(work.units) - work.units
    for at in np.flatnonzero(outside | early | late | unplaced | wrong).tolist():
        name = f"job {work.job_id[at]}"
        if unplaced[at]:
            yield f"{name} has nodes but no start"
        if outside[at]:
            yield f"{name} starts in second {start_s[at]}, outside the plan"
        if early[at]:
            yield f"{name} starts in second {start_s[at]}, before it is there in second {work.release_s[at]}"
        if late[at]:
            yield f"{name} ends after its latest end in second {work.latest_end_s[at]}"
        if wrong[at]:
            nodes = plan.node[first[at] : first[at] + work.units[at]].tolist()
            yield f"{name} does not have {len(nodes)} nodes of the machine, each once: {nodes}"


def _any_of(job: Int64, unit: NDArray[np.bool_], jobs: int) -> NDArray[np.bool_]:
    """Return of which jobs it holds for some unit."""
    return np.bincount(job[unit], minlength=jobs) > 0


def _overfull(problem: Problem, pieces: _Pieces) -> Iterator[str]:
    """Add up starts and ends node by node; those of one instant are one change."""
    machine = problem.machine
    has = resource_columns(machine)
    here = np.flatnonzero((pieces.node >= 0) & (pieces.node < len(machine)))
    node = np.concatenate([pieces.node[here], pieces.node[here]])
    at_s = np.concatenate([pieces.start_s[here], pieces.end_s[here]])
    change = np.concatenate([pieces.asks[here], -pieces.asks[here]])
    order = np.lexsort([at_s, node])
    node, at_s = node[order], at_s[order]
    # The changes of each node sum to zero, so nothing is carried over to the next node.
    used = np.cumsum(change[order], axis=0)
    settled = np.ones(len(node), np.bool_)
    settled[:-1] = (np.diff(node) != 0) | (np.diff(at_s) != 0)
    full = np.flatnonzero(settled & (used > has[node]).any(axis=1))
    for each in full[np.lexsort([node[full], at_s[full]])].tolist():
        yield f"node {node[each]} is overfull in second {at_s[each]}"


def _above_cap(problem: Problem, pieces: _Pieces) -> Iterator[str]:
    rates = problem.rates
    begin_s, drawn_w = _over_time(problem, pieces, pieces.power_w)
    cap_w = rates.cap_w[np.searchsorted(rates.edge_s, begin_s, side="right") - 1]
    for at in np.flatnonzero(drawn_w > cap_w + SAME * np.maximum(cap_w, 1)).tolist():
        yield f"{watts_text(drawn_w[at])} are drawn in second {begin_s[at]}, above the cap of {watts_text(cap_w[at])}"


def _above_limits(problem: Problem, plan: Plan) -> Iterator[str]:
    """Add up what is taken of each limit; where others alone exceed it, only planned jobs are a violation."""
    limits, taken = problem.limits, problem.limits.taken
    placed = np.flatnonzero(plan.start_s != TOMORROW)
    job, limit, amount = limits.rows_of(problem.work.demand[placed])
    start_s, run_s = plan.start_s[placed][job], problem.work.duration_s[placed][job]
    for number, most in enumerate(limits.most.tolist()):
        ours, others = limit == number, taken.limit == number
        begin_s = np.concatenate([start_s[ours], taken.from_s[others]])
        end_s = np.concatenate([(start_s + run_s)[ours], taken.until_s[others]])
        planned = np.concatenate([amount[ours], np.zeros(int(others.sum()), np.int64)])
        total = np.concatenate([amount[ours], taken.amount[others]])
        instants, at = np.unique(np.concatenate([begin_s, end_s]), return_inverse=True)
        change = np.zeros((len(instants), 2), np.int64)
        np.add.at(change, at, np.stack([np.concatenate([each, -each]) for each in (planned, total)], axis=1))
        used = np.cumsum(change, axis=0)
        for over in np.flatnonzero((used[:, 0] > 0) & (used[:, 1] > most)).tolist():
            yield f"{limits.names[number]}: {used[over, 1]:,} are taken in second {instants[over]}, of {most:,}"


def _over_time(problem: Problem, pieces: _Pieces, each: Float64) -> tuple[Int64, Float64]:
    """Return the instants within the plan at which anything may change, and the sum over what then runs."""
    edge_s = problem.rates.edge_s[:-1]
    instants, at = np.unique(np.concatenate([edge_s, pieces.start_s, pieces.end_s]), return_inverse=True)
    change = np.zeros(len(instants))
    np.add.at(change, at, np.concatenate([np.zeros(len(edge_s)), each, -each]))
    inside = (instants >= 0) & (instants < problem.rates.horizon_s)
    return instants[inside], np.cumsum(change)[inside]


def _profit(problem: Problem, pieces: _Pieces) -> float:
    """Sum the running jobs from instant to instant; the PUE is that of each step's mean power."""
    rates = problem.rates
    begin_s, drawn_w = _over_time(problem, pieces, pieces.power_w)
    _, earned_per_s = _over_time(problem, pieces, pieces.revenue_per_s)
    seconds = np.diff(np.append(begin_s, rates.horizon_s))
    step = np.searchsorted(rates.edge_s, begin_s, side="right") - 1
    energy_j = np.bincount(step, weights=drawn_w * seconds, minlength=len(rates.cap_w))
    pue = problem.facility.pue_at(energy_j / np.diff(rates.edge_s), rates.temperature_c)
    return float(earned_per_s @ seconds - energy_j * pue @ rates.price_per_kwh / J_PER_KWH)


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
