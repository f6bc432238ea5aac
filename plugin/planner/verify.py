"""Checks a plan without anything that made it, by every rule at every instant, and sums up its profit."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.display import watts_text
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.plugin.planner.problem import TOMORROW, Plan, Problem, may_use, resource_columns

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
