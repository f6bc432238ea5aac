"""Plans each pool, and joins the plans into one of the queue, in the scheduler's words and on its clock.

A pool's standing plan is repaired, then other orders are tried while there is time. The order of the queue is the
site's; only the movable jobs of the queue hook's windows may change places. A window policy from outside orders them
instead of the search.

It adds the power profile (power of jobs and idle nodes, price, temperature and PUE), why starts changed, and remarks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Int64
from offpeak.plugin.day_plan.day_plan import DayPlan, Load, PlannedJob, PowerProfile, StartChange
from offpeak.plugin.day_plan.inputs import PlanInputs, expected_run_s_of, power_over_time
from offpeak.plugin.day_plan.limits import NAMED, NEVER_ADMITTED, BindingCaps, idle_w, list_cap_remarks
from offpeak.plugin.day_plan.pools import PoolProblem, StartHold
from offpeak.plugin.planner.orders import Budget, all_orders
from offpeak.plugin.planner.placement import keep_what_fits, place_one_by_one
from offpeak.plugin.planner.problem import TOMORROW, Plan, Problem, Rates, compute_profit, first_unit
from offpeak.plugin.planner.verify import verify_plan
from offpeak.plugin.priority_bands import ranks_in_bands
from offpeak.plugin.queue_hook.positions import BEGIN, NO_MARKS, MarksByJob, marks_by_job, queue_positions
from offpeak.plugin.queue_hook.window import GroupWindow, find_windows, own_orders, site_place
from offpeak.plugin.scheduler.job import Job
from offpeak.text import counted

SAME_START_S = 60
"""A start that changes by less is the same start: expected ends move by seconds all the time."""
WORTH_IT = 0.01
"""Another order must save this share of the energy's cost; for less no start is moved."""

NEGATIVE_PRICES = "some prices are negative: in those hours energy earns money, and so does cooling"
NOTHING_EARNS = "no job earns anything: the plan that starts nothing may be the cheapest, and jobs still run"


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
    waiting = sorted(undelayed, key=site_place)
    windows = find_windows(waiting, (), marks, positions.admin_overrides, facts=facts, rules=rules)
    ordered = [each.job for each in sorted(positions.all, key=site_place)]
    if rules.own_policy is not None:
        try:
            orders = own_orders(windows, rules.own_policy, facts)
        except OffpeakError as problem:
            remark = "; ".join(filter(None, (f"the plan has the site's order: {problem}", problem.hint)))
            return QueueOrder(tuple(ordered), (), remark)
        remark = f"the policy {rules.policy} orders the jobs of a window, and no other order is tried"
        return QueueOrder(_reorder(ordered, windows, orders), (), remark)
    return QueueOrder(tuple(ordered), tuple(bands for window in windows for bands in _movable_bands(window)))


def _movable_bands(window: GroupWindow) -> Iterable[frozenset[str]]:
    """Return the jobs of each band of the window that may change places."""
    movable: dict[int, set[str]] = {}
    for rank in window.movable(len(window.jobs)):
        movable.setdefault(window.band[rank], set()).add(window.jobs[rank].job.job_id)
    return map(frozenset, movable.values())


def _reorder(
    ordered: Sequence[Job], windows: Sequence[GroupWindow], orders: Sequence[Sequence[int]]
) -> tuple[Job, ...]:
    """Return the jobs with the ranks of each window in its order, on the places that these jobs have together."""
    place = {job.job_id: at for at, job in enumerate(ordered)}
    reordered = list(ordered)
    for window, ranks in zip(windows, orders, strict=True):
        places = [place[window.jobs[rank].job.job_id] for rank in ranks_in_bands(ranks, window.band)]
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


def build_power_profile(
    inputs: PlanInputs, rates: Rates, jobs: Sequence[PlannedJob], loads: Sequence[Load], *, idle_w: float
) -> PowerProfile:
    """Return the power profile from now to the end of the rates."""
    now_s = inputs.queue.now_s
    runs = [(job.start_s, job.start_s + job.run_s, job.power_w) for job in jobs if job.start_s is not None]
    runs += [(now_s, load.until_s, load.power_w) for load in loads]
    begin_s, end_s, power_w = (np.array([run[at] for run in runs], np.float64) for at in range(3))
    edges, drawn_w = power_over_time(begin_s.astype(np.int64), end_s.astype(np.int64), power_w)
    rate_edges = now_s + rates.edge_s
    inside = edges[(edges > now_s) & (edges < rate_edges[-1])]
    edge_s = np.union1d(rate_edges, inside)
    at = np.searchsorted(rate_edges, edge_s[:-1], side="right") - 1
    jobs_w = _values_at(edges, drawn_w, edge_s[:-1])
    temperature_c, total_w = rates.temperature_c[at], jobs_w + idle_w
    pue = inputs.room.facility.pue_at(total_w, temperature_c)
    return PowerProfile(edge_s, rates.price_per_kwh[at], temperature_c, total_w, pue)


def _values_at(edges: np.ndarray, value: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    index = np.searchsorted(edges, at_s, side="right") - 1
    inside = (index >= 0) & (index < len(value))
    return (
        np.where(inside, value[np.clip(index, 0, max(len(value) - 1, 0))], 0.0) if len(value) else np.zeros(len(at_s))
    )


def explain_start_changes(before: DayPlan | None, plan: DayPlan) -> tuple[StartChange, ...]:
    """Return each job whose start has changed, in the order of the new plan; new jobs do not count."""
    if before is None:
        return ()
    ran, runs = ({load.job_id: load for load in each.loads} for each in (before, plan))
    early = sum(job not in runs and load.until_s > plan.at_s for job, load in ran.items())
    late = sum(job in ran and load.until_s > ran[job].until_s + SAME_START_S for job, load in runs.items())
    new = len(plan.by_id.keys() - before.by_id.keys())
    gone = len(before.by_id.keys() - plan.by_id.keys() - runs.keys())
    changes = [
        f"{early} ended early" if early else "",
        f"{late} run longer than expected" if late else "",
        f"{new} were submitted" if new else "",
        f"{gone} vanished" if gone else "",
    ]
    general = ", ".join(change for change in changes if change) or "nodes, prices or the order have changed"
    return tuple(
        StartChange(job.job_id, old.start_s, job.start_s, _job_reason(old, job, before, plan) or general)
        for job in plan.jobs
        if (old := before.by_id.get(job.job_id)) is not None and _differs(old.start_s, job.start_s)
    )


def _differs(one_s: int | None, other_s: int | None) -> bool:
    if one_s is None or other_s is None:
        return one_s is not other_s
    return abs(one_s - other_s) > SAME_START_S


def _job_reason(old: PlannedJob, job: PlannedJob, before: DayPlan, plan: DayPlan) -> str:
    """Return what has changed about the job itself, "" if nothing."""
    if job.waits_for_price != old.waits_for_price:
        return job.why if job.waits_for_price else "a cheaper hour no longer justifies the wait"
    if plan.caps != before.caps:
        return "a power cap has changed"
    if old.begin_s != job.begin_s and job.begin_s:
        return job.why or "its begin was set by hand"
    if old.start_s is not None and old.start_s <= plan.at_s:
        return "its planned nodes are not free yet"
    if old.run_s != job.run_s:
        return "another run time is expected"
    return ""


def _remarks(inputs: PlanInputs, plan: DayPlan) -> Iterator[str]:
    beyond = inputs.room.facility.beyond_table(plan.power_profile.temperature_c)
    if beyond:
        yield beyond
    if (plan.power_profile.price_per_kwh < 0).any():
        yield NEGATIVE_PRICES
    if (
        plan.jobs
        and inputs.room.revenue_per_core_h == 0
        and not any(revenue.per_core_h for revenue in inputs.room.revenues)
    ):
        yield NOTHING_EARNS
    yield from list_cap_remarks(inputs, plan)
    for why, count in Counter(plan.left_out.values()).most_common():
        yield f"{counted(count, 'job')} left unchanged: {why}{_never_admitted(plan, why)}"
    unplaced = sum(job.start_s is None for job in plan.jobs)
    if unplaced:
        until = inputs.rules.clock(plan.until_s, plan.at_s)
        yield f"{counted(unplaced, 'job')} without a place before {until}, when the plan ends"


def _never_admitted(plan: DayPlan, why: str) -> str:
    """Return the numbers of the first jobs that a limit never admits, "" for other reasons."""
    if not why.startswith(NEVER_ADMITTED):
        return ""
    jobs = [job for job, reason in plan.left_out.items() if reason == why]
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return f" ({', '.join(jobs[:NAMED])}{more})"


@dataclass(frozen=True, eq=False)
class PoolResult:
    """A pool's problem, plan and holds; `wants_delay` are the jobs that, if alone, would wait for a cheaper hour."""

    question: PoolProblem
    plan: Plan
    holds: Mapping[str, StartHold]
    wants_delay: frozenset[str] = frozenset()


def join_pool_plans(
    inputs: PlanInputs,
    rates: Rates,
    loads: tuple[Load, ...],
    left_out: Mapping[str, str],
    results: Sequence[PoolResult],
    previous: DayPlan | None,
    *,
    others_w: float,
) -> DayPlan:
    """Return the plan of all pools; `loads` are jobs with nodes, `rates` the machine's, `others_w` is drawn besides."""
    parts = [job for result in results for job in _planned(inputs, result)]
    caps = BindingCaps.of(inputs, others_w)
    found: dict[str, PlannedJob] = {}
    for part in parts:
        known = found.get(part.job_id)
        if known is None or (part.start_s is not None and (known.start_s is None or part.start_s < known.start_s)):
            found[part.job_id] = part
    jobs = tuple(caps.bind(job) for job in found.values())
    wants_delay = frozenset[str]().union(*(result.wants_delay for result in results))
    held = {job.job_id for job in jobs if job.waits_for_price}
    plan = DayPlan(
        at_s=inputs.queue.now_s,
        until_s=inputs.queue.now_s + rates.horizon_s,
        currency=inputs.queue.prices.currency if inputs.queue.prices else "",
        jobs=jobs,
        loads=loads,
        left_out=left_out,
        power_profile=build_power_profile(inputs, rates, parts, loads, idle_w=idle_w(inputs) + others_w),
        caps=inputs.caps,
        not_held=wants_delay - held,
        violations=tuple(
            violation for one in results for violation in verify_plan(one.question.problem, one.plan).violations
        ),
    )
    notes = dict.fromkeys(result.plan.note for result in results if result.plan.note)
    return replace(plan, moves=explain_start_changes(previous, plan), remarks=(*_remarks(inputs, plan), *notes))


def _planned(inputs: PlanInputs, result: PoolResult) -> list[PlannedJob]:
    pool, plan, work = result.question.pool, result.plan, result.question.problem.work
    firsts, found = first_unit(work).tolist(), []
    for at, job in enumerate(pool.waiting):
        start_s, power_w = int(plan.start_s[at]), float(work.power_w[at])
        rows = plan.node[firsts[at] : firsts[at + 1]].tolist() if start_s != TOMORROW else ()
        hosts = tuple(pool.nodes[row].name for row in rows)
        hold = result.holds[job.job_id]
        facts = inputs.queue
        planned = PlannedJob(
            job_id=job.job_id,
            user=job.user,
            partitions=job.partitions,
            nodes=max(job.nodes, 1),
            start_s=None if start_s == TOMORROW else facts.now_s + start_s,
            run_s=(expected_run_s_of(job, facts) or 1) * (-(-job.tasks // job.task_limit) if job.task_limit else 1),
            power_w=facts.node_power_w[job.job_id] * max(job.nodes, 1),
            hosts=hosts,
            begin_s=hold.begin_s,
            why="electricity is cheaper then" if hold.for_price else "",
            latest_start_s=hold.latest_start_s,
            waits_for_price=hold.for_price,
            opted_out=inputs.rules.hints(job).now,
        )
        found.append(replace(planned, power_w=power_w))
    return found
