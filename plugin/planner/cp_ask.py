"""Makes a question of a problem, and a plan of its answer."""

import numpy as np

from offpeak.jobs import Int64
from plugin.planner.cp_question import OnNode, Question, Taken
from plugin.planner.free import watts
from plugin.planner.net_rates import net_per_s, pue_under
from plugin.planner.one_by_one import one_by_one
from plugin.planner.plan import TOMORROW, Plan
from plugin.planner.problem import NO_LIMIT, Problem
from plugin.planner.profit import profit_of

LATER = np.iinfo(np.int64).max


def question_of(
    problem: Problem, incumbent: Plan, which: Int64, *, hinted: bool, on_nodes: tuple[OnNode, ...] = ()
) -> Question:
    """Return the question when these jobs start, all others as in the incumbent, whose PUE holds."""
    work, rates, machine = problem.work, problem.rates, problem.machine
    horizon_s = rates.horizon_s
    start_s = np.where(incumbent.placed, incumbent.start_s, horizon_s)
    cap_w = int(min(rates.cap_w.max(), NO_LIMIT // 4))
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
        on_nodes=on_nodes,
    )


def packed(problem: Problem, incumbent: Plan, which: Int64, answer_s: Int64, solver: str) -> Plan:
    """Return the best of three plans on single nodes that place jobs in order of the answer's starts.

    Where the answer's jobs fit the machine as a whole but not its nodes, some start later than the answer says. In
    two of the plans all other jobs stay where they are in the incumbent.
    """
    start_s = np.where(incumbent.placed, incumbent.start_s, LATER)
    start_s[which] = np.where(answer_s < problem.rates.horizon_s, answer_s, LATER)
    held_s = np.where(start_s < LATER, start_s, 0)
    order = np.argsort(start_s, kind="stable")
    kept = without(problem, incumbent, which)
    free = order[~kept.placed[order]]
    plans = [
        one_by_one(problem, free, solver, kept=kept),
        one_by_one(problem, free, solver, kept=kept, not_before_s=held_s),
        one_by_one(problem, order, solver),
    ]
    return max(plans, key=lambda plan: profit_of(problem, plan).total)


def without(problem: Problem, plan: Plan, which: Int64) -> Plan:
    """Return the plan without these jobs."""
    start_s = plan.start_s.copy()
    start_s[which] = TOMORROW
    return Plan(start_s, np.where(np.repeat(start_s, problem.work.units) == TOMORROW, TOMORROW, plan.node), plan.solver)


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
    fixed = incumbent.placed.copy()
    fixed[which] = False
    start_s, duration_s = incumbent.start_s[fixed], work.duration_s[fixed]
    alone = _alone(problem, running.cores)
    ran = np.stack([running.cores, running.memory_mb, running.gpus, alone, watts(running.power_w)], axis=1)
    asks = np.concatenate([ran, _asks(problem)[fixed]])
    from_s = np.concatenate([np.zeros(len(running), np.int64), start_s])
    until_s = np.concatenate([running.until_s, start_s + duration_s])
    at_s = np.unique(np.concatenate([from_s, until_s, rates.edge_s, [0]]))
    change = np.zeros((len(at_s), asks.shape[1]), np.int64)
    np.add.at(change, np.searchsorted(at_s, from_s), asks)
    np.subtract.at(change, np.searchsorted(at_s, until_s), asks)
    used = np.cumsum(change, axis=0)
    inside = at_s < rates.horizon_s
    step = np.clip(np.searchsorted(rates.edge_s, at_s, side="right") - 1, 0, len(rates.cap_w) - 1)
    missing_w = cap_w - np.minimum(rates.cap_w[step], cap_w)
    used[:, -1] = np.minimum(used[:, -1] + np.where(inside, missing_w, 0), cap_w)
    return Taken(at_s, used)


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
