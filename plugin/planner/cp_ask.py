"""Makes a question of a problem, and a plan of its answer."""

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.facility import STEP_W
from plugin.planner.by_price import better, paying, without
from plugin.planner.cp_question import Answer, Band, EnergyCost, OnNode, Question, SingleNodes, Taken
from plugin.planner.free import watts
from plugin.planner.net_rates import net_per_s, pue_under
from plugin.planner.one_by_one import one_by_one
from plugin.planner.plan import Plan, first_unit
from plugin.planner.problem import NO_LIMIT, Problem
from plugin.planner.profit import J_PER_KWH, overlap_s, profit_of

LATER = np.iinfo(np.int64).max
EXACT_PAIRS = 400
"""Up to so many pairs of a job and a node a question has the nodes one by one: more have seldom an answer in time."""
EXACT_BANDS = 400
"""Up to so many bands of power, of all steps, the PUE of a question goes with the load."""
SAME_COST = 1e-12
"""Costs of energy that differ by less than this share are equal."""


def question_of(
    problem: Problem, incumbent: Plan, which: Int64, *, hinted: bool, on_nodes: tuple[OnNode, ...] = ()
) -> Question:
    """Return the question when these jobs start, all others as in the incumbent; a large one keeps its PUE, too.

    `on_nodes` are nodes that jobs keep in a large question.
    """
    work, rates, machine = problem.work, problem.rates, problem.machine
    horizon_s = rates.horizon_s
    start_s = np.where(incumbent.placed, incumbent.start_s, horizon_s)
    cap_w = int(min(rates.cap_w.max(), NO_LIMIT // 4))
    is_small = len(which) * len(machine) <= EXACT_PAIRS
    return Question(
        asks=_asks(problem)[which],
        has=np.array([machine.cores.sum(), machine.memory_mb.sum(), machine.gpus.sum(), len(machine), cap_w], np.int64),
        duration_s=work.duration_s[which],
        earliest_s=np.minimum(work.release_s[which], horizon_s),
        latest_s=np.minimum(work.latest_end_s - work.duration_s, horizon_s)[which],
        hint_s=start_s[which] if hinted else None,
        edge_s=rates.edge_s,
        per_s=net_per_s(problem, pue_under(problem, incumbent))[which],
        taken=_taken(problem, incumbent, which, cap_w),
        on_nodes=() if is_small else on_nodes,
        nodes=_single_nodes(problem, incumbent, which, hinted=hinted) if is_small else None,
        energy=_energy_cost(problem, incumbent, which) if is_small else None,
    )


def plan_of(problem: Problem, incumbent: Plan, which: Int64, answer: Answer, solver: str) -> Plan:
    """Return the best plan that follows the answer: on its own nodes, or packed onto single nodes one by one.

    Where the answer's jobs fit the machine as a whole but not its nodes, some start later than the answer says. Jobs
    that the answer leaves for tomorrow are placed behind all others if that pays.
    """
    horizon_s = problem.rates.horizon_s
    start_s = np.where(incumbent.placed, incumbent.start_s, LATER)
    start_s[which] = np.where(answer.start_s < horizon_s, answer.start_s, LATER)
    held_s = np.where(start_s < LATER, start_s, 0)
    order = np.argsort(start_s, kind="stable")
    chosen = order[start_s[order] < LATER]
    kept = without(problem, incumbent, which)
    free = chosen[~kept.placed[chosen]]
    plans = [
        one_by_one(problem, free, solver, kept=kept),
        one_by_one(problem, free, solver, kept=kept, not_before_s=held_s),
        one_by_one(problem, chosen, solver),
    ]
    if len(chosen) < len(order):
        plans.append(one_by_one(problem, order, solver))
    if answer.nodes is not None:
        plans.insert(0, _on_nodes(problem, kept, which, answer, solver))
    best = max((paying(problem, plan) for plan in plans), key=lambda plan: profit_of(problem, plan).total)
    left = np.flatnonzero(~best.placed)
    return better(problem, best, paying(problem, one_by_one(problem, left, solver, kept=best))) if len(left) else best


def _on_nodes(problem: Problem, kept: Plan, which: Int64, answer: Answer, solver: str) -> Plan:
    """Return the kept plan with these jobs as the answer has them."""
    start_s, node, first = kept.start_s.copy(), kept.node.copy(), first_unit(problem.work)
    assert answer.nodes is not None
    for job, at_s, on_node in zip(which.tolist(), answer.start_s.tolist(), answer.nodes, strict=True):
        if at_s < problem.rates.horizon_s:
            start_s[job] = at_s
            node[first[job] : first[job + 1]] = np.flatnonzero(on_node)
    return Plan(start_s, node, solver)


def _asks(problem: Problem) -> Int64:
    work = problem.work
    each = (work.cores, work.memory_mb, work.gpus, _alone(problem, work.cores))
    return np.stack([*(work.units * asked for asked in each), watts(work.power_w)], axis=1)


def _alone(problem: Problem, cores: Int64) -> Int64:
    """Return 1 for units that ask for more than half of a node's cores, of which no node has two, 0 for others."""
    return np.asarray(2 * cores > problem.machine.cores.max(), np.int64)


def _taken(problem: Problem, incumbent: Plan, which: Int64, cap_w: int) -> Taken:
    """Return what running jobs and the incumbent's others take; where the cap is lower, of the power too."""
    running, rates, work = problem.running, problem.rates, problem.work
    fixed = _fixed(incumbent, which)
    start_s, duration_s = incumbent.start_s[fixed], work.duration_s[fixed]
    alone = _alone(problem, running.cores)
    ran = np.stack([running.cores, running.memory_mb, running.gpus, alone, watts(running.power_w)], axis=1)
    asks = np.concatenate([ran, _asks(problem)[fixed]])
    from_s = np.concatenate([np.zeros(len(running), np.int64), start_s])
    until_s = np.concatenate([running.until_s, start_s + duration_s])
    taken = _over_time(from_s, until_s, asks, np.append(rates.edge_s, 0))
    inside = taken.at_s < rates.horizon_s
    step = np.clip(np.searchsorted(rates.edge_s, taken.at_s, side="right") - 1, 0, len(rates.cap_w) - 1)
    missing_w = cap_w - np.minimum(rates.cap_w[step], cap_w)
    taken.used[:, -1] = np.minimum(taken.used[:, -1] + np.where(inside, missing_w, 0), cap_w)
    return taken


def _fixed(incumbent: Plan, which: Int64) -> np.ndarray:
    """Return which jobs stay as the incumbent has them."""
    fixed = incumbent.placed.copy()
    fixed[which] = False
    return fixed


def _over_time(from_s: Int64, until_s: Int64, asks: Int64, at_s: Int64) -> Taken:
    """Return the sum of what is asked for from one instant to the next, `at_s` among them."""
    at_s = np.unique(np.concatenate([from_s, until_s, at_s]))
    change = np.zeros((len(at_s), asks.shape[1]), np.int64)
    np.add.at(change, np.searchsorted(at_s, from_s), asks)
    np.subtract.at(change, np.searchsorted(at_s, until_s), asks)
    return Taken(at_s, np.cumsum(change, axis=0))


def kept_nodes(problem: Problem, incumbent: Plan) -> tuple[OnNode, ...]:
    """Return the nodes of jobs of several units, as the incumbent has them."""
    work = problem.work
    job = np.repeat(np.arange(len(work)), work.units)
    wide = (work.units[job] > 1) & incumbent.placed[job]
    nodes = []
    for node, capacity in enumerate(problem.machine.cores.tolist()):
        there = job[wide & (incumbent.node == node)]
        if len(there) > 1:
            nodes.append(OnNode(there, work.cores[there], capacity))
    return tuple(nodes)


def _single_nodes(problem: Problem, incumbent: Plan, which: Int64, *, hinted: bool) -> SingleNodes:
    work, machine, running = problem.work, problem.machine, problem.running
    job = np.repeat(np.arange(len(work)), work.units)
    asks = np.stack([work.cores, work.memory_mb, work.gpus], axis=1)
    ran = np.stack([running.cores, running.memory_mb, running.gpus], axis=1)
    fixed = _fixed(incumbent, which)[job]
    taken = []
    for node in range(len(machine)):
        here, there = job[fixed & (incumbent.node == node)], running.node == node
        from_s = np.concatenate([np.zeros(int(there.sum()), np.int64), incumbent.start_s[here]])
        until_s = np.concatenate([running.until_s[there], incumbent.start_s[here] + work.duration_s[here]])
        taken.append(_over_time(from_s, until_s, np.concatenate([ran[there], asks[here]]), np.zeros(1, np.int64)))
    has = np.stack([machine.cores, machine.memory_mb, machine.gpus], axis=1)
    hint = np.zeros((len(work), len(machine)), np.bool_)
    placed = incumbent.placed[job]
    hint[job[placed], incumbent.node[placed]] = True
    return SingleNodes(work.units[which], asks[which], has, tuple(taken), hint[which] if hinted else None)


def _energy_cost(problem: Problem, incumbent: Plan, which: Int64) -> EnergyCost | None:
    """Return what energy costs by the load; None if PUE changes so often with the load that the question is large."""
    work, running, rates = problem.work, problem.running, problem.rates
    fixed = _fixed(incumbent, which)
    start_s = incumbent.start_s[fixed]
    other_j = work.power_w[fixed] @ overlap_s(rates, start_s, start_s + work.duration_s[fixed])
    other_j += running.power_w @ overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    length_s = np.diff(rates.edge_s)
    most_w = other_j / length_s + work.power_w[which].sum()
    bands = tuple(_bands(problem, step, float(other_j[step]), float(most_w[step])) for step in range(len(length_s)))
    if sum(map(len, bands)) > EXACT_BANDS:
        return None
    return EnergyCost(work.power_w[which], work.revenue_per_s[which], np.asarray(other_j), bands)


def _bands(problem: Problem, step: int, least_j: float, most_w: float) -> tuple[Band, ...]:
    """Return the bands of equal PUE of the step between these loads; half a band is rounded to the even one."""
    rates = problem.rates
    length_s = int(rates.edge_s[step + 1] - rates.edge_s[step])
    half_mj = round(1000 * STEP_W / 2) * length_s
    first, last = round(least_j / length_s / STEP_W), round(most_w / STEP_W)
    numbers = np.arange(max(first - 1, 0), last + 2)
    pue = problem.facility.pue_at(
        np.asarray(numbers * STEP_W, np.float64), np.full(len(numbers), rates.temperature_c[step])
    )
    bands: list[Band] = []
    for number, each in zip(numbers.tolist(), (pue * rates.price_per_kwh[step] / J_PER_KWH).tolist(), strict=True):
        is_odd = number % 2
        from_mj, until_mj = (2 * number - 1) * half_mj + is_odd, (2 * number + 1) * half_mj - is_odd
        if bands and abs(bands[-1].cost_per_j - each) <= SAME_COST * abs(each):
            bands[-1] = Band(bands[-1].from_mj, until_mj, each)
        else:
            bands.append(Band(from_mj, until_mj, each))
    return tuple(bands)
