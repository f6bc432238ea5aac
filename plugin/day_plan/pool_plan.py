"""The plan of one pool: repairs the standing plan and tries other orders while there is time.

The order of the queue is the site's; only the movable jobs of the queue hook's windows may change places. A window
policy from outside orders them instead of the search.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Int64
from plugin.day_plan.inputs import PlanInputs
from plugin.planner.placement import keep_what_fits, place_one_by_one
from plugin.planner.problem import Plan, Problem, compute_profit
from plugin.planner.searches import Budget, all_orders
from plugin.queue_hook.positions import BEGIN, NO_MARKS, MarksByJob, marks_by_job, queue_positions
from plugin.queue_hook.window import GroupWindow, find_windows, own_orders, site_place, startable_positions
from plugin.scheduler.job import Job


@dataclass(frozen=True)
class QueueOrder:
    """All jobs that wait, the first to start first, and the jobs of each window that the search may move.

    `remark` is what an operator must know about a policy from outside, "" without one.
    """

    ordered: tuple[Job, ...]
    windows: tuple[frozenset[str], ...]
    remark: str = ""


def find_queue_order(inputs: PlanInputs) -> QueueOrder:
    """Return the order of the pending jobs; the windows and the jobs that keep their place are the queue hook's.

    A policy from outside orders its windows, and the search moves nothing. If it fails, the order is the site's.
    """
    facts, rules = inputs.queue, inputs.rules
    marks = marks_by_job(facts.marks, facts.jobs)
    positions = queue_positions(facts.pending, marks, facts)
    # Within the plan a job that only offpeak delays may change places as if it were not delayed.
    undelayed = [
        position._replace(job=position.job._replace(begin_s=None))
        if _is_delayed_by_us(position.job, marks)
        else position
        for position in positions.all
    ]
    startable = startable_positions(undelayed, (), facts)
    windows = find_windows(startable, marks, positions.admin_overrides, facts=facts, rules=rules)
    ordered = [each.job for each in sorted(positions.all, key=site_place)]
    if rules.own_policy is not None:
        try:
            orders = own_orders(windows, rules.own_policy, facts)
        except OffpeakError as problem:
            remark = "; ".join(filter(None, (f"the plan has the site's order: {problem}", problem.hint)))
            return QueueOrder(tuple(ordered), (), remark)
        remark = f"the policy {rules.policy} orders the jobs of a window, and no other order is tried"
        return QueueOrder(_reorder(ordered, windows, orders), (), remark)
    movable = (
        frozenset(position.job.job_id for rank, position in enumerate(window.jobs) if rank not in window.kept)
        for window in windows
    )
    return QueueOrder(tuple(ordered), tuple(movable))


def _reorder(
    ordered: Sequence[Job], windows: Sequence[GroupWindow], orders: Sequence[Sequence[int]]
) -> tuple[Job, ...]:
    """Return the jobs with the ranks of each window in its order, on the places that these jobs have together."""
    place = {job.job_id: at for at, job in enumerate(ordered)}
    reordered = list(ordered)
    for window, ranks in zip(windows, orders, strict=True):
        places = [place[window.jobs[rank].job.job_id] for rank in ranks]
        for at, source in zip(sorted(places), places, strict=True):
            reordered[at] = ordered[source]
    return tuple(reordered)


def _is_delayed_by_us(job: Job, marks: MarksByJob) -> bool:
    return bool(job.begin_s) and marks.get(job.job_id, NO_MARKS).is_ours(BEGIN, job.begin_s or 0) is True


def reorder_within_windows(order: Int64, windows: Sequence[Int64]) -> Int64:
    """Return 0, 1, 2 ... with each window's positions in the sequence that `order` has them in."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    reordered = np.arange(len(order))
    for window in windows:
        reordered[window] = window[np.argsort(rank[window], kind="stable")]
    return reordered


SAME_START_S = 60
"""A start that changes by less is the same start: expected ends move by seconds all the time."""
WORTH_IT = 0.01
"""Another order must save this share of the energy's cost; for less no start is moved."""


def refit_plan(problem: Problem, previous: Plan | None, windows: Sequence[Int64], budget: Budget) -> Plan:
    """Return the best plan that was found; `windows` are positions that may change places, the rest stays in order.

    Places of the current plan are kept if they are still valid, unless all jobs can start as early or earlier without
    them, or another order is worth it. The plan has a note if time ran out before all orders were tried. No job is left
    out because it loses money: submitted jobs must run.
    """
    in_line = np.arange(len(problem.work))
    best = place_one_by_one(problem, in_line, "in line") if previous is None else _repair(problem, previous, in_line)
    orders = _orders(problem, windows)
    for tried, (name, order) in enumerate(orders):
        if not budget.left_s:
            return replace(best, note=f"time was up when {tried} of {len(orders)} other orders of the jobs were tried")
        best = _better(problem, best, place_one_by_one(problem, order, name))
    return best


def _repair(problem: Problem, previous: Plan, in_line: Int64) -> Plan:
    kept = keep_what_fits(problem, previous)
    repaired = place_one_by_one(problem, in_line[~kept.placed], "repaired", kept=kept)
    before = np.where(previous.placed, previous.start_s, np.iinfo(np.int64).max)
    moved_up = place_one_by_one(problem, np.argsort(before, kind="stable"), "moved up")
    return moved_up if _is_earlier(moved_up, repaired) else repaired


def _is_earlier(plan: Plan, other: Plan) -> bool:
    """Whether no job starts later, or not at all, and some job clearly earlier."""
    late = np.iinfo(np.int64).max // 2
    ours = np.where(plan.placed, plan.start_s, late)
    theirs = np.where(other.placed, other.start_s, late)
    return bool(np.all(ours <= theirs + SAME_START_S) and np.any(ours < theirs - SAME_START_S))


def _orders(problem: Problem, windows: Sequence[Int64]) -> list[tuple[str, Int64]]:
    if not len(problem.work) or not any(len(window) > 1 for window in windows):
        return []
    known = {np.arange(len(problem.work)).tobytes()}
    found = []
    for name, order in all_orders(problem.work, problem.machine).items():
        reordered = reorder_within_windows(order, windows)
        if reordered.tobytes() not in known:
            known.add(reordered.tobytes())
            found.append((name, reordered))
    return found


def _better(problem: Problem, plan: Plan, other: Plan) -> Plan:
    """Return the other plan if it starts no fewer jobs and is worth it."""
    if other.placed.sum() < plan.placed.sum():
        return plan
    ours, theirs = compute_profit(problem, plan), compute_profit(problem, other)
    cost = abs(ours.energy_cost) + abs(ours.cooling_cost)
    return other if theirs.total - ours.total > WORTH_IT * cost else plan
