"""DelaySearch: what the heuristic would start at once is held back, job by job, and the heuristic runs again.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", algorithm 3. The paper prints neither the delay
nor which job comes first: here a quarter of an hour, and the largest job first, as it leaves the largest gap.
"""

import numpy as np

from offpeak.model.arrays import Int64
from plugin.planner.budget import Budget
from plugin.planner.by_price import paying
from plugin.planner.one_by_one import one_by_one
from plugin.planner.plan import Plan
from plugin.planner.problem import Problem
from plugin.planner.profit import profit_of

DELAY_S = 900
SOLVER = "delay search"


def delay_search(problem: Problem, incumbent: Plan, budget: Budget) -> Plan:
    """Return the best plan found within the budget, the incumbent if none is better."""
    best, best_profit = incumbent, profit_of(problem, incumbent).total
    held_s = np.zeros(len(problem.work), np.int64)
    for job in _largest_first(problem, incumbent):
        while held_s[job] < problem.rates.horizon_s:
            if not budget.left_s:
                return best
            held_s[job] = max(held_s[job], best.start_s[job]) + DELAY_S
            plan = paying(problem, one_by_one(problem, _by_start(best), SOLVER, not_before_s=held_s))
            profit = profit_of(problem, plan).total
            if profit > best_profit:
                best, best_profit = plan, profit
        held_s[job] = max(best.start_s[job], 0)
    return best


def _largest_first(problem: Problem, plan: Plan) -> Int64:
    work = problem.work
    size = np.where(plan.placed, work.units * work.cores * work.duration_s, -1)
    return np.argsort(-size, kind="stable")[: int(plan.placed.sum())]


def _by_start(plan: Plan) -> Int64:
    """Return the order of the starts, jobs of tomorrow last."""
    return np.argsort(np.where(plan.placed, plan.start_s, np.iinfo(np.int64).max), kind="stable")
