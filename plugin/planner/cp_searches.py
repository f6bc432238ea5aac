"""Searches by constraint programming: from nothing, from an incumbent, and neighbourhood by neighbourhood.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", sections 5 and 7.2. The neighbourhoods are
ours: all jobs that start within some hours, and some that wait, are free; the rest stays.
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Int64
from plugin.planner.budget import Budget
from plugin.planner.by_price import better
from plugin.planner.cp_ask import kept_nodes, plan_of, question_of
from plugin.planner.cp_process import CpProcess, SolverGone, cp_process, need_or_tools
from plugin.planner.plan import Plan
from plugin.planner.problem import Problem

LEAST_S = 1.5
"""With less time than this nothing is asked: the solver's process takes a second to start."""
JOBS_PER_S = 400
"""Of how many jobs CP-SAT builds and presolves a model in a second; a larger question has no answer in time."""
TOO_LITTLE_TIME = "there is too little time to ask the solver about so many jobs"
FREE_JOBS, WAITING_JOBS = 40, 20
ROUND_S = 1.0
SPANS = (1 / 24, 1 / 6, 1 / 2, 2)
"""Lengths of neighbourhoods over the horizon."""


def default_search(problem: Problem, fallback: Plan, budget: Budget) -> Plan:
    """Return what CP-SAT finds from nothing within the budget; the fallback, with a note, if that is no better."""
    return _whole(problem, fallback, budget, name="default search", hinted=False)


def relaxation_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return a better plan with the nodes of jobs of several units as they are, else the incumbent.

    The incumbent has a note where there was no answer.
    """
    return _whole(problem, incumbent, budget, name="relaxation search", hinted=True)


def _whole(problem: Problem, incumbent: Plan, budget: Budget, *, name: str, hinted: bool) -> Plan:
    need_or_tools()
    which = np.arange(len(problem.work))
    if budget.left_s < LEAST_S + len(which) / JOBS_PER_S:
        return _noted(incumbent, name, TOO_LITTLE_TIME)
    on_nodes = kept_nodes(problem, incumbent) if hinted else ()
    question = question_of(problem, incumbent, which, hinted=hinted, on_nodes=on_nodes)
    try:
        with cp_process(budget.left_s) as solver:
            answer = solver.answer(question, max(budget.left_s - LEAST_S, 0.1), budget.seed)
    except SolverGone as gone:
        return _noted(incumbent, name, _said(gone))
    if answer is None:
        return _noted(incumbent, name, "the solver has found no plan in time")
    return better(problem, incumbent, plan_of(problem, incumbent, which, answer, name))


def _noted(plan: Plan, name: str, why: str) -> Plan:
    """Return the plan with the reason why the search of that name has not made it, behind a note that it has."""
    said = f"{plan.note}; " if plan.note else ""
    return replace(plan, note=f"{said}{name}: {why}")


def _said(gone: SolverGone) -> str:
    return f"{gone} ({gone.hint})" if gone.hint else str(gone)


def neighbourhood_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return the best plan found within the budget, the incumbent if none is better.

    If the solver ends before the search does, the best plan so far has a note.
    """
    need_or_tools()
    name = "neighbourhood search"
    if not len(problem.work):
        return incumbent
    if budget.left_s < LEAST_S:
        return _noted(incumbent, name, TOO_LITTLE_TIME)
    rng = np.random.default_rng(budget.seed)
    best = incumbent
    try:
        with cp_process(budget.left_s) as solver:
            done = False
            while budget.left_s > 0 and not done:
                best, done = _one_round(problem, best, solver, budget, rng)
    except SolverGone as gone:
        return _noted(best, name, _said(gone))
    return best


def _one_round(problem: Problem, best: Plan, solver: CpProcess, budget: Budget, rng: Generator) -> tuple[Plan, bool]:
    """Return the better plan, and whether no plan is better than that."""
    which = _neighbourhood(problem, best, rng)
    question = question_of(problem, best, which, hinted=True)
    answer = solver.answer(question, min(ROUND_S, max(budget.left_s, 0.05)), budget.seed)
    if answer is None:
        return best, False
    plan = plan_of(problem, best, which, answer, "neighbourhood search")
    is_exact = question.nodes is not None and question.energy is not None and len(which) == len(problem.work)
    # An equal plan may have better neighbours.
    return better(problem, plan, best), is_exact and answer.is_best


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
    """Return so many of the jobs, the larger the likelier."""
    if len(jobs) <= count:
        return jobs
    return np.asarray(rng.choice(jobs, count, replace=False, p=size[jobs] / size[jobs].sum()))
