"""Searches by constraint programming: from nothing, from an incumbent, and neighbourhood by neighbourhood.

Each search makes a question of the problem and a plan of the solver's answer.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", sections 5 and 7.2. The neighbourhoods are
offpeak's own: all jobs that start within some hours, and some waiting jobs, are free; the others are fixed.
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.model.facility import STEP_W
from plugin.planner.capacity import watts
from plugin.planner.cp_solver import (
    CpAnswer,
    CpProcess,
    CpQuestion,
    EnergyBand,
    EnergyCost,
    NodeAssignment,
    ResourceUse,
    SingleNodes,
    SolverGone,
    cp_process,
    require_or_tools,
)
from plugin.planner.placement import place_one_by_one
from plugin.planner.problem import (
    NO_LIMIT,
    Plan,
    Problem,
    compute_profit,
    first_unit,
    may_use,
    net_per_s,
    overlap_s,
    pue_under,
    resource_columns,
)
from plugin.planner.searches import Budget, better_plan, leave_out_jobs, leave_out_losses

LATER = np.iinfo(np.int64).max
EXACT_PAIRS = 400
"""The most pairs of a job and a node for which a question has single nodes; larger ones are rarely answered in time."""
EXACT_BANDS = 400
"""The most bands of power, over all steps, for which the PUE of a question depends on the load."""
SAME_COST = 1e-12
"""Costs of energy that differ by less than this share are equal."""


def build_cp_question(
    problem: Problem, incumbent: Plan, which: Int64, *, hinted: bool, on_nodes: tuple[NodeAssignment, ...] = ()
) -> CpQuestion:
    """Return the question when these jobs start while all others stay; a large question keeps the PUE of the incumbent.

    `on_nodes` are nodes that jobs keep in a large question.
    """
    work, rates, machine = problem.work, problem.rates, problem.machine
    horizon_s = rates.horizon_s
    start_s = np.where(incumbent.placed, incumbent.start_s, horizon_s)
    cap_w = int(min(rates.cap_w.max(), NO_LIMIT // 4))
    whole = np.array([machine.cores.sum(), machine.memory_mb.sum(), machine.gpus.sum(), len(machine), cap_w], np.int64)
    limits = np.unique(problem.limits.rows_of(problem.work.demand[which])[1])
    is_small = len(which) * len(machine) <= EXACT_PAIRS
    return CpQuestion(
        asks=_requested_resources(problem, limits)[which],
        has=np.concatenate([whole, problem.limits.most[limits]]),
        duration_s=work.duration_s[which],
        earliest_s=np.minimum(work.release_s[which], horizon_s),
        latest_s=np.minimum(work.latest_end_s - work.duration_s, horizon_s)[which],
        hint_s=start_s[which] if hinted else None,
        edge_s=rates.edge_s,
        per_s=net_per_s(problem, pue_under(problem, incumbent))[which],
        taken=_used_resources(problem, incumbent, which, limits, cap_w),
        on_nodes=() if is_small else on_nodes,
        nodes=_single_nodes(problem, incumbent, which, hinted=hinted) if is_small else None,
        energy=_energy_cost(problem, incumbent, which) if is_small else None,
    )


def plan_from_answer(problem: Problem, incumbent: Plan, which: Int64, answer: CpAnswer, solver: str) -> Plan:
    """Return the best plan that follows the answer: on its own nodes, or packed onto single nodes one by one.

    Where the answer's jobs fit the machine as a whole but not its nodes, some start later than in the answer. Jobs
    that the answer leaves for tomorrow are placed behind all others if that pays.
    """
    horizon_s = problem.rates.horizon_s
    start_s = np.where(incumbent.placed, incumbent.start_s, LATER)
    start_s[which] = np.where(answer.start_s < horizon_s, answer.start_s, LATER)
    held_s = np.where(start_s < LATER, start_s, 0)
    order = np.argsort(start_s, kind="stable")
    chosen = order[start_s[order] < LATER]
    kept = leave_out_jobs(problem, incumbent, which)
    free = chosen[~kept.placed[chosen]]
    plans = [
        place_one_by_one(problem, free, solver, kept=kept),
        place_one_by_one(problem, free, solver, kept=kept, not_before_s=held_s),
        place_one_by_one(problem, chosen, solver),
    ]
    if len(chosen) < len(order):
        plans.append(place_one_by_one(problem, order, solver))
    if answer.nodes is not None:
        plans.insert(0, _on_nodes(problem, kept, which, answer, solver))
    best = max(
        (leave_out_losses(problem, plan) for plan in plans), key=lambda plan: compute_profit(problem, plan).total
    )
    left = np.flatnonzero(~best.placed)
    return (
        better_plan(problem, best, leave_out_losses(problem, place_one_by_one(problem, left, solver, kept=best)))
        if len(left)
        else best
    )


def _on_nodes(problem: Problem, kept: Plan, which: Int64, answer: CpAnswer, solver: str) -> Plan:
    """Return the kept plan with these jobs as the answer has them."""
    start_s, node, first = kept.start_s.copy(), kept.node.copy(), first_unit(problem.work)
    assert answer.nodes is not None
    for job, at_s, on_node in zip(which.tolist(), answer.start_s.tolist(), answer.nodes, strict=True):
        if at_s < problem.rates.horizon_s:
            start_s[job] = at_s
            node[first[job] : first[job + 1]] = np.flatnonzero(on_node)
    return Plan(start_s, node, solver)


POWER = 4
"""The column of watts; limits follow."""


def _requested_resources(problem: Problem, limits: Int64) -> Int64:
    work = problem.work
    each = (work.cores, work.memory_mb, work.gpus, _alone(problem, work.cores))
    columns = [*(work.units * requested for requested in each), watts(work.power_w)]
    return np.concatenate([np.stack(columns, axis=1), problem.limits.amounts_of(work.demand)[:, limits]], axis=1)


def _alone(problem: Problem, cores: Int64) -> Int64:
    """Return 1 for units that request more than half of a node's cores, so that no node holds two, 0 for others."""
    return np.asarray(2 * cores > problem.machine.cores.max(), np.int64)


def _used_resources(problem: Problem, incumbent: Plan, which: Int64, limits: Int64, cap_w: int) -> ResourceUse:
    """Return the resources that running jobs and the incumbent's other jobs use; a lower cap counts as used power.

    Running jobs may exceed a limit: then all of it counts as used.
    """
    running, rates, work, others = problem.running, problem.rates, problem.work, problem.limits.taken
    fixed = _fixed(incumbent, which)
    start_s, duration_s = incumbent.start_s[fixed], work.duration_s[fixed]
    alone = _alone(problem, running.cores)
    ran = np.column_stack([resource_columns(running), alone, watts(running.power_w)])
    limited = others.amount[:, None] * (others.limit[:, None] == limits)
    asks = np.concatenate(
        [
            np.pad(ran, ((0, 0), (0, len(limits)))),
            np.pad(limited, ((0, 0), (POWER + 1, 0))),
            _requested_resources(problem, limits)[fixed],
        ]
    )
    from_s = np.concatenate([np.zeros(len(running), np.int64), others.from_s, start_s])
    until_s = np.concatenate([running.until_s, others.until_s, start_s + duration_s])
    taken = _over_time(from_s, until_s, asks, np.append(rates.edge_s, 0))
    inside = taken.at_s < rates.horizon_s
    step = np.clip(np.searchsorted(rates.edge_s, taken.at_s, side="right") - 1, 0, len(rates.cap_w) - 1)
    missing_w = cap_w - np.minimum(rates.cap_w[step], cap_w)
    taken.used[:, POWER] = np.minimum(taken.used[:, POWER] + np.where(inside, missing_w, 0), cap_w)
    taken.used[:, POWER + 1 :] = np.minimum(taken.used[:, POWER + 1 :], problem.limits.most[limits])
    return taken


def _fixed(incumbent: Plan, which: Int64) -> np.ndarray:
    """Return which jobs stay as the incumbent has them."""
    fixed = incumbent.placed.copy()
    fixed[which] = False
    return fixed


def _over_time(from_s: Int64, until_s: Int64, asks: Int64, at_s: Int64) -> ResourceUse:
    """Return the sum of the requests from one instant to the next, `at_s` among them."""
    at_s = np.unique(np.concatenate([from_s, until_s, at_s]))
    change = np.zeros((len(at_s), asks.shape[1]), np.int64)
    np.add.at(change, np.searchsorted(at_s, from_s), asks)
    np.subtract.at(change, np.searchsorted(at_s, until_s), asks)
    return ResourceUse(at_s, np.cumsum(change, axis=0))


def kept_nodes(problem: Problem, incumbent: Plan) -> tuple[NodeAssignment, ...]:
    """Return the nodes of jobs of several units, as the incumbent has them."""
    work = problem.work
    job = np.repeat(np.arange(len(work)), work.units)
    wide = (work.units[job] > 1) & incumbent.placed[job]
    nodes = []
    for node, capacity in enumerate(problem.machine.cores.tolist()):
        there = job[wide & (incumbent.node == node)]
        if len(there) > 1:
            nodes.append(NodeAssignment(there, work.cores[there], capacity))
    return tuple(nodes)


def _single_nodes(problem: Problem, incumbent: Plan, which: Int64, *, hinted: bool) -> SingleNodes:
    work, machine, running = problem.work, problem.machine, problem.running
    job = np.repeat(np.arange(len(work)), work.units)
    asks, ran, has = resource_columns(work), resource_columns(running), resource_columns(machine)
    fixed = _fixed(incumbent, which)[job]
    taken = []
    for node in range(len(machine)):
        here, there = job[fixed & (incumbent.node == node)], running.node == node
        from_s = np.concatenate([np.zeros(int(there.sum()), np.int64), incumbent.start_s[here]])
        until_s = np.concatenate([running.until_s[there], incumbent.start_s[here] + work.duration_s[here]])
        taken.append(_over_time(from_s, until_s, np.concatenate([ran[there], asks[here]]), np.zeros(1, np.int64)))
    hint = np.zeros((len(work), len(machine)), np.bool_)
    placed = incumbent.placed[job]
    hint[job[placed], incumbent.node[placed]] = True
    return SingleNodes(
        units=work.units[which],
        asks=asks[which],
        has=has,
        may_use=may_use(problem, which[:, None], np.arange(len(machine))),
        taken=tuple(taken),
        hint=hint[which] if hinted else None,
    )


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


def _bands(problem: Problem, step: int, least_j: float, most_w: float) -> tuple[EnergyBand, ...]:
    """Return the bands of equal PUE of the step between these loads; half a band is rounded to the even one."""
    rates = problem.rates
    length_s = int(rates.edge_s[step + 1] - rates.edge_s[step])
    half_mj = round(1000 * STEP_W / 2) * length_s
    first, last = round(least_j / length_s / STEP_W), round(most_w / STEP_W)
    numbers = np.arange(max(first - 1, 0), last + 2)
    pue = problem.facility.pue_at(
        np.asarray(numbers * STEP_W, np.float64), np.full(len(numbers), rates.temperature_c[step])
    )
    bands: list[EnergyBand] = []
    for number, each in zip(numbers.tolist(), (pue * rates.price_per_kwh[step] / J_PER_KWH).tolist(), strict=True):
        is_odd = number % 2
        from_mj, until_mj = (2 * number - 1) * half_mj + is_odd, (2 * number + 1) * half_mj - is_odd
        if bands and abs(bands[-1].cost_per_j - each) <= SAME_COST * abs(each):
            bands[-1] = EnergyBand(bands[-1].from_mj, until_mj, each)
        else:
            bands.append(EnergyBand(from_mj, until_mj, each))
    return tuple(bands)


LEAST_S = 1.5
"""With less time the solver is not started: its process takes a second to start."""
JOBS_PER_S = 400
"""The number of jobs for which CP-SAT builds and presolves a model in a second."""
TOO_LITTLE_TIME = "there is too little time to ask the solver about so many jobs"
FREE_JOBS, WAITING_JOBS = 40, 20
ROUND_S = 1.0
SPANS = (1 / 24, 1 / 6, 1 / 2, 2)
"""Lengths of neighbourhoods over the horizon."""


def default_search(problem: Problem, fallback: Plan, budget: Budget) -> Plan:
    """Return what CP-SAT finds from nothing within the budget; the fallback, with a note, if that is no better."""
    return _whole(problem, fallback, budget, name="default search", hinted=False)


def relaxation_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return a better plan, in which jobs of several units keep nodes, else the incumbent, noted if unanswered."""
    return _whole(problem, incumbent, budget, name="relaxation search", hinted=True)


def _whole(problem: Problem, incumbent: Plan, budget: Budget, *, name: str, hinted: bool) -> Plan:
    require_or_tools()
    which = np.arange(len(problem.work))
    if budget.left_s < LEAST_S + len(which) / JOBS_PER_S:
        return _add_note(incumbent, name, TOO_LITTLE_TIME)
    on_nodes = kept_nodes(problem, incumbent) if hinted else ()
    question = build_cp_question(problem, incumbent, which, hinted=hinted, on_nodes=on_nodes)
    try:
        with cp_process(budget.left_s) as solver:
            answer = solver.answer(question, max(budget.left_s - LEAST_S, 0.1), budget.seed)
    except SolverGone as gone:
        return _add_note(incumbent, name, _failure_reason(gone))
    if answer is None:
        return _add_note(incumbent, name, "the solver has found no plan in time")
    return better_plan(problem, incumbent, plan_from_answer(problem, incumbent, which, answer, name))


def _add_note(plan: Plan, name: str, why: str) -> Plan:
    """Return the plan with the reason why the search did not find it, after its earlier note."""
    earlier = f"{plan.note}; " if plan.note else ""
    return replace(plan, note=f"{earlier}{name}: {why}")


def _failure_reason(gone: SolverGone) -> str:
    return f"{gone} ({gone.hint})" if gone.hint else str(gone)


def neighbourhood_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return the best plan found within the budget, else the incumbent; with a note if the solver ended early."""
    require_or_tools()
    name = "neighbourhood search"
    if not len(problem.work):
        return incumbent
    if budget.left_s < LEAST_S:
        return _add_note(incumbent, name, TOO_LITTLE_TIME)
    rng = np.random.default_rng(budget.seed)
    best = incumbent
    try:
        with cp_process(budget.left_s) as solver:
            done = False
            while budget.left_s > 0 and not done:
                best, done = _one_round(problem, best, solver, budget, rng)
    except SolverGone as gone:
        return _add_note(best, name, _failure_reason(gone))
    return best


def _one_round(problem: Problem, best: Plan, solver: CpProcess, budget: Budget, rng: Generator) -> tuple[Plan, bool]:
    """Return the better plan, and whether no plan is better than that."""
    which = _neighbourhood(problem, best, rng)
    question = build_cp_question(problem, best, which, hinted=True)
    answer = solver.answer(question, min(ROUND_S, max(budget.left_s, 0.05)), budget.seed)
    if answer is None:
        return best, False
    plan = plan_from_answer(problem, best, which, answer, "neighbourhood search")
    is_exact = question.nodes is not None and question.energy is not None and len(which) == len(problem.work)
    # An equal plan may have better neighbours.
    return better_plan(problem, plan, best), is_exact and answer.is_best


def _neighbourhood(problem: Problem, plan: Plan, rng: Generator) -> Int64:
    """Return the jobs that start within some hours of a random one, and some of those that wait."""
    placed, waiting = np.flatnonzero(plan.placed), np.flatnonzero(~plan.placed)
    centre_s = plan.start_s[rng.choice(placed)] if len(placed) else 0
    reach_s = rng.choice(SPANS) * problem.rates.horizon_s / 2
    near = placed[np.abs(plan.start_s[placed] - centre_s) <= reach_s]
    size = problem.work.units * problem.work.cores * problem.work.duration_s
    some = _some(near, size, FREE_JOBS, rng)
    return np.concatenate([some, _some(waiting, size, WAITING_JOBS, rng)])


def _some(jobs: Int64, size: Int64, count: int, rng: Generator) -> Int64:
    """Return `count` random jobs; larger jobs are likelier."""
    if len(jobs) <= count:
        return jobs
    return np.asarray(rng.choice(jobs, count, replace=False, p=size[jobs] / size[jobs].sum()))
