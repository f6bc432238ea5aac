"""Divides the live queue into pools of nodes, and states each pool as the planner's problem.

No job of one pool can use a node of another. A job's hold is its earliest start: a begin time that a user or an admin
set, or a cheap hour for which its owner allows a delay.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.model.arrays import Float64
from offpeak.model.constants import HOUR_S
from offpeak.settings.plan import revenue_per_core_h
from plugin.day_plan.day_plan import Load
from plugin.day_plan.inputs import PlanFacility, PlanInputs
from plugin.planner.problem import NO_LIMIT, NodeCapacities, Problem, Rates, Running, Work
from plugin.queue_hook.facts import QueueFacts
from plugin.queue_hook.positions import BEGIN, NO_MARKS, JobMarks, marks_by_job
from plugin.queue_hook.start_times import LEAST_SAVING, BeginTimePlanner
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node, NodeUse


@dataclass(frozen=True)
class PlanPool:
    """Nodes, the jobs that wait for them in the site's order, and those that have some of them."""

    nodes: tuple[Node, ...]
    waiting: tuple[Job, ...]
    holding: tuple[Job, ...]


def split_into_pools(
    facts: QueueFacts, nodes: Iterable[Node], ordered: Iterable[Job]
) -> tuple[tuple[PlanPool, ...], dict[str, str]]:
    """Return the pools, and why a job that waits is in none; `ordered` are the jobs that wait, the first in line first.

    Where partitions share some of their nodes, but not all, the one for which most jobs wait is planned.
    """
    usable = {node.name: node for node in nodes if is_usable(node)}
    left_out: dict[str, str] = {}
    lines: dict[frozenset[str], list[Job]] = defaultdict(list)
    nodes_of = cache(lambda partitions: _nodes_of(partitions, usable))
    for job in ordered:
        why, where = unplannable_reason(job, facts), nodes_of(job.partitions)
        why = why or _too_large_reason(job, len(where))
        if why:
            left_out[job.job_id] = why
        else:
            lines[where].append(job)
    pools = []
    for where, waiting in _disjoint_groups(lines, left_out):
        holding = [job for job in facts.jobs if job.state in HOLDING and not where.isdisjoint(allocated_hosts(job))]
        pools.append(PlanPool(tuple(usable[name] for name in sorted(where)), tuple(waiting), tuple(holding)))
    return tuple(pools), left_out


def is_usable(node: Node) -> bool:
    """Whether jobs can use the node within the plan: a sleeping node is woken, a node that offpeak closed is opened."""
    kept = node.closed and not node.closed_by_us
    return not (node.failed or node.reserved or kept or node.use is NodeUse.UNKNOWN)


def unplannable_reason(job: Job, facts: QueueFacts) -> str:
    """Return why a job that waits cannot be planned, "" if it can."""
    if job.state is not JobState.PENDING:
        return "it is held"
    if not job.plain or job.is_array:
        return "it is an array, or depends on other jobs"
    if job.reservation:
        return f"it waits for the reservation {job.reservation}"
    if job.job_id not in facts.node_power_w:
        return "its power is not known"
    return "" if expected_run_s_of(job, facts) else "its run time is not known"


def _too_large_reason(job: Job, usable: int) -> str:
    """Return that there are too few nodes for the job, "" if there are enough."""
    if not usable:
        return f"no usable node is in {','.join(job.partitions)}"
    return f"it requests more than the {usable} usable nodes of its partition" if job.nodes > usable else ""


def expected_run_s_of(job: Job, facts: QueueFacts) -> int | None:
    """Return the expected run time of the job, its limit at most; None if neither is known."""
    return min((value for value in (facts.expected_run_s.get(job.job_id), job.limit_s) if value), default=None)


def allocated_hosts(job: Job) -> tuple[str, ...]:
    """Return the nodes that a job has."""
    if not job.hosts:
        return ()
    try:
        return expand(job.hosts)
    except BadInput:
        return ()


def _nodes_of(partitions: tuple[str, ...], usable: Mapping[str, Node]) -> frozenset[str]:
    return frozenset(name for name, node in usable.items() if not set(node.partitions).isdisjoint(partitions))


def _disjoint_groups(
    lines: Mapping[frozenset[str], list[Job]], left_out: dict[str, str]
) -> list[tuple[frozenset[str], list[Job]]]:
    """Return the rows for nodes that do not overlap, the longest first; overlapping rows are left out."""
    chosen: list[tuple[frozenset[str], list[Job]]] = []
    for where, waiting in sorted(lines.items(), key=lambda line: (-len(line[1]), sorted(line[0]))):
        if all(where.isdisjoint(other) for other, _ in chosen):
            chosen.append((where, waiting))
        else:
            why = "its partition shares some nodes with another for which more jobs wait"
            left_out |= {job.job_id: why for job in waiting}
    return chosen


@dataclass(frozen=True)
class StartHold:
    """Not before `begin_s` [Unix s], 0 for any time; `for_price` if offpeak chose it, with the latest start then."""

    begin_s: int = 0
    for_price: bool = False
    latest_start_s: int | None = None


def find_holds(inputs: PlanInputs, jobs: Iterable[Job]) -> Mapping[str, StartHold]:
    """Return the hold of each job: what the queue hook would choose for it alone."""
    facts = inputs.queue
    marks, planner = marks_by_job(facts.marks, facts.jobs), BeginTimePlanner(facts, inputs.rules)
    return {job.job_id: _find_hold(job, planner, marks.get(job.job_id, NO_MARKS)) for job in jobs}


def _find_hold(job: Job, planner: BeginTimePlanner, marks: JobMarks) -> StartHold:
    now_s, hints = planner.facts.now_s, planner.rules.hints(job)
    held_s = job.begin_s if job.begin_s and job.begin_s > now_s else 0
    ours = bool(held_s) and marks.is_ours(BEGIN, held_s) is True
    choice = planner.choose_begin(job, hints, marks) if hints.allows_delay or ours else None
    begin_s = held_s if choice is None or choice.begin_s is None else choice.begin_s
    latest = planner.latest_start(job, hints)
    for_price = begin_s > now_s and (ours or begin_s != held_s)
    return StartHold(begin_s, for_price, latest.start_s if latest else None)


def is_worth_waiting(planner: BeginTimePlanner, job: Job, *, held_start_s: int, free_start_s: int) -> bool:
    """Return whether a later start is cheap enough to justify the wait."""
    run_s = expected_run_s_of(job, planner.facts)
    starts = planner.start_costs(run_s) if run_s else None
    if starts is None:
        return False
    held, free = starts.at(held_start_s).per_watt, starts.at(free_start_s).per_watt
    return free - held > LEAST_SAVING * abs(free)


OVERDUE_S = 300
"""A job that has outlived its prediction and its limit is taken to end so soon."""


@dataclass(frozen=True, eq=False)
class PoolProblem:
    """A pool and its problem: job i of the work is `pool.waiting[i]`, node n of the machine `pool.nodes[n]`."""

    pool: PlanPool
    problem: Problem


def build_pool_problem(inputs: PlanInputs, pool: PlanPool, holds: Mapping[str, StartHold], rates: Rates) -> PoolProblem:
    """Return the question; `holds` has every job of the pool that waits."""
    whole = not inputs.shared_nodes or all(job.whole_nodes for job in (*pool.waiting, *pool.holding))
    cpus = [1 if whole else max(node.cpus, 1) for node in pool.nodes]
    zeros = np.zeros(len(cpus), np.int64)
    machine = NodeCapacities(np.array(cpus, np.int64), zeros, zeros)
    running = _running(inputs, pool, cpus)
    work = _work(inputs, pool.waiting, holds, least_cpus=min(cpus), whole=whole)
    return PoolProblem(pool, Problem(work, machine, running, _not_below(rates, running), inputs.room.facility))


def running_loads(inputs: PlanInputs, jobs: Sequence[Job]) -> tuple[Load, ...]:
    """Return the jobs that have nodes, with when they are expected to end."""
    facts = inputs.queue
    return tuple(
        Load(
            job.job_id,
            job.user,
            allocated_hosts(job),
            expected_end_s(job, inputs),
            facts.node_power_w.get(job.job_id, 0.0) * job.nodes,
        )
        for job in jobs
    )


def expected_end_s(job: Job, inputs: PlanInputs) -> int:
    """Return when a job that has nodes is expected to end: one that has outlived its prediction, at its limit."""
    now_s, start_s = inputs.queue.now_s, job.start_s or inputs.queue.now_s
    expected = (expected_run_s_of(job, inputs.queue), job.limit_s)
    later = [start_s + run_s for run_s in expected if run_s and start_s + run_s > now_s]
    return min(later, default=now_s + OVERDUE_S)


def _work(
    inputs: PlanInputs, jobs: Sequence[Job], holds: Mapping[str, StartHold], *, least_cpus: int, whole: bool
) -> Work:
    facts = inputs.queue
    rows = [_row(inputs, job, holds[job.job_id], 1 if whole else _cores(job, least_cpus)) for job in jobs]
    units, cores, run_s, release_s, latest_end_s = np.array(rows, np.int64).reshape(-1, 5).T
    power_w = np.array([facts.node_power_w[job.job_id] for job in jobs], np.float64) * units
    cpus = np.array([max(job.cpus, job.nodes, 1) for job in jobs], np.float64)
    zeros = np.zeros(len(jobs), np.int64)
    revenue_per_s = cpus * _per_core_h(inputs.room, jobs) / HOUR_S
    numbers = np.arange(len(jobs))
    return Work(
        job_id=numbers,
        units=units,
        cores=cores,
        memory_mb=zeros,
        gpus=zeros,
        duration_s=run_s,
        release_s=release_s,
        latest_end_s=latest_end_s,
        power_w=power_w,
        revenue_per_s=revenue_per_s,
    )


def _per_core_h(room: PlanFacility, jobs: Sequence[Job]) -> Float64:
    usual = room.revenue_per_core_h
    each = (revenue_per_core_h(room.revenues, job.account, job.qos, usual=usual) for job in jobs)
    return np.fromiter(each, np.float64, len(jobs))


def _row(inputs: PlanInputs, job: Job, hold: StartHold, cores: int) -> tuple[int, ...]:
    """Return units, cores of each, run time, release and latest end [s from now]."""
    now_s, run_s = inputs.queue.now_s, expected_run_s_of(job, inputs.queue) or 1
    last_s = hold.latest_start_s if hold.for_price else None
    latest_end_s = NO_LIMIT if last_s is None else last_s - now_s + run_s
    return max(job.nodes, 1), cores, run_s, max(hold.begin_s - now_s, 0), latest_end_s


def _cores(job: Job, least_cpus: int) -> int:
    """Return what a unit takes of a node; of whole nodes as much as the smallest has, at the least."""
    return max(-(-job.cpus // max(job.nodes, 1)), least_cpus if job.whole_nodes else 1)


def _running(inputs: PlanInputs, pool: PlanPool, cpus: Sequence[int]) -> Running:
    """Return a row for each node of each job; jobs that have more of a node than exists get the rest."""
    row_of = {node.name: row for row, node in enumerate(pool.nodes)}
    left, rows = list(cpus), []
    for job in pool.holding:
        hosts = allocated_hosts(job)
        here = [row_of[host] for host in hosts if host in row_of]
        for row in here:
            each = left[row] if job.whole_nodes else -(-max(job.cpus, 1) // len(hosts))
            taken = min(each, left[row])
            left[row] -= taken
            node_w = inputs.queue.node_power_w.get(job.job_id, 0.0)
            rows.append((row, expected_end_s(job, inputs) - inputs.queue.now_s, taken, node_w))
    node, until_s, cores = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
    zeros = np.zeros(len(rows), np.int64)
    power_w = np.array([row[3] for row in rows], np.float64)
    return Running(
        node=node,
        until_s=until_s,
        cores=cores,
        memory_mb=zeros,
        gpus=zeros,
        power_w=power_w,
        revenue_per_s=np.zeros(len(rows)),
    )


def _not_below(rates: Rates, running: Running) -> Rates:
    """Return the rates with no cap below the running jobs, which are not stopped."""
    drawn = [int(np.ceil(running.power_w[running.until_s > from_s].sum())) for from_s in rates.edge_s[:-1].tolist()]
    return Rates(rates.edge_s, rates.price_per_kwh, rates.temperature_c, np.maximum(rates.cap_w, drawn))
