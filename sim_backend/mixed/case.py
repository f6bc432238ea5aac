"""Makes the arrays of a mixed replay from a cluster, the requests and the jobs; jobs that can never run are named."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster, Partition, Pool, competition_groups
from offpeak.model.jobs import RejectedJobs
from offpeak.model.limits import PreemptMode
from offpeak.model.request import Chunk, Request
from offpeak.text import counted
from sim_backend.mixed.cells import fits_empty
from sim_backend.mixed.limits import NONE, limits_for
from sim_backend.mixed.state import (
    ALL_SLOTS,
    CAN_STOP,
    CANCELLED,
    CORES,
    GPUS,
    KIND,
    REQUEUED,
    SLOTS,
    TIER,
    MixedWorkload,
    Preemption,
    Tables,
)


@dataclass(frozen=True)
class MixedJobs:
    """Jobs as columns, sorted by submission.

    `request` is the number of the job's request, `part_power_w` the draw of each of its parts [W]; a job with a higher
    `priority` goes first. `array` is -1 for a job of no array; of an array at most `throttle` tasks run at a time, 0
    for any number. `user` is -1 where it is unknown. Columns that are left out say that jobs are equal.
    """

    job_id: Int64
    submit_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    request: Int64
    part_power_w: Float64
    priority: Int64 | None = None
    array: Int64 | None = None
    throttle: Int64 | None = None
    user: Int64 | None = None

    def __len__(self) -> int:
        return len(self.job_id)


@dataclass(frozen=True)
class MixedCase:
    """A cluster and jobs as the engine takes them.

    `kept` are the numbers of the jobs that can run, in the order of `workload`; `rejected` names the others.
    `request_of` and `group_of` are by class, `power_w` is the draw of each kept job [W].
    """

    cluster: Cluster
    tables: Tables
    workload: MixedWorkload
    job_id: Int64
    kept: Int64
    rejected: tuple[RejectedJobs, ...]
    request_of: tuple[Request, ...]
    power_w: Float64


def mixed_case(cluster: Cluster, requests: Sequence[Request], jobs: MixedJobs) -> MixedCase:
    """Return the case of the jobs; those whose request fits nowhere are left out and named with the reason.

    Raises BadInput if the jobs are not sorted by submission or name a request that is not there.
    """
    _check(jobs, len(requests))
    class_of: dict[Request, int] = {}
    rejected: dict[str, list[int]] = defaultdict(list)
    job_class = np.full(len(jobs), -1, dtype=np.int64)
    for number, members in _by_request(jobs.request):
        for request, some, reason in _admitted(cluster, requests[number], jobs.estimate_s, members):
            if reason := reason or _misfit(cluster, request):
                rejected[reason] += jobs.job_id[some].tolist()
            else:
                job_class[some] = class_of.setdefault(request, len(class_of))
    kept = np.flatnonzero(job_class >= 0)
    classes = tuple(class_of)
    tables = tables_of(cluster, classes)
    return MixedCase(
        cluster=cluster,
        tables=tables,
        workload=_workload(cluster, classes, tables, jobs, kept, job_class[kept]),
        job_id=jobs.job_id[kept],
        kept=kept,
        rejected=tuple(RejectedJobs(reason, tuple(sorted(ids))) for reason, ids in rejected.items()),
        request_of=classes,
        power_w=jobs.part_power_w[kept] * _parts(classes)[job_class[kept]],
    )


def _check(jobs: MixedJobs, requests: int) -> None:
    if len(jobs) and not (jobs.request.min() >= 0 and jobs.request.max() < requests):
        bad = int(np.flatnonzero((jobs.request < 0) | (jobs.request >= requests))[0])
        raise BadInput(
            f"job {jobs.job_id[bad]} has request {jobs.request[bad]}, but there are {counted(requests, 'request')}",
            hint="requests are numbered from 0",
        )
    late = np.flatnonzero(np.diff(jobs.submit_s) < 0)
    if len(late):
        raise BadInput(
            f"job {jobs.job_id[late[0] + 1]} was submitted before job {jobs.job_id[late[0]]}, which stands before it",
            hint="sort the jobs by submission",
        )
    negative = np.flatnonzero((jobs.runtime_s < 0) | (jobs.estimate_s < 0))
    if len(negative):
        raise BadInput(f"job {jobs.job_id[negative[0]]} has a negative run time or estimate", hint="leave it out")


def _by_request(request: Int64) -> Iterator[tuple[int, Int64]]:
    order = np.argsort(request, kind="stable")
    for number in np.unique(request).tolist():
        first, behind = np.searchsorted(request, (number, number + 1), sorter=order)
        yield number, order[first:behind]


def _admitted(
    cluster: Cluster, request: Request, estimate_s: Int64, jobs: Int64
) -> Iterator[tuple[Request, Int64, str]]:
    """Yield the jobs of a request that the same partitions admit, the request for these, and why none does, if so."""
    partitions = [cluster.partitions[name] for name in request.partitions if name in cluster.partitions]
    if not partitions or all(each.most_nodes is None and each.limit_s is None for each in partitions):
        yield request, jobs, ""
        return
    nodes = request.least_nodes
    narrow = [each for each in partitions if each.most_nodes is None or nodes <= each.most_nodes]
    if not narrow:
        yield request, jobs, f"{_names(partitions)} admits no job of {counted(nodes, 'node')}"
        return
    admits = np.array([estimate_s[jobs] <= (np.inf if each.limit_s is None else each.limit_s) for each in narrow])
    for pattern in np.unique(admits, axis=1).T:
        some = jobs[(admits == pattern[:, None]).all(axis=0)]
        names = tuple(each.name for each, admitted in zip(narrow, pattern, strict=True) if admitted)
        limit_s = max(each.limit_s or 0 for each in narrow)
        reason = "" if names else f"{_names(narrow)} admits no job of more than {limit_s} s"
        yield request._replace(partitions=names), some, reason


def _names(partitions: Iterable[Partition]) -> str:
    return "partition " + ", ".join(each.name for each in partitions)


def _misfit(cluster: Cluster, request: Request) -> str:
    """Return why an empty cluster cannot run the request, "" if it can."""
    if not request.chunks:
        return "the request has no parts"
    refusals = (limit.refusal(amount) for limit, amount in cluster.limits_of(request))
    reason = cluster.misfit(request) or next(filter(None, refusals), "")
    if reason or len(request.chunks) == 1:
        return reason
    tables = tables_of(cluster, (request,))
    return "" if fits_empty(tables) else "its parts do not fit together"


class _Option(NamedTuple):
    """A pool that a chunk can use, as `Tables` has it; `surplus` is what one part leaves of a node of the pool."""

    surplus: tuple[int, int, int]
    pool: int
    room: int
    most: int
    need: list[int]
    unit_nodes: float
    is_ranked: bool


_STOPS = {PreemptMode.OFF: 0, PreemptMode.REQUEUE: REQUEUED, PreemptMode.CANCEL: CANCELLED}


def tables_of(cluster: Cluster, classes: Sequence[Request]) -> Tables:
    """Return the tables of a cluster and of the distinct requests to it, each of which fits it."""
    parts = [cluster.parts_per_node(request) for request in classes]
    is_shared = [_is_shared(cluster, pool, classes, parts) for pool in range(len(cluster.pools))]
    columns = _Columns(cluster, is_shared)
    chunk_class = [number for number, request in enumerate(classes) for _ in request.chunks]
    chunks = [chunk for request in classes for chunk in request.chunks]
    options = [
        sorted(columns.options(classes[number], chunk, rooms))
        for number, chunk, rooms in zip(chunk_class, chunks, (each for some in parts for each in some), strict=True)
    ]
    flat = [option for some in options for option in some]
    option_class = np.repeat(np.array(chunk_class, dtype=np.int64), [len(some) for some in options])
    option_pool = np.array([option.pool for option in flat], dtype=np.int64)
    class_group = _groups(len(classes), option_class, option_pool)
    class_window, group_windows = _windows(cluster, classes, class_group)
    groups = int(class_group.max(initial=-1)) + 1
    cells = np.array([pool.nodes if own else 1 for pool, own in zip(cluster.pools, is_shared, strict=True)])
    cell_pool = np.repeat(np.arange(len(cells)), cells)
    pool_group = np.full(len(cells), -1)
    pool_group[option_pool] = class_group[option_class]
    shared_groups = {int(group) for group, own in zip(pool_group, is_shared, strict=True) if own}
    node_cores = np.array([max(1, pool.node_type.cores) for pool in cluster.pools])
    pool_weight = np.where(np.isin(pool_group, list(shared_groups)) & ~np.array(is_shared), node_cores, 1)
    by_class = np.argsort(class_group, kind="stable")
    by_pool = np.argsort(option_pool, kind="stable")
    by_group = np.argsort(pool_group[cell_pool], kind="stable")
    return Tables(
        cell_first=_first(cells),
        cell_pool=cell_pool,
        capacity=np.ascontiguousarray(np.array(columns.capacity, dtype=np.int64).T[:, cell_pool]),
        window_column=np.where(is_shared, CORES, SLOTS)[cell_pool],
        window_weight=np.where(pool_group >= 0, pool_weight, 0)[cell_pool],
        chunk_first=_first(np.array([len(request.chunks) for request in classes], dtype=np.int64)),
        class_group=class_group,
        class_window=class_window,
        group_windows=group_windows,
        copies=np.array([chunk.copies for chunk in chunks], dtype=np.int64),
        option_first=_first(np.array([len(some) for some in options], dtype=np.int64)),
        option_pool=option_pool,
        option_class=option_class,
        room=np.array([option.room for option in flat], dtype=np.int64),
        most=np.array([option.most for option in flat], dtype=np.int64),
        need=np.array([option.need for option in flat], dtype=np.int64).reshape(len(flat), len(columns.capacity[0])),
        unit_nodes=np.array([option.unit_nodes for option in flat], dtype=np.float64),
        is_ranked=np.array([option.is_ranked for option in flat], dtype=np.int64),
        use_first=_first(np.bincount(option_pool, minlength=len(cells))),
        use_option=by_pool,
        group_class_first=_first(np.bincount(class_group, minlength=groups)),
        group_class=by_class,
        group_cell_first=_first(np.bincount(pool_group[cell_pool][pool_group[cell_pool] >= 0], minlength=groups)),
        group_cell=by_group[np.count_nonzero(pool_group[cell_pool] < 0) :],
    )


def _is_shared(
    cluster: Cluster, pool: int, classes: Sequence[Request], parts: Sequence[tuple[tuple[int, ...], ...]]
) -> bool:
    """Tell whether a request may share nodes of the pool."""
    return any(
        any(chunk[pool] for chunk in rooms) and not cluster.takes_whole_nodes(request, cluster.pools[pool])
        for request, rooms in zip(classes, parts, strict=True)
    )


class _Columns:
    """The columns of resources: `capacity` has those of a cell of each pool."""

    def __init__(self, cluster: Cluster, is_shared: Sequence[bool]) -> None:
        self.cluster, self.is_shared = cluster, is_shared
        mixed = (pool.node_type.gpus for pool in cluster.pools if len(pool.node_type.gpus) > 1)
        self.gpu_types = sorted({name for gpus in mixed for name, _ in gpus})
        self.capacity = [
            self._of_node(pool) if own else [pool.nodes] + [0] * (GPUS + len(self.gpu_types))
            for pool, own in zip(cluster.pools, is_shared, strict=True)
        ]

    def _of_node(self, pool: Pool) -> list[int]:
        kind = pool.node_type
        typed = [kind.gpu_count(name) for name in self.gpu_types]
        return [ALL_SLOTS, kind.cores, kind.memory_mib, kind.gpu_count(), *typed]

    def options(self, request: Request, chunk: Chunk, rooms: Sequence[int]) -> Iterator[_Option]:
        """Yield the pools that the chunk can use; an empty node of each holds `rooms` parts of it."""
        for number, room in enumerate(rooms):
            pool = self.cluster.pools[number]
            kind = pool.node_type
            parts = 1 if request.apart else room
            is_whole = self.cluster.takes_whole_nodes(request, pool)
            surplus = (
                kind.gpu_count() - chunk.gpus,
                max(0, kind.memory_mib - chunk.memory_mib),
                max(0, kind.cores - chunk.cores),
            )
            if room and not self.is_shared[number]:
                need = [1] + [0] * (GPUS + len(self.gpu_types))
                yield _Option(surplus, number, room=parts, most=pool.nodes, need=need, unit_nodes=1.0, is_ranked=False)
            elif room and is_whole:
                need = self.capacity[number]
                yield _Option(surplus, number, room=parts, most=1, need=need, unit_nodes=1.0, is_ranked=False)
            elif room:
                most = 1 if request.apart else max(2, room)
                need, share = self._part(pool, chunk), kind.share(chunk)
                yield _Option(surplus, number, room=1, most=most, need=need, unit_nodes=share, is_ranked=True)

    def _part(self, pool: Pool, chunk: Chunk) -> list[int]:
        kind = pool.node_type
        typed = [chunk.gpus if name == chunk.gpu_type and kind.gpu_count(name) else 0 for name in self.gpu_types]
        return [1, chunk.cores if kind.cores else 0, chunk.memory_mib if kind.memory_mib else 0, chunk.gpus, *typed]


def _groups(classes: int, option_class: Int64, option_pool: Int64) -> Int64:
    """Return the competition group of each class, numbered from 0."""
    candidates = {number: option_pool[option_class == number].tolist() for number in range(classes)}
    found = competition_groups(candidates)
    return np.unique([found[number] for number in range(classes)], return_inverse=True)[1].astype(np.int64)


def _windows(cluster: Cluster, classes: Sequence[Request], class_group: Int64) -> tuple[Int64, Int64]:
    """Return the number of each class's window in its group, and the number of windows of each group."""
    windows: dict[int, dict[tuple[tuple[int, ...], str], int]] = defaultdict(dict)
    found = []
    for group, request in zip(class_group.tolist(), classes, strict=True):
        own = windows[group]
        found.append(own.setdefault((cluster.tiers(request), request.reservation), len(own)))
    groups = int(class_group.max(initial=-1)) + 1
    return np.array(found, dtype=np.int64), np.array([len(windows[group]) for group in range(groups)], dtype=np.int64)


def _first(lengths: Int64) -> Int64:
    """Return where ranges of these lengths begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _workload(
    cluster: Cluster, classes: Sequence[Request], tables: Tables, jobs: MixedJobs, kept: Int64, job_class: Int64
) -> MixedWorkload:
    nodes, size = _weights(tables)
    preemption = _preemption(cluster, classes)
    names: dict[tuple[str, ...], int] = {}
    partition = np.array([names.setdefault(request.partitions, len(names)) for request in classes], dtype=np.int64)
    priority = _column(jobs.priority, kept, 0)
    rank = np.empty(len(kept), dtype=np.int64)
    rank[np.lexsort((np.arange(len(kept)), -priority, -preemption.terms[job_class, TIER]))] = np.arange(len(kept))
    part_w = jobs.part_power_w[kept]
    array = _column(jobs.array, kept, NONE)
    record = _records(array, job_class)
    return MixedWorkload(
        submit_s=jobs.submit_s[kept],
        runtime_s=jobs.runtime_s[kept],
        estimate_s=jobs.estimate_s[kept],
        request_class=job_class,
        rank=rank,
        partition=partition[job_class],
        closes=_closes(cluster, tuple(names)),
        size=size[job_class],
        node_power_w=(_parts(classes) / nodes)[job_class] * part_w,
        limits=limits_for(
            cluster,
            classes,
            job_class,
            _column(jobs.user, kept, NONE),
            array,
            _column(jobs.throttle, kept, 0),
        ),
        record=record,
        tasks=np.bincount(record, minlength=len(kept)),
        preemption=preemption,
    )


def _column(values: Int64 | None, kept: Int64, default: int) -> Int64:
    return np.full(len(kept), default, dtype=np.int64) if values is None else values[kept]


def _records(array: Int64, job_class: Int64) -> Int64:
    """Return the first task of each job's array that has the same class; the job itself if it is in no array."""
    found = np.arange(len(array))
    tasks = np.flatnonzero(array >= 0)
    pairs = np.stack((array[tasks], job_class[tasks]))
    _, first, number = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    found[tasks] = tasks[first][number.ravel()]
    return found


def _closes(cluster: Cluster, numbered: Sequence[tuple[str, ...]]) -> Int64:
    """Return for each two sets of partitions whether all nodes of the second are nodes of the first."""
    pools = [
        {number for number, pool in enumerate(cluster.pools) if not names or pool.partitions & frozenset(names)}
        for names in numbered
    ]
    return np.array([[other <= own for other in pools] for own in pools], dtype=np.int64).reshape(
        len(pools), len(pools)
    )


def _weights(tables: Tables) -> tuple[Float64, Int64]:
    """Return by class the node equivalents of a job in the pools that its chunks fill first, and its window units."""
    option = tables.option_first[:-1]
    units = -(-tables.copies // tables.room[option])
    nodes = units * tables.unit_nodes[option]
    cell = tables.cell_first[tables.option_pool[option]]
    is_counted = tables.window_column[cell] == SLOTS
    cores = np.ceil(nodes * tables.capacity[CORES, cell]).astype(np.int64)
    size = np.where(is_counted, units * tables.window_weight[cell], cores)
    by_class = tables.chunk_first[:-1]
    nodes, size = np.add.reduceat(np.append(nodes, 0), by_class), np.add.reduceat(np.append(size, 0), by_class)
    return np.where(nodes > 0, nodes, 1.0), np.maximum(size, 1)


def _parts(classes: Sequence[Request]) -> Float64:
    """Return the number of parts of a job of each class."""
    return np.array([sum(chunk.copies for chunk in request.chunks) for request in classes], dtype=np.float64)


def _preemption(cluster: Cluster, classes: Sequence[Request]) -> Preemption:
    """Return which jobs may stop which.

    Raises BadInput if jobs could stop each other for ever.
    """
    first_of: dict[tuple[tuple[str, ...], str], Request] = {}
    for request in classes:
        first_of.setdefault((request.partitions, request.qos), request)
    kinds = {key: number for number, key in enumerate(first_of)}
    stops = np.array(
        [[_STOPS[cluster.preemption(by, of)] for of in first_of.values()] for by in first_of.values()], dtype=np.int64
    ).reshape(len(kinds), len(kinds))
    reached = stops > 0
    while (further := reached | (reached @ reached)).sum() > reached.sum():
        reached = further
    if reached.diagonal().any():
        in_circle = zip(first_of.values(), reached.diagonal().tolist(), strict=True)
        names = sorted({of.qos for of, stops_itself in in_circle if stops_itself})
        raise BadInput(f"jobs of the QOS {', '.join(names)} may stop each other", hint="take one out of `preempts_qos`")
    terms = np.zeros((len(classes), 3), dtype=np.int64)
    terms[:, TIER] = [cluster.tier_of(request) for request in classes]
    terms[:, KIND] = [kinds[request.partitions, request.qos] for request in classes]
    terms[:, CAN_STOP] = (stops.sum(axis=1) > 0)[terms[:, KIND]]
    return Preemption(terms, stops)
