"""Divides the live queue into pools of nodes, and states each pool as the planner's problem.

No job of one pool can use a node of another. Within a pool each job may use some kinds of nodes: those of its
partitions that have the memory, GPUs and features that it requests. A job's hold is its earliest start: a begin time
that a user or an admin set, or a cheap hour for which its owner allows a delay.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.model.constants import HOUR_S
from offpeak.plugin.day_plan.day_plan import Load
from offpeak.plugin.day_plan.inputs import PlanInputs, expected_end_s, expected_run_s_of, is_usable
from offpeak.plugin.day_plan.limits import (
    Amounts,
    Supply,
    build_limits,
    limit_amounts,
    most_tasks,
    never_admitted_reason,
)
from offpeak.plugin.planner.problem import MOST_POOLS, NO_LIMIT, NodeCapacities, Problem, Rates, Running, Work
from offpeak.plugin.queue_hook.facts import Competition, QueueFacts
from offpeak.plugin.queue_hook.positions import BEGIN, NO_MARKS, JobMarks, marks_by_job
from offpeak.plugin.queue_hook.start_times import LEAST_SAVING, BeginTimePlanner
from offpeak.plugin.scheduler.cluster_view import cluster_of
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.settings.plan import revenue_per_core_h

MEMORY_NOT_KNOWN = 1 << 40

MOST_PARTS = 32
"""The tasks of an array that start one by one are planned in so many parts at most."""


@dataclass(frozen=True)
class PlanPool:
    """Nodes, the jobs that wait for them in the site's order, and those that have some of them.

    `node_bits` are the bits of the nodes' kinds, `job_bits` those of the kinds that each waiting job could use. An
    array is a row for each of its parts, with the `tasks` of that part; others have one. `amounts` are taken of limits.
    """

    nodes: tuple[Node, ...]
    waiting: tuple[Job, ...]
    holding: tuple[Job, ...]
    node_bits: tuple[int, ...]
    job_bits: tuple[int, ...]
    tasks: tuple[int, ...] = ()
    amounts: tuple[Amounts, ...] = ()


def split_into_pools(
    facts: QueueFacts, nodes: Iterable[Node], ordered: Iterable[Job]
) -> tuple[tuple[PlanPool, ...], dict[str, str]]:
    """Return the pools, and why a job that waits is in none; `ordered` are the jobs that wait, the first in line first.

    A pool has all nodes that jobs could use which compete with each other, directly or by a chain of jobs.
    """
    usable = {node.name: node for node in nodes if is_usable(node)}
    view = SchedulerView(facts.now_s, facts.jobs, tuple(usable.values()), ())
    cluster = cluster_of(view, facts.cluster.partitions.values())
    competition = Competition(cluster, facts.pending)
    in_partitions = cache(lambda partitions: len(_nodes_in(partitions, usable)))
    left_out: dict[str, str] = {}
    lines: dict[int, list[Job]] = defaultdict(list)
    for job in ordered:
        why = unplannable_reason(job, facts) or _too_large_reason(job, in_partitions(job.partitions))
        why = why or competition.fit(job).why_not or never_admitted_reason(job, facts.cluster)
        if why:
            left_out[job.job_id] = why
        else:
            lines[competition.group(job).pool].append(job)
    pools = []
    for waiting in sorted(lines.values(), key=lambda line: (-len(line), line[0].partitions)):
        numbers = sorted(competition.pools_of(waiting))
        bits = {pool: 1 << min(at, MOST_POOLS - 1) for at, pool in enumerate(numbers)}
        bit_of = {name: bits[pool] for pool in numbers for name in cluster.pools[pool].names}
        holding = [
            job for job in facts.jobs if job.state in HOLDING and not bit_of.keys().isdisjoint(allocated_hosts(job))
        ]
        pools.append(
            PlanPool(
                nodes=tuple(usable[name] for name in sorted(bit_of)),
                waiting=tuple(waiting),
                holding=tuple(holding),
                node_bits=tuple(bit_of[name] for name in sorted(bit_of)),
                job_bits=tuple(reduce(or_, (bits[pool] for pool in competition.fit(job).pools)) for job in waiting),
            )
        )
    return tuple(pools), left_out


def unplannable_reason(job: Job, facts: QueueFacts) -> str:
    """Return why a job that waits cannot be planned, "" if it can."""
    if job.state is not JobState.PENDING:
        return "it is held"
    if not job.plain:
        return "it is a part of another job, or depends on other jobs"
    if job.is_array and not facts.startable_tasks(job):
        return "as many of its tasks run as may run at once"
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


def allocated_hosts(job: Job) -> tuple[str, ...]:
    """Return the nodes that a job has."""
    if not job.hosts:
        return ()
    try:
        return expand(job.hosts)
    except BadInput:
        return ()


def _nodes_in(partitions: tuple[str, ...], usable: Mapping[str, Node]) -> frozenset[str]:
    return frozenset(name for name, node in usable.items() if not set(node.partitions).isdisjoint(partitions))


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


@dataclass(frozen=True, eq=False)
class PoolProblem:
    """A pool and its problem: job i of the work is `pool.waiting[i]`, node n of the machine `pool.nodes[n]`."""

    pool: PlanPool
    problem: Problem


def build_pool_problem(
    inputs: PlanInputs, pool: PlanPool, holds: Mapping[str, StartHold], supply: Supply
) -> PoolProblem:
    """Return the question; `holds` has every job of the pool that waits."""
    whole, capacity = _capacities(inputs, pool)
    cores, memory_mib, gpus = np.array(capacity, np.int64).T.copy()
    machine = NodeCapacities(cores, memory_mib, gpus, np.array(pool.node_bits, np.int64))
    running = _running(inputs, pool, capacity)
    limits, demand = build_limits(pool.amounts, supply.taken)
    work = replace(_work(inputs, pool, holds, capacity, whole=whole), demand=demand)
    rates = _not_below(supply.rates, running)
    return PoolProblem(pool, Problem(work, machine, running, rates, inputs.room.facility, limits))


class NodeShare(NamedTuple):
    """Cores, memory and GPUs of a node, or a share of them."""

    cores: int
    memory_mib: int
    gpus: int

    def __floordiv__(self, part: "NodeShare") -> int:
        """Return how many such parts it has."""
        return min((has // each for has, each in zip(self, part, strict=True) if each), default=1)


WHOLE = NodeShare(1, 0, 0)
"""Where no job shares a node, a node is one unit."""


def _capacities(inputs: PlanInputs, pool: PlanPool) -> tuple[bool, list[NodeShare]]:
    """Return whether all jobs have whole nodes, and what each node has then or else."""
    whole = not inputs.shared_nodes or all(job.whole_nodes for job in (*pool.waiting, *pool.holding))
    return whole, [WHOLE if whole else _capacity(node) for node in pool.nodes]


def _capacity(node: Node) -> NodeShare:
    gpus = sum(count for _, count in node.gpus)
    return NodeShare(max(node.cpus, 1), node.memory_mib or MEMORY_NOT_KNOWN, gpus)


def _node_share(job: Job, nodes: int, smallest: NodeShare) -> NodeShare:
    """Return what the job takes of each of its nodes; of whole nodes as much as the smallest has, at the least."""
    cores = max(-(-job.cpus // nodes), smallest.cores if job.whole_nodes else 1)
    chunks = job.request.chunks if job.request else ()
    memory_mib = -(-sum(chunk.copies * chunk.memory_mib for chunk in chunks) // nodes)
    gpus = -(-sum(chunk.copies * chunk.gpus for chunk in chunks) // nodes)
    return NodeShare(cores, memory_mib, gpus)


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


def split_arrays(inputs: PlanInputs, pool: PlanPool) -> PlanPool:
    """Return the pool with each array as a row for each of its parts: tasks that could start now and start together.

    While a cap on power holds, all tasks are one part: only the begin time of the array keeps tasks back, all at once.
    """
    whole, capacity = _capacities(inputs, pool)
    rows = []
    for job, bits in zip(pool.waiting, pool.job_bits, strict=True):
        amounts = limit_amounts(job, inputs.queue.cluster)
        for count in _parts(job, amounts, capacity, inputs, whole=whole):
            rows.append((job, bits, count, {limit: count * amount for limit, amount in amounts.items()}))
    waiting, job_bits, tasks, of_rows = zip(*rows, strict=True)
    return replace(pool, waiting=waiting, job_bits=job_bits, tasks=tasks, amounts=of_rows)


def _parts(job: Job, amounts: Amounts, capacity: Sequence[NodeShare], inputs: PlanInputs, *, whole: bool) -> list[int]:
    """Return the tasks of each part, (1) for a job that is no array: as many as could start if no job ran.

    Limits may let some tasks start before others that share their node: then each task is a part, if they are few.
    """
    if not job.is_array:
        return [1]
    nodes, per_node = max(job.nodes, 1), _tasks_per_node(job, capacity, whole=whole)
    startable = inputs.queue.startable_tasks(job)
    tasks = max(1, min(startable, len(capacity) // nodes * per_node, most_tasks(amounts, startable)))
    parts = 1 if inputs.caps else min(MOST_PARTS, tasks if amounts else -(-tasks // per_node))
    return [tasks // parts + (part < tasks % parts) for part in range(parts)]


def _tasks_per_node(job: Job, capacity: Sequence[NodeShare], *, whole: bool) -> int:
    if whole or job.nodes > 1:
        return 1
    smallest = min(capacity)
    return max(1, smallest // _node_share(job, 1, smallest))


def _unit_row(job: Job, tasks: int, capacity: Sequence[NodeShare], *, whole: bool) -> tuple[int, ...]:
    """Return units, and cores, memory and GPUs of each; tasks that share a node are one unit."""
    nodes = max(job.nodes, 1)
    share = WHOLE if whole else _node_share(job, nodes, min(capacity))
    per_unit = min(_tasks_per_node(job, capacity, whole=whole) if tasks > 1 else 1, tasks)
    return -(-tasks // per_unit) * nodes, *(per_unit * each for each in share)


def _work(
    inputs: PlanInputs, pool: PlanPool, holds: Mapping[str, StartHold], capacity: Sequence[NodeShare], *, whole: bool
) -> Work:
    facts, jobs = inputs.queue, pool.waiting
    rows = [
        (*_unit_row(job, tasks, capacity, whole=whole), *_times(inputs, job, holds[job.job_id]))
        for job, tasks in zip(jobs, pool.tasks, strict=True)
    ]
    units, cores, memory_mib, gpus, run_s, release_s, latest_end_s = np.array(rows, np.int64).reshape(-1, 7).T.copy()
    tasks = np.array(pool.tasks, np.float64)
    power_w = np.array([facts.node_power_w[job.job_id] * max(job.nodes, 1) for job in jobs], np.float64) * tasks
    cpus = np.array([max(job.cpus, job.nodes, 1) for job in jobs], np.float64) * tasks
    room = inputs.room
    usual = room.revenue_per_core_h
    each = (revenue_per_core_h(room.revenues, job.account, job.qos, usual=usual) for job in jobs)
    revenue_per_s = cpus * np.fromiter(each, np.float64, len(jobs)) / HOUR_S
    return Work(
        job_id=np.arange(len(jobs)),
        units=units,
        cores=cores,
        memory_mb=memory_mib,
        gpus=gpus,
        duration_s=run_s,
        release_s=release_s,
        latest_end_s=latest_end_s,
        power_w=power_w,
        revenue_per_s=revenue_per_s,
        pools=np.array(pool.job_bits, np.int64),
    )


def _times(inputs: PlanInputs, job: Job, hold: StartHold) -> tuple[int, int, int]:
    """Return run time, release and latest end [s from now]."""
    now_s, run_s = inputs.queue.now_s, expected_run_s_of(job, inputs.queue) or 1
    last_s = hold.latest_start_s if hold.for_price else None
    latest_end_s = NO_LIMIT if last_s is None else last_s - now_s + run_s
    return run_s, max(hold.begin_s - now_s, 0), latest_end_s


def _running(inputs: PlanInputs, pool: PlanPool, capacity: Sequence[NodeShare]) -> Running:
    """Return a row for each node of each job; jobs that have more of a node than it has get what is left."""
    row_of = {node.name: row for row, node in enumerate(pool.nodes)}
    left, rows, powers = list(capacity), [], []
    for job in pool.holding:
        hosts = allocated_hosts(job)
        for row in (row_of[host] for host in hosts if host in row_of):
            each = left[row] if job.whole_nodes else _node_share(job, len(hosts), NodeShare(1, 0, 0))
            taken = NodeShare(*map(min, each, left[row]))
            left[row] = NodeShare(*(has - took for has, took in zip(left[row], taken, strict=True)))
            rows.append((row, expected_end_s(job, inputs) - inputs.queue.now_s, *taken))
            powers.append(inputs.queue.node_power_w.get(job.job_id, 0.0))
    node, until_s, cores, memory_mib, gpus = np.array(rows, np.int64).reshape(-1, 5).T.copy()
    return Running(
        node=node,
        until_s=until_s,
        cores=cores,
        memory_mb=memory_mib,
        gpus=gpus,
        power_w=np.array(powers, np.float64),
        revenue_per_s=np.zeros(len(rows)),
    )


def _not_below(rates: Rates, running: Running) -> Rates:
    """Return the rates with no cap below the running jobs, which are not stopped, as long as each of them runs."""
    if not (rates.cap_w < NO_LIMIT).any():
        return rates
    ends_s = running.until_s[(running.until_s > 0) & (running.until_s < rates.horizon_s)]
    edges = np.union1d(rates.edge_s, ends_s)
    old = np.searchsorted(rates.edge_s, edges[:-1], side="right") - 1
    drawn = [int(np.ceil(running.power_w[running.until_s > from_s].sum())) for from_s in edges[:-1].tolist()]
    return Rates(edges, rates.price_per_kwh[old], rates.temperature_c[old], np.maximum(rates.cap_w[old], drawn))
