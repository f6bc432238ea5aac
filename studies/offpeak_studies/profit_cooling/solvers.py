"""All solvers behind one port: they take a problem and a budget and return the best plan found.

The searches by constraint programming make a plan of a solver's answer: from nothing, from an incumbent, and
neighbourhood by neighbourhood. Source: "Optimizing profit and cooling costs in HPC cluster scheduling", sections 4 to
7.2. The neighbourhoods are offpeak's own: all jobs that start within some hours, and some waiting jobs, are free; the
others are fixed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.plugin.planner.orders import Budget, power_per_revenue
from offpeak.plugin.planner.placement import place_one_by_one
from offpeak.plugin.planner.problem import Plan, Problem, Work, compute_profit, first_unit
from offpeak.text import did_you_mean
from offpeak_studies.profit_cooling.cp_solver import CpAnswer, build_cp_question, solve
from offpeak_studies.profit_cooling.heuristics import (
    better_plan,
    delay_search,
    leave_out_jobs,
    leave_out_losses,
    multi_search,
)
from offpeak_studies.profit_cooling.rule_based import rule_based

LATER = np.iinfo(np.int64).max


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


LEAST_S = 1.5
"""With less time the solver is not started: a plan is made of its answer in this time."""
JOBS_PER_S = 400
"""The number of jobs for which CP-SAT builds and presolves a model in a second."""
TOO_LITTLE_TIME = "there is too little time to ask the solver about so many jobs"
FREE_JOBS, WAITING_JOBS = 40, 20
ROUND_S = 1.0
SPANS = (1 / 24, 1 / 6, 1 / 2, 2)
"""Lengths of neighbourhoods over the horizon."""


def search_all_jobs(problem: Problem, incumbent: Plan, budget: Budget, *, name: str, hinted: bool) -> Plan:
    """Return what CP-SAT finds within the budget; the incumbent, with a note if unanswered, if that is no better.

    If `hinted` the search begins with the incumbent, in which jobs of several units keep their nodes.
    """
    which = np.arange(len(problem.work))
    if budget.left_s < LEAST_S + len(which) / JOBS_PER_S:
        return _add_note(incumbent, name, TOO_LITTLE_TIME)
    question = build_cp_question(problem, incumbent, which, hinted=hinted, keep_nodes=hinted)
    answer = solve(question, max(budget.left_s - LEAST_S, 0.1), budget.seed)
    if answer is None:
        return _add_note(incumbent, name, "the solver has found no plan in time")
    return better_plan(problem, incumbent, plan_from_answer(problem, incumbent, which, answer, name))


def _add_note(plan: Plan, name: str, why: str) -> Plan:
    """Return the plan with the reason why the search did not find it, after its earlier note."""
    earlier = f"{plan.note}; " if plan.note else ""
    return replace(plan, note=f"{earlier}{name}: {why}")


def neighbourhood_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return the best plan found within the budget, else the incumbent; with a note if there is too little time."""
    name = "neighbourhood search"
    if not len(problem.work):
        return incumbent
    if budget.left_s < LEAST_S:
        return _add_note(incumbent, name, TOO_LITTLE_TIME)
    rng = np.random.default_rng(budget.seed)
    best, done = incumbent, False
    while budget.left_s > 0 and not done:
        which = _neighbourhood(problem, best, rng)
        question = build_cp_question(problem, best, which, hinted=True)
        answer = solve(question, min(ROUND_S, max(budget.left_s, 0.05)), budget.seed)
        if answer is None:
            continue
        # An equal plan may have better neighbours.
        best = better_plan(problem, plan_from_answer(problem, best, which, answer, name), best)
        done = question.single_nodes and len(which) == len(problem.work) and answer.is_best
    return best


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


Solver = Callable[[Problem, Budget], Plan]
"""Returns when the budget is used up, or earlier, but always after at least one attempt."""

Improver = Callable[[Problem, Plan, Budget], Plan]

RULES: Mapping[str, Callable[[Work], Int64]] = {
    "EST": lambda work: np.argsort(work.release_s, kind="stable"),
    "WT": lambda work: np.argsort(work.duration_s, kind="stable"),
    "Profit": lambda work: np.argsort(power_per_revenue(work), kind="stable"),
}
"""Orders of the paper's rule-based schedulers. Revenue over cost, falling, is power over revenue, rising."""


def _by_rule(problem: Problem, _: Budget, *, rule: str, strict: bool) -> Plan:
    name = f"{'strict' if strict else 'non-strict'} {rule}"
    return rule_based(problem, RULES[rule](problem.work), name, strict=strict)


def earliest_start(problem: Problem, _: Budget) -> Plan:
    """Return the job-based heuristic's plan in the order of release."""
    return place_one_by_one(problem, RULES["EST"](problem.work), "earliest start up")


@dataclass(frozen=True)
class Search:
    """A search, and the solver of its initial plan, which is also the result if the search finds none."""

    begin: Solver
    improver: Improver

    def __call__(self, problem: Problem, budget: Budget) -> Plan:
        """Return the better plan that was found within what the first one leaves of the budget."""
        return self.improver(problem, leave_out_losses(problem, self.begin(problem, budget)), budget)


SEARCHES: Mapping[str, Search] = {
    "default": Search(earliest_start, partial(search_all_jobs, name="default search", hinted=False)),
    "relaxation": Search(multi_search, partial(search_all_jobs, name="relaxation search", hinted=True)),
    "delay": Search(multi_search, delay_search),
    "neighbourhood": Search(multi_search, neighbourhood_search),
}

RULE_BASED: Mapping[str, Solver] = {
    f"{'strict' if strict else 'non-strict'} {rule}": partial(_by_rule, rule=rule, strict=strict)
    for strict in (True, False)
    for rule in RULES
}

SOLVERS: Mapping[str, Solver] = {**RULE_BASED, "multi": multi_search, **SEARCHES}


def find_solver(name: str) -> Solver:
    """Return the solver of that name. Raises BadInput if there is none."""
    if name not in SOLVERS:
        raise BadInput(f"unknown solver {name!r}", hint=did_you_mean(name, SOLVERS))
    return SOLVERS[name]
