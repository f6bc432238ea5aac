"""Expected waits of jobs if they were submitted now, by a simulation of the cluster with its pools and partitions.

The nodes that jobs can count on are pools of equal nodes. Running jobs hold their nodes until they are expected to end,
pending jobs start by priority under EASY, and each further job waits behind them. The answer has a table for each pool,
by the part of a node that a job requests, the number of nodes and the time limit, and one for the whole cluster in
cores. The simulation knows no boot times, no preemption and no intervals of the scheduler.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster, Partition, Pool
from offpeak.model.constants import DAY_S, HOUR_S, WEEK_S
from offpeak.model.limits import SiteLimits
from offpeak.model.request import Chunk, Request
from offpeak.plugin.federation.site_report import (
    NO_WAITS,
    ExpectedWaits,
    NodePart,
    PartWaits,
    PoolWaits,
    WaitRows,
    WaitTable,
)
from offpeak.plugin.scheduler.cluster_view import cluster_of, requested_features
from offpeak.plugin.scheduler.job import Job, join_array_tasks
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.node_types import find_types
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.live.pools import expected_end_of, expected_run_of
from offpeak.power.whatif import EASY_POLICY
from offpeak.sim_backend.engine.case import EngineCase, RequestedJobs, engine_case
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.engine.start_forecast import JobSizes, RunningPlaces, forecast_starts, shared_pools
from offpeak.sim_backend.engine.state import CORES, GPU_TYPES, SLOTS
from offpeak.sim_backend.replay.replay import rules_of

TIME_LIMITS_S = (900, HOUR_S, 4 * HOUR_S, 12 * HOUR_S, DAY_S, 3 * DAY_S, WEEK_S)
POOL_LIMITS_S = (HOUR_S, 4 * HOUR_S, DAY_S, WEEK_S)
"""The time limits of the tables of pools, which are many."""

MOST_TASKS = 50_000
"""Of the pending jobs and tasks so many with the highest priorities count."""
MOST_POOLS = 64
"""With more pools the nodes of a pool may differ in features that no job requests."""
MOST_FIGURES = 20_000
"""Pools whose tables would make the report longer than this are not in it."""

LOG = logging.getLogger("offpeak.agent")


def is_usable(node: Node) -> bool:
    """Whether jobs can count on the node. A failed node does not count, nor a free node that an admin keeps closed."""
    kept = node.closed and not node.closed_by_us and node.use is NodeUse.FREE
    return not (node.failed or kept)


def simulate_waits(
    view: SchedulerView,
    run_s: Mapping[str, int],
    *,
    shared: bool,
    partitions: Iterable[Partition] = (),
    limits: SiteLimits | None = None,
) -> ExpectedWaits:
    """Return the waits of further jobs, each alone, behind the known jobs. Jobs run as long as `run_s` predicts, by id.

    Partitions without a record share their nodes if `shared`.
    """
    nodes = tuple(filter(is_usable, view.nodes))
    if not nodes:
        return NO_WAITS
    known = tuple(partitions) or tuple(
        Partition(name, shared=shared) for name in sorted({name for node in nodes for name in node.partitions})
    )
    cluster = _without_preemption(_cluster(replace(view, nodes=nodes), known, limits))
    running = _with_room(cluster, _running_parts(view, cluster, run_s))
    waiting = _waiting_tasks(view, run_s)
    case, places = _case(cluster, view.at_s, running, waiting)
    parts = [(number, part) for number, pool in enumerate(cluster.pools) for part in _parts(pool)]
    counts = [_sizes(cluster.pools[number].nodes) for number, _ in parts]
    cell_cores = _cell_cores(case)
    unit_cores = 1 if shared else max(sorted(node.cpus for node in nodes)[len(nodes) // 2], 1)
    tables = case.tables
    units = np.where(shared_pools(tables)[tables.cell_pool], tables.capacity[CORES], tables.capacity[SLOTS])
    cores = unit_cores * _sizes(int((units * cell_cores).sum()), unit_cores)
    sizes = JobSizes(
        pool=np.array([number for number, _ in parts], dtype=np.int64),
        need=np.array([_need(case, number, part) for number, part in parts], dtype=np.int64),
        first=np.concatenate(([0], np.cumsum([len(some) for some in counts]))).astype(np.int64),
        nodes=np.concatenate(counts),
        hold_s=np.array(TIME_LIMITS_S, dtype=np.int64),
        cores=cores,
        cell_cores=cell_cores,
    )
    starts = forecast_starts(case, rules_of(EASY_POLICY), places, sizes, now_s=view.at_s)
    starts_s = _starts_of(case, starts.of_jobs, len(running), waiting)
    total = WaitTable(tuple(cores.tolist()), TIME_LIMITS_S, _rows(starts.of_cores, view.at_s))
    start_s = starts.of_nodes[:, [TIME_LIMITS_S.index(limit_s) for limit_s in POOL_LIMITS_S]]
    if start_s.size > MOST_FIGURES:
        LOG.warning("expected waits: %s pools of nodes are too many to report each", f"{len(cluster.pools):,}")
        return ExpectedWaits(total, starts_s=starts_s)
    rows = _rows(start_s, view.at_s)
    return ExpectedWaits(total, _pool_waits(cluster, parts, sizes, rows), starts_s)


def _starts_of(
    case: EngineCase, start_s: Int64, running: int, waiting: Sequence[tuple[Job, Request, int]]
) -> dict[str, int]:
    """Return the start of each waiting job that the simulation reached, of an array that of its first task.

    In the case so many `running` jobs come before those that wait.
    """
    found: dict[str, int] = {}
    for number, at_s in zip(case.kept.tolist(), start_s.tolist(), strict=True):
        if number >= running and at_s != NOT_YET:
            job_id = waiting[number - running][0].job_id
            found[job_id] = min(found.get(job_id, at_s), at_s)
    return found


def _without_preemption(cluster: Cluster) -> Cluster:
    """Return the cluster on which no job stops another."""
    return replace(
        cluster,
        partitions={name: each._replace(preempts=False) for name, each in cluster.partitions.items()},
        qos={name: each._replace(preempts=frozenset()) for name, each in cluster.qos.items()},
    )


def _cluster(view: SchedulerView, partitions: tuple[Partition, ...], limits: SiteLimits | None) -> Cluster:
    """Return the cluster of the view's nodes; nodes of one type that report slightly different memory are equal."""
    types = find_types(view.nodes)
    nodes = tuple(
        node._replace(memory_mib=equipment.memory_mib) for equipment, members in types.items() for node in members
    )
    view = replace(view, nodes=nodes)
    every = frozenset(name for node in nodes for name in node.features)
    cluster = cluster_of(view, partitions, features=every, limits=limits)
    if len(cluster.pools) <= MOST_POOLS:
        return cluster
    requests = (job.request for job in view.jobs if job.request)
    return cluster_of(view, partitions, features=requested_features(requests), limits=limits)


class HeldPart(NamedTuple):
    """What a running job has on nodes of one pool: the request for it, and the nodes by their place in the pool."""

    job: Job
    pool: int
    request: Request
    nodes: tuple[int, ...]
    left_s: int


def _running_parts(view: SchedulerView, cluster: Cluster, run_s: Mapping[str, int]) -> list[HeldPart]:
    """Return the parts of the running jobs; what would be more than a node has is cut off."""
    place = {
        name: (number, at) for number, pool in enumerate(cluster.pools) for at, name in enumerate(sorted(pool.names))
    }
    found = []
    for job, hosts in _hosts_of_running(view):
        nodes: dict[int, list[int]] = defaultdict(list)
        for host in hosts:
            if host in place:
                number, at = place[host]
                nodes[number].append(at)
        left_s = max(expected_end_of(job, run_s, view.at_s) - view.at_s, 1)
        for number, members in nodes.items():
            request = _held_request(cluster, job, number, len(members), len(hosts))
            found.append(HeldPart(job, number, request, tuple(sorted(members)), left_s))
    return found


def _hosts_of_running(view: SchedulerView) -> list[tuple[Job, tuple[str, ...]]]:
    """Return the running jobs with their nodes; a job whose nodes are not known gets used nodes of no other job."""
    known: list[tuple[Job, tuple[str, ...]]] = []
    unknown: list[Job] = []
    names = {node.name for node in view.nodes}
    for job in (job for job in view.jobs if job.holds_nodes):
        hosts = (job.hosts,) if job.hosts in names else job.known_hosts
        if hosts:
            known.append((job, hosts))
        else:
            unknown.append(job)
    taken = {host for _, hosts in known for host in hosts}
    used = [node for node in view.nodes if node.use is not NodeUse.FREE and node.name not in taken]
    for job in unknown:
        own = [node for node in used if not set(job.partitions).isdisjoint(node.partitions)][: max(job.nodes, 1)]
        known.append((job, tuple(node.name for node in own)))
        used = [node for node in used if node not in own]
    return known


def _held_request(cluster: Cluster, job: Job, number: int, nodes: int, of: int) -> Request:
    """Return the request that has equal shares of the job on so many nodes of the pool, and may use no other pool."""
    pool = cluster.pools[number]
    kind = pool.node_type
    requested = job.request
    memory_mib = sum(each.copies * each.memory_mib for each in requested.chunks) if requested else 0
    gpus = requested.gpus if requested else kind.gpu_count()
    chunk = Chunk(
        nodes,
        cores=min(-(-max(job.cpus, 1) // of), kind.cores),
        memory_mib=min(-(-memory_mib // of), kind.memory_mib),
        gpus=min(-(-gpus // of), kind.gpu_count()),
    )
    own = Request(job.partitions, (chunk,), whole_nodes=job.whole_nodes)
    is_whole = not requested or cluster.takes_whole_nodes(own, pool)
    held = own._replace(partitions=(), whole_nodes=is_whole, hosts=pool.names)
    limited = held._replace(qos=job.qos, licences=requested.licences if requested else ())
    refused = any(limit.refusal(amount) for limit, amount in cluster.limits_of(limited))
    return held if refused else limited


def _waiting_tasks(view: SchedulerView, run_s: Mapping[str, int]) -> list[tuple[Job, Request, int]]:
    """Return the pending jobs that lack only nodes, by priority, each task of an array, with their run times."""
    waiting = [job for job in join_array_tasks(view.jobs) if job.is_waiting(view.at_s)]
    waiting.sort(key=lambda job: (-job.priority, job.submit_s))
    tasks = ((job, _request_of(job), expected_run_of(job, run_s)) for job in waiting for _ in range(job.tasks))
    return list(islice(tasks, MOST_TASKS))


def _request_of(job: Job) -> Request:
    """Return the request of the job; one that is not understood counts with its cores on as many nodes."""
    if job.request:
        return job.request
    nodes = max(job.nodes, 1)
    return Request(job.partitions, (Chunk(nodes, max(-(-job.cpus // nodes), 1)),), whole_nodes=job.whole_nodes)


def _case(
    cluster: Cluster, now_s: int, running: Sequence[HeldPart], waiting: Sequence[tuple[Job, Request, int]]
) -> tuple[EngineCase, RunningPlaces]:
    """Return the case of the jobs, first the running ones, and the places of these."""
    jobs = [*((part.job, part.request, part.left_s) for part in running), *waiting]
    count = len(jobs)
    numbers: dict[Request, int] = {}
    request = np.array([numbers.setdefault(request, len(numbers)) for _, request, _ in jobs], dtype=np.int64)
    runtime_s = np.array([run_s for _, _, run_s in jobs], dtype=np.int64)
    case = engine_case(
        cluster,
        tuple(numbers),
        RequestedJobs(
            job_id=np.arange(count),
            submit_s=np.full(count, now_s),
            runtime_s=runtime_s,
            estimate_s=runtime_s,
            request=request,
            part_power_w=np.zeros(count),
            priority=np.arange(count, 0, -1),
            array=_numbered([job.array_id for job, _, _ in jobs]),
            throttle=np.array([job.task_limit for job, _, _ in jobs], dtype=np.int64),
            user=_numbered([job.user for job, _, _ in jobs]),
        ),
    )
    return case, _places(case, [running[number] for number in case.kept.tolist() if number < len(running)])


def _numbered(names: Sequence[str]) -> Int64:
    """Return a number for each name, -1 for none."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) if name else -1 for name in names], dtype=np.int64)


def _with_room(cluster: Cluster, running: Sequence[HeldPart]) -> list[HeldPart]:
    """Return the parts without the nodes on which jobs overlap by more than a node has."""
    left = {
        (number, at): [pool.node_type.cores, pool.node_type.memory_mib, pool.node_type.gpu_count()]
        for number, pool in enumerate(cluster.pools)
        for at in range(pool.nodes)
    }
    whole: set[tuple[int, int]] = set()
    found = []
    for part in running:
        (chunk,) = part.request.chunks
        needs = (chunk.cores, chunk.memory_mib, chunk.gpus)
        nodes = []
        for at in part.nodes:
            free = left[part.pool, at]
            if (part.pool, at) in whole or any(need > room for need, room in zip(needs, free, strict=True)):
                continue
            nodes.append(at)
            if part.request.whole_nodes:
                whole.add((part.pool, at))
            left[part.pool, at] = [room - need for need, room in zip(needs, free, strict=True)]
        if nodes:
            request = part.request._replace(chunks=(chunk._replace(copies=len(nodes)),))
            found.append(part._replace(request=request, nodes=tuple(nodes)))
    return found


def _places(case: EngineCase, running: Sequence[HeldPart]) -> RunningPlaces:
    is_shared = shared_pools(case.tables)
    cells: list[int] = []
    units: list[int] = []
    first = [0]
    for part in running:
        cell = int(case.tables.cell_first[part.pool])
        if is_shared[part.pool]:
            cells += [cell + at for at in part.nodes]
            units += [1] * len(part.nodes)
        else:
            cells.append(cell)
            units.append(len(part.nodes))
        first.append(len(cells))
    return RunningPlaces(*(np.array(column, dtype=np.int64) for column in (first, cells, units)))


def _parts(pool: Pool) -> list[NodePart]:
    """Return the parts of a node whose waits are reported, the largest last: the whole node too."""
    kind = pool.node_type
    gpus = kind.gpu_count()
    parts = [NodePart(-(-kind.cores // share), kind.memory_mib // share, 0) for share in (max(kind.cores, 1), 4, 2)]
    count = 1
    while count < gpus:
        parts.append(NodePart(-(-kind.cores * count // gpus), kind.memory_mib * count // gpus, count))
        count *= 2
    return list(dict.fromkeys((*parts, NodePart(kind.cores, kind.memory_mib, gpus))))


def _need(case: EngineCase, number: int, part: NodePart) -> list[int]:
    """Return what the part takes of a cell of the pool, by column."""
    columns = len(case.tables.capacity)
    if not shared_pools(case.tables)[number]:
        return [1] + [0] * (columns - 1)
    return [1, part.cores, part.memory_mib, part.gpus] + [0] * (columns - GPU_TYPES)


def _cell_cores(case: EngineCase) -> Int64:
    """Return the cores of a unit of each cell: a node of a pool that is only counted, else a core."""
    cores = np.array([pool.node_type.cores for pool in case.cluster.pools], dtype=np.int64)
    return np.where(shared_pools(case.tables), 1, np.maximum(cores, 1))[case.tables.cell_pool]


def _sizes(most: int, unit: int = 1) -> Int64:
    """Return 1, 2, 4 ... and all units of so many."""
    units = most // unit
    powers = 2 ** np.arange(units.bit_length(), dtype=np.int64)
    return np.unique(np.append(powers[powers <= units], [units] if units else []).astype(np.int64))


def _rows(start_s: Int64, now_s: int) -> WaitRows:
    return tuple(tuple(None if each == NOT_YET else float(each - now_s) for each in row) for row in start_s.tolist())


def _pool_waits(
    cluster: Cluster, parts: Sequence[tuple[int, NodePart]], sizes: JobSizes, rows: WaitRows
) -> tuple[PoolWaits, ...]:
    tables: dict[int, list[PartWaits]] = defaultdict(list)
    for row, (number, part) in enumerate(parts):
        span = slice(int(sizes.first[row]), int(sizes.first[row + 1]))
        tables[number].append(PartWaits(part, tuple(sizes.nodes[span].tolist()), rows[span]))
    return tuple(
        PoolWaits(
            partitions=tuple(sorted(pool.partitions)),
            nodes=pool.nodes,
            cores=pool.node_type.cores,
            memory_mib=pool.node_type.memory_mib,
            gpus=dict(pool.node_type.gpus),
            features=tuple(sorted(pool.node_type.features)),
            limit_s=POOL_LIMITS_S,
            parts=tuple(tables[number]),
        )
        for number, pool in enumerate(cluster.pools)
    )
