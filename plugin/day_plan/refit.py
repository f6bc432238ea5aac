"""The plan of one pool: a standing one repaired, and other orders tried while there is time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Int64
from plugin.day_plan.keep import keep_what_fits
from plugin.day_plan.line import within_windows
from plugin.planner.budget import Budget
from plugin.planner.one_by_one import one_by_one
from plugin.planner.orders import orders_of
from plugin.planner.plan import Plan
from plugin.planner.problem import Problem
from plugin.planner.profit import profit_of

NEWS_S = 60
"""A start that changes by less is the same start: expected ends move by seconds all the time."""
WORTH_IT = 0.01
"""Another order has to save this share of the energy's cost: for less nobody's start is moved."""


def refitted(problem: Problem, standing: Plan | None, windows: Sequence[Int64], budget: Budget) -> Plan:
    """Return the best plan that was found; `windows` are positions that may change places, the rest stays in order.

    The standing plan's places are kept where they still are any, unless all jobs can start as early or earlier without
    them, or another order is worth it. The plan has a note if time was up before all orders were tried. No job is left
    out because it loses money: what is submitted is to run.
    """
    in_line = np.arange(len(problem.work))
    best = one_by_one(problem, in_line, "in line") if standing is None else _repaired(problem, standing, in_line)
    orders = _orders(problem, windows)
    for tried, (name, order) in enumerate(orders):
        if not budget.left_s:
            return replace(best, note=f"time was up when {tried} of {len(orders)} other orders of the jobs were tried")
        best = _better(problem, best, one_by_one(problem, order, name))
    return best


def _repaired(problem: Problem, standing: Plan, in_line: Int64) -> Plan:
    kept = keep_what_fits(problem, standing)
    repaired = one_by_one(problem, in_line[~kept.placed], "repaired", kept=kept)
    before = np.where(standing.placed, standing.start_s, np.iinfo(np.int64).max)
    moved_up = one_by_one(problem, np.argsort(before, kind="stable"), "moved up")
    return moved_up if _is_earlier(moved_up, repaired) else repaired


def _is_earlier(plan: Plan, other: Plan) -> bool:
    """Whether no job starts later, or not at all, and some job clearly earlier."""
    late = np.iinfo(np.int64).max // 2
    ours = np.where(plan.placed, plan.start_s, late)
    theirs = np.where(other.placed, other.start_s, late)
    return bool(np.all(ours <= theirs + NEWS_S) and np.any(ours < theirs - NEWS_S))


def _orders(problem: Problem, windows: Sequence[Int64]) -> list[tuple[str, Int64]]:
    if not len(problem.work) or not any(len(window) > 1 for window in windows):
        return []
    known = {np.arange(len(problem.work)).tobytes()}
    found = []
    for name, order in orders_of(problem.work, problem.machine).items():
        dealt = within_windows(order, windows)
        if dealt.tobytes() not in known:
            known.add(dealt.tobytes())
            found.append((name, dealt))
    return found


def _better(problem: Problem, plan: Plan, other: Plan) -> Plan:
    """Return the other plan if it starts no fewer jobs and is worth it."""
    if other.placed.sum() < plan.placed.sum():
        return plan
    ours, theirs = profit_of(problem, plan), profit_of(problem, other)
    cost = abs(ours.energy_cost) + abs(ours.cooling_cost)
    return other if theirs.total - ours.total > WORTH_IT * cost else plan
