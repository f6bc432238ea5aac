"""MultiSearch: the job-based heuristic with eleven orders, each in both directions, on all processors; the best stays.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", algorithm 2.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from offpeak.model.arrays import Int64
from plugin.planner.budget import Budget
from plugin.planner.by_price import paying, waiting
from plugin.planner.one_by_one import one_by_one
from plugin.planner.orders import orders_of
from plugin.planner.plan import Plan
from plugin.planner.problem import Problem
from plugin.planner.profit import profit_of


def multi_search(problem: Problem, budget: Budget) -> Plan:
    """Return the best plan of the orders that were begun within the budget, of the first one at least.

    It has a note if these were not all.
    """
    plans, count = in_all_orders(problem, budget), len(_different(orders_of(problem.work, problem.machine)))
    best = best_of(problem, plans)
    if len(plans) == count:
        return best
    return replace(best, note=f"multi-search: time was up when {len(plans)} of {count} orders were tried")


def in_all_orders(problem: Problem, budget: Budget) -> list[Plan]:
    """Return a plan for each different order that was begun within the budget; no price decides about any of them."""
    orders = _different(orders_of(problem.work, problem.machine))

    def tried(name: str, order: Int64) -> Plan | None:
        return one_by_one(problem, order, f"multi-search, {name}") if budget.left_s else None

    # Kernels run without Python's lock, so threads suffice.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        first, *others = orders.items()
        plans = [pool.submit(one_by_one, problem, first[1], f"multi-search, {first[0]}")]
        plans += [pool.submit(tried, *other) for other in others]  # type: ignore[arg-type]
        return [plan for plan in (each.result() for each in plans) if plan is not None]


def _different(orders: Mapping[str, Int64]) -> Mapping[str, Int64]:
    """Return the orders without repetitions: where no job has a latest end several criteria give one order."""
    names: dict[bytes, str] = {}
    for name, order in orders.items():
        names.setdefault(order.tobytes(), name)
    return {name: orders[name] for name in names.values()}


def best_of(problem: Problem, plans: list[Plan]) -> Plan:
    """Return the plan of the largest profit, the first of equal ones, without the jobs that lose money in it.

    Its jobs are held back to the starts that pay best if that is better.
    """
    best = max((paying(problem, plan) for plan in plans), key=lambda plan: profit_of(problem, plan).total)
    return waiting(problem, best)
