"""Searches by constraint programming: from nothing, from an incumbent, and neighbourhood by neighbourhood.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", sections 5 and 7.2. The neighbourhoods are
ours: all jobs that start within some hours, and some that wait, are free; the rest stays.
"""

import numpy as np
from numpy.random import Generator

from offpeak.jobs import Int64
from plugin.planner.budget import Budget
from plugin.planner.cp_ask import kept_nodes, packed, question_of
from plugin.planner.cp_process import CpProcess, SolverGone, cp_process, need_or_tools
from plugin.planner.plan import Plan, empty_plan
from plugin.planner.problem import Problem
from plugin.planner.profit import profit_of

LEAST_S = 1.5
"""With less time than this nothing is asked: the solver's process takes a second to start."""
JOBS_PER_S = 400
"""Of how many jobs CP-SAT builds and presolves a model in a second; a larger question has no answer in time."""
FREE_JOBS, WAITING_JOBS = 40, 20
ROUND_S = 1.0
SPANS = (1 / 24, 1 / 6, 1 / 2, 2)
"""Lengths of neighbourhoods over the horizon."""


def default_search(problem: Problem, fallback: Plan, budget: Budget) -> Plan:
    """Return what CP-SAT finds from nothing within the budget; the fallback if that is no plan at all."""
    nothing = empty_plan(problem.work, "default search")
    plan = _whole(problem, nothing, budget, hinted=False)
    return fallback if plan is None else plan


def relaxation_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return a better plan with the nodes of jobs of several units as they are, else the incumbent."""
    plan = _whole(problem, incumbent, budget, hinted=True)
    if plan is None or profit_of(problem, plan).total <= profit_of(problem, incumbent).total:
        return incumbent
    return plan


def _whole(problem: Problem, incumbent: Plan, budget: Budget, *, hinted: bool) -> Plan | None:
    need_or_tools()
    which = np.arange(len(problem.work))
    if budget.left_s < LEAST_S + len(which) / JOBS_PER_S:
        return None
    on_nodes = kept_nodes(problem, incumbent) if hinted else ()
    question = question_of(problem, incumbent, which, hinted=hinted, on_nodes=on_nodes)
    try:
        with cp_process(budget.left_s) as solver:
            answer_s = solver.starts(question, max(budget.left_s - LEAST_S, 0.1), budget.seed)
    except SolverGone:
        return None
    name = "relaxation search" if hinted else "default search"
    return None if answer_s is None else packed(problem, incumbent, which, answer_s, name)


def neighbourhood_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return the best plan found within the budget, the incumbent if none is better; it survives the solver's end."""
    need_or_tools()
    if budget.left_s < LEAST_S or not incumbent.placed.any():
        return incumbent
    rng = np.random.default_rng(budget.seed)
    best = incumbent
    try:
        with cp_process(budget.left_s) as solver:
            while budget.left_s > 0:
                best = _one_round(problem, best, solver, budget, rng)
    except SolverGone:
        return best
    return best


def _one_round(problem: Problem, best: Plan, solver: CpProcess, budget: Budget, rng: Generator) -> Plan:
    which = _neighbourhood(problem, best, rng)
    question = question_of(problem, best, which, hinted=True)
    answer_s = solver.starts(question, min(ROUND_S, max(budget.left_s, 0.05)), budget.seed)
    if answer_s is None:
        return best
    plan = packed(problem, best, which, answer_s, "neighbourhood search")
    # An equal plan may have better neighbours.
    return plan if profit_of(problem, plan).total >= profit_of(problem, best).total else best


def _neighbourhood(problem: Problem, plan: Plan, rng: Generator) -> Int64:
    """Return the jobs that start within some hours of a random one, and some of those that wait."""
    placed, waiting = np.flatnonzero(plan.placed), np.flatnonzero(~plan.placed)
    centre_s = plan.start_s[rng.choice(placed)]
    reach_s = rng.choice(SPANS) * problem.rates.horizon_s / 2
    near = placed[np.abs(plan.start_s[placed] - centre_s) <= reach_s]
    size = problem.work.units * problem.work.cores * problem.work.duration_s
    some = _some(near, size, FREE_JOBS, rng)
    return np.concatenate([some, _some(waiting, size, WAITING_JOBS, rng)])


def _some(jobs: Int64, size: Int64, count: int, rng: Generator) -> Int64:
    """Return so many of the jobs, the larger the likelier."""
    if len(jobs) <= count:
        return jobs
    return np.asarray(rng.choice(jobs, count, replace=False, p=size[jobs] / size[jobs].sum()))
