"""A plan of a day, by a solver's name; what does not depend on the scenario is found once for all of them.

Rule-based schedulers and the orders of MultiSearch look at no price and no temperature: in another scenario the same
jobs on the same machine have the same plans, of which another may be the best.
"""

import hashlib
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache

from plugin.planner.problem import Plan, Problem
from plugin.planner.profit import compute_profit
from plugin.planner.searches import best_plan, budget_of, multi_search, plan_in_all_orders
from plugin.planner.solvers import RULE_BASED, SEARCHES, Solver, find_solver
from studies.profit_cooling.scenario import SCENARIOS, facility_of, rates_of

NO_LIMIT_S = 3600.0
REMEMBERED = 64
"""Days whose plans are kept for the other scenarios."""


@dataclass(frozen=True)
class Planned:
    """A plan, what it took [s], of which so much for a search, and whether that has found another than it began with.

    What was found for another scenario before counts with what it took then.
    """

    plan: Plan
    seconds: float
    search_s: float
    is_own: bool


def planned(problem: Problem, solver: str, search_s: float) -> Planned:
    """Return the solver's plan; a search may take so many seconds after the plan that it begins with."""
    search = SEARCHES.get(solver)
    begin = _begun(_Day(_digest(problem), problem), search.begin if search else find_solver(solver))
    # What a rule starts it starts at any price.
    first = begin.plans[0] if solver in RULE_BASED else best_plan(problem, list(begin.plans))
    if search is None:
        return Planned(first, begin.seconds, 0.0, is_own=True)
    before_s = time.monotonic()
    plan = search.improver(problem, first, budget_of(search_s))
    took_s = time.monotonic() - before_s
    is_own = compute_profit(problem, plan).total != compute_profit(problem, first).total
    return Planned(plan, begin.seconds + took_s, took_s, is_own)


@dataclass(frozen=True)
class _Day:
    """Jobs and machine of a problem, by what they are."""

    digest: str
    problem: Problem = field(compare=False)


@dataclass(frozen=True, eq=False)
class _Begun:
    """The plans of which one is best in each scenario, and what they took."""

    plans: tuple[Plan, ...]
    seconds: float


@lru_cache(maxsize=REMEMBERED)
def _begun(day: _Day, solver: Solver) -> _Begun:
    before_s = time.monotonic()
    if solver is not multi_search:
        plan = solver(day.problem, budget_of(NO_LIMIT_S))
        return _Begun((plan,), time.monotonic() - before_s)
    plans = plan_in_all_orders(day.problem, budget_of(NO_LIMIT_S))
    seconds, machine, horizon_s = time.monotonic() - before_s, day.problem.machine, day.problem.rates.horizon_s
    places = [
        replace(day.problem, rates=rates_of(each, horizon_s), facility=facility_of(each, machine))
        for each in SCENARIOS.values()
    ]
    best = {best_plan(place, plans).solver for place in places}
    return _Begun(tuple(plan for plan in plans if plan.solver in best), seconds)


def _digest(problem: Problem) -> str:
    digest = hashlib.sha256(str(problem.rates.horizon_s).encode())
    for part in (problem.work, problem.machine, problem.running):
        for column in vars(part).values():
            digest.update(column.tobytes())
    return digest.hexdigest()
