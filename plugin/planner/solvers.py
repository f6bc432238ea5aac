"""All solvers behind one port: they take a problem and a budget and return the best plan found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.text import did_you_mean
from plugin.planner.cp_searches import default_search, neighbourhood_search, relaxation_search
from plugin.planner.placement import place_one_by_one
from plugin.planner.problem import Plan, Problem, Work
from plugin.planner.rule_based import rule_based
from plugin.planner.searches import Budget, delay_search, leave_out_losses, multi_search, power_per_revenue

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
    "default": Search(earliest_start, default_search),
    "relaxation": Search(multi_search, relaxation_search),
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
