"""The classes of equal requests of jobs to a cluster: which jobs are admitted, and the tables that kernels read.

The tables have the pools that each part of a request can use, in their order, and its needs. A log may have as many
distinct requests as jobs, each with an option in each pool, so options are narrow columns.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.display import duration_text
from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster, Partition, Pool, competition_groups
from offpeak.model.jobs import RejectedJobs
from offpeak.model.limits import Limit, PreemptMode
from offpeak.model.request import Chunk, Request
from offpeak.sim_backend.engine import state
from offpeak.sim_backend.engine.cells import fits_empty
from offpeak.text import counted

NARROW_MOST = np.iinfo(np.int32).max


_STOPS = {PreemptMode.REQUEUE: state.REQUEUED, PreemptMode.CANCEL: state.CANCELLED}
"""How jobs are stopped. Jobs that are suspended in the scheduler go on in a replay."""

_MOST_16_BITS = 0xFFFF


@dataclass(frozen=True)
class RequestClasses:
    """The distinct requests of jobs to a cluster, one case of which may be made after another.

    `requests` and the other columns are by class. Whether a partition admits a job depends on the job's estimate:
    `keys`, sorted, are the pairs of request and time limit that were looked at, `class_of_key` their classes, REFUSED
    where there is none, with the reason in `refusals`.
    """

    cluster: Cluster
    requests: tuple[Request, ...]
    tables: state.Tables
    limits_s: Int64
    keys: Int64
    class_of_key: Int64
    refusals: tuple[str, ...]
    limits_of: tuple[tuple[tuple[Limit, int], ...], ...]
    partition: Int64
    closes: Int64
    preemption: state.Preemption
    parts: Float64

    def assign(self, request: Int64, estimate_s: Int64, job_id: Int64) -> tuple[Int64, tuple[RejectedJobs, ...]]:
        """Return the class of each job by its request and its estimate, REFUSED for none, and the refused jobs.

        Raises ValueError if the classes were made for other jobs.
        """
        keys = _keys(request, estimate_s, self.limits_s)
        position = np.searchsorted(self.keys, keys)
        if len(keys) and (position.max() == len(self.keys) or (self.keys[position] != keys).any()):
            raise ValueError("jobs with a request or an estimate for which no class was made")
        job_class = self.class_of_key[position]
        refused = np.flatnonzero(job_class == REFUSED)
        refused = refused[np.argsort(position[refused], kind="stable")]
        ids: dict[str, list[int]] = defaultdict(list)
        for at, job in zip(position[refused].tolist(), job_id[refused].tolist(), strict=True):
            ids[self.refusals[at]].append(job)
        return job_class, tuple(RejectedJobs(reason, tuple(sorted(some))) for reason, some in ids.items())


REFUSED = -1


def request_classes(cluster: Cluster, requests: Sequence[Request], request: Int64, estimate_s: Int64) -> RequestClasses:
    """Return the classes of jobs with these requests, by number, and these estimates."""
    limits_s = np.unique([each.limit_s for each in cluster.partitions.values() if each.limit_s is not None])
    limits_s = limits_s.astype(np.int64)
    keys = np.unique(_keys(request, estimate_s, limits_s))
    numbers: dict[Request, int] = {}
    class_of_key = np.full(len(keys), REFUSED)
    refusals = [""] * len(keys)
    for at, key in enumerate(keys.tolist()):
        number, passed = divmod(key, len(limits_s) + 1)
        admitted, reason = _admitted(cluster, requests[number], limits_s[len(limits_s) - passed :])
        if reason := reason or _misfit(cluster, admitted):
            refusals[at] = reason
        else:
            class_of_key[at] = numbers.setdefault(admitted, len(numbers))
    classes = tuple(numbers)
    names: dict[tuple[str, ...], int] = {}
    partition = np.array([names.setdefault(each.partitions, len(names)) for each in classes], dtype=np.int64)
    return RequestClasses(
        cluster=cluster,
        requests=classes,
        tables=tables_of(cluster, classes),
        limits_s=limits_s,
        keys=keys,
        class_of_key=class_of_key,
        refusals=tuple(refusals),
        limits_of=tuple(cluster.limits_of(each) for each in classes),
        partition=partition,
        closes=_closes(cluster, tuple(names)),
        preemption=_preemption(cluster, classes),
        parts=np.array([sum(chunk.copies for chunk in request.chunks) for request in classes], dtype=np.float64),
    )


def _keys(request: Int64, estimate_s: Int64, limits_s: Int64) -> Int64:
    """Return a number for each pair of a request and the time limits that its estimate keeps within.

    The more limits it keeps within, the larger is the number among those of the request.
    """
    kept_within = len(limits_s) - np.searchsorted(limits_s, estimate_s)
    return (request * (len(limits_s) + 1) + kept_within).astype(np.int64)


def _admitted(cluster: Cluster, request: Request, kept_within_s: Int64) -> tuple[Request, str]:
    """Return the request for the partitions that admit it, and why none does, if so.

    `kept_within_s` are the time limits that the job keeps within.
    """
    partitions = [cluster.partitions[name] for name in request.partitions if name in cluster.partitions]
    if not partitions or all(each.most_nodes is None and each.limit_s is None for each in partitions):
        return request, ""
    nodes = request.least_nodes
    narrow = [each for each in partitions if each.most_nodes is None or nodes <= each.most_nodes]
    if not narrow:
        return request, f"{_names(partitions)} admits no job of {counted(nodes, 'node')}"
    names = tuple(each.name for each in narrow if each.limit_s is None or each.limit_s in kept_within_s)
    limit_s = max(each.limit_s or 0 for each in narrow)
    reason = "" if names else f"{_names(narrow)} admits no job with a time limit above {duration_text(limit_s)}"
    return request._replace(partitions=names), reason


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


def _closes(cluster: Cluster, numbered: Sequence[tuple[str, ...]]) -> Int64:
    """Return for each two sets of partitions whether all nodes of the second are nodes of the first."""
    pools = [
        {number for number, pool in enumerate(cluster.pools) if not names or pool.partitions & frozenset(names)}
        for names in numbered
    ]
    return np.array([[other <= own for other in pools] for own in pools], dtype=np.int64).reshape(
        len(pools), len(pools)
    )


def _preemption(cluster: Cluster, classes: Sequence[Request]) -> state.Preemption:
    """Return which jobs may stop which.

    Raises BadInput if jobs could stop each other for ever.
    """
    if names := cluster.qos_in_circles:
        raise BadInput(f"jobs of the QOS {', '.join(names)} may stop each other", hint="let one of them preempt none")
    first_of: dict[tuple[tuple[str, ...], str], Request] = {}
    for request in classes:
        first_of.setdefault((request.partitions, request.qos), request)
    kinds = {key: number for number, key in enumerate(first_of)}
    stops = np.array(
        [[_STOPS.get(cluster.preempt_mode(by, of), 0) for of in first_of.values()] for by in first_of.values()],
        dtype=np.int64,
    ).reshape(len(kinds), len(kinds))
    precedence = [cluster.precedence(request) for request in first_of.values()]
    ranks = {each: rank for rank, each in enumerate(sorted(set(precedence)))}
    terms = np.zeros((len(classes), 5), dtype=np.int64)
    terms[:, state.KIND] = [kinds[request.partitions, request.qos] for request in classes]
    terms[:, state.PRECEDENCE] = np.array([ranks[each] for each in precedence], dtype=np.int64)[terms[:, state.KIND]]
    terms[:, state.CAN_STOP] = (stops.sum(axis=1) > 0)[terms[:, state.KIND]]
    if not cluster.preemption.youngest_first:
        terms[:, state.STOP_ORDER] = [_stop_order(cluster, request) for request in classes]
    terms[:, state.EXEMPT_S] = [cluster.exempt_s(request) for request in classes]
    return state.Preemption(terms, stops, cluster.preemption.youngest_first)


def _stop_order(cluster: Cluster, request: Request) -> int:
    """Return the number by which slurmctld sorts the jobs that may be stopped: see _gen_job_prio in its plugins."""
    value = cluster.tier_of(request)
    if cluster.qos_preempt:
        value = cluster.qos[request.qos].priority if request.qos in cluster.qos else 0
    return (min(value, _MOST_16_BITS) << 16) + min(request.least_nodes, _MOST_16_BITS)


class _Option(NamedTuple):
    """A pool that a chunk can use, as `Tables` has it; `surplus` is what one part leaves of a node of the pool."""

    surplus: tuple[int, int, int]
    pool: int
    room: int
    most: int
    need: Sequence[int]
    unit_nodes: float
    is_ranked: bool


class _OptionColumns:
    """The options of all chunks, as columns."""

    def __init__(self, kind: str) -> None:
        self.of_chunk, self.of_class = array("q"), array(kind)
        self.pool, self.room, self.most, self.need = array(kind), array(kind), array(kind), array(kind)
        self.unit_nodes, self.is_ranked = array("d"), array("b")

    def add(self, request_class: int, options: Sequence[_Option]) -> None:
        """Add the options of the next chunk."""
        self.of_chunk.append(len(options))
        for option in options:
            self.of_class.append(request_class)
            self.pool.append(option.pool)
            self.room.append(option.room)
            self.most.append(option.most)
            self.need.extend(option.need)
            self.unit_nodes.append(option.unit_nodes)
            self.is_ranked.append(option.is_ranked)


def tables_of(cluster: Cluster, classes: Sequence[Request]) -> state.Tables:
    """Return the tables of a cluster and of the distinct requests to it, each of which fits it."""
    pools = _UsablePools(cluster)
    is_shared = _shared_pools(pools, classes)
    equipment = _Equipment(pools, is_shared)
    options = _OptionColumns("i" if equipment.is_narrow(classes) else "q")
    for number, request in enumerate(classes):
        for chunk in request.chunks:
            options.add(number, sorted(equipment.options(request, chunk)))
    option_class, option_pool = np.array(options.of_class), np.array(options.pool)
    chunk_first = _first(np.array([len(request.chunks) for request in classes], dtype=np.int64))
    option_first = _first(np.array(options.of_chunk, dtype=np.int64))
    class_group = _groups(option_pool[option_first[chunk_first[:-1]]], option_class, option_pool, len(cluster.pools))
    class_window, group_windows = _windows(cluster, classes, class_group)
    groups = int(class_group.max(initial=-1)) + 1
    cells = np.array([pool.nodes if own else 1 for pool, own in zip(cluster.pools, is_shared, strict=True)])
    cell_pool = np.repeat(np.arange(len(cells)), cells)
    pool_group = np.full(len(cells), -1)
    pool_group[option_pool] = class_group[option_class]
    shared_groups = {int(group) for group, own in zip(pool_group, is_shared, strict=True) if own}
    node_cores = np.array([max(1, pool.node_type.cores) for pool in cluster.pools])
    pool_weight = np.where(np.isin(pool_group, list(shared_groups)) & ~np.array(is_shared), node_cores, 1)
    is_ranked = np.array(options.is_ranked)
    ranking = np.full(len(classes), state.COUNTS, dtype=np.int64)
    ranking[option_class[is_ranked != 0]] = state.RANKS
    ranking[(ranking == state.RANKS) & (np.diff(chunk_first) > 1)] = state.RANKS_SEVERAL
    by_group = np.argsort(pool_group[cell_pool], kind="stable")
    return state.Tables(
        cell_first=_first(cells),
        cell_pool=cell_pool,
        capacity=np.ascontiguousarray(np.array(equipment.capacity, dtype=np.int64).T[:, cell_pool]),
        window_column=np.where(is_shared, state.CORES, state.SLOTS)[cell_pool],
        window_weight=np.where(pool_group >= 0, pool_weight, 0)[cell_pool],
        chunk_first=chunk_first,
        class_group=class_group,
        class_window=class_window,
        group_windows=group_windows,
        ranking=ranking,
        copies=np.array([chunk.copies for request in classes for chunk in request.chunks], dtype=np.int64),
        option_first=option_first,
        option_pool=option_pool,
        option_class=option_class,
        room=np.array(options.room),
        most=np.array(options.most),
        need=np.array(options.need).reshape(len(option_pool), len(equipment.capacity[0])),
        unit_nodes=np.array(options.unit_nodes),
        is_ranked=is_ranked,
        use_first=_first(np.bincount(option_pool, minlength=len(cells))),
        use_option=np.argsort(option_pool, kind="stable").astype(option_pool.dtype),
        group_class_first=_first(np.bincount(class_group, minlength=groups)),
        group_class=np.argsort(class_group, kind="stable"),
        group_cell_first=_first(np.bincount(pool_group[cell_pool][pool_group[cell_pool] >= 0], minlength=groups)),
        group_cell=by_group[np.count_nonzero(pool_group[cell_pool] < 0) :],
    )


class _UsablePools:
    """The pools of requests, and in which of them these get whole nodes, found once for equal partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._whole: dict[tuple[tuple[str, ...], bool], frozenset[int]] = {}

    def whole(self, request: Request) -> frozenset[int]:
        """Return the pools in which the request gets whole nodes."""
        key = request.partitions, request.whole_nodes
        if key not in self._whole:
            pools = enumerate(self.cluster.pools)
            self._whole[key] = frozenset(
                number for number, pool in pools if self.cluster.takes_whole_nodes(request, pool)
            )
        return self._whole[key]


def _shared_pools(pools: _UsablePools, classes: Sequence[Request]) -> list[bool]:
    """Return for each pool whether a request may share its nodes."""
    cluster = pools.cluster
    found = [False] * len(cluster.pools)
    for request in classes:
        whole = pools.whole(request)
        for number in cluster.usable_pools(request):
            if not found[number] and number not in whole:
                found[number] = any(cluster.pools[number].holds(chunk) for chunk in request.chunks)
    return found


class _Equipment:
    """The columns of resources: `capacity` has those of a cell of each pool."""

    def __init__(self, pools: _UsablePools, is_shared: Sequence[bool]) -> None:
        self.pools, self.cluster, self.is_shared = pools, pools.cluster, is_shared
        mixed = (pool.node_type.gpus for pool in self.cluster.pools if len(pool.node_type.gpus) > 1)
        self.gpu_types = sorted({name for gpus in mixed for name, _ in gpus})
        self.capacity = [
            self._of_node(pool) if own else [pool.nodes] + [0] * (state.GPUS + len(self.gpu_types))
            for pool, own in zip(self.cluster.pools, is_shared, strict=True)
        ]
        self._counted_node = (1, *[0] * (state.GPUS + len(self.gpu_types)))

    def is_narrow(self, classes: Sequence[Request]) -> bool:
        """Tell whether the numbers of all options fit into 32 bits."""
        of_nodes = (max(pool.nodes, *pool.node_type[:2], pool.node_type.gpu_count()) for pool in self.cluster.pools)
        copies = (chunk.copies for request in classes for chunk in request.chunks)
        return max(state.ALL_SLOTS, len(classes), *of_nodes, max(copies, default=0)) <= NARROW_MOST

    def _of_node(self, pool: Pool) -> list[int]:
        kind = pool.node_type
        typed = [kind.gpu_count(name) for name in self.gpu_types]
        return [state.ALL_SLOTS, kind.cores, kind.memory_mib, kind.gpu_count(), *typed]

    def options(self, request: Request, chunk: Chunk) -> Iterator[_Option]:
        """Yield the pools that the chunk can use."""
        whole = self.pools.whole(request)
        for number in self.cluster.usable_pools(request):
            pool = self.cluster.pools[number]
            room = pool.holds(chunk)
            if not room:
                continue
            kind = pool.node_type
            parts = 1 if request.apart else room
            surplus = kind.surplus(chunk)
            if not self.is_shared[number]:
                yield _Option(surplus, number, parts, pool.nodes, self._counted_node, 1.0, is_ranked=False)
            elif number in whole:
                yield _Option(surplus, number, parts, 1, self.capacity[number], 1.0, is_ranked=False)
            else:
                most = 1 if request.apart else max(2, room)
                yield _Option(surplus, number, 1, most, self._part(pool, chunk), kind.share(chunk), is_ranked=True)

    def _part(self, pool: Pool, chunk: Chunk) -> list[int]:
        kind = pool.node_type
        typed = [chunk.gpus if name == chunk.gpu_type and kind.gpu_count(name) else 0 for name in self.gpu_types]
        return [1, chunk.cores if kind.cores else 0, chunk.memory_mib if kind.memory_mib else 0, chunk.gpus, *typed]


def _groups(first_pool: Int64, option_class: Int64, option_pool: Int64, pools: int) -> Int64:
    """Return the competition group of each class, numbered from 0; `first_pool` is the pool of its first option."""
    pairs = np.unique(first_pool[option_class].astype(np.int64) * pools + option_pool).tolist()
    found = competition_groups({pair: divmod(pair, pools) for pair in pairs})
    of_pool = np.zeros(pools, dtype=np.int64)
    of_pool[[pair // pools for pair in pairs]] = [found[pair] for pair in pairs]
    return np.unique(of_pool[first_pool], return_inverse=True)[1].astype(np.int64)


def _windows(cluster: Cluster, classes: Sequence[Request], class_group: Int64) -> tuple[Int64, Int64]:
    """Return the number of each class's window in its group, and the number of windows of each group."""
    windows: dict[int, dict[tuple[tuple[int, int], tuple[int, ...], str], int]] = defaultdict(dict)
    found = []
    for group, request in zip(class_group.tolist(), classes, strict=True):
        own, precedence = windows[group], cluster.precedence(request)
        found.append(own.setdefault((precedence, cluster.tiers(request), request.reservation), len(own)))
    groups = int(class_group.max(initial=-1)) + 1
    return np.array(found, dtype=np.int64), np.array([len(windows[group]) for group in range(groups)], dtype=np.int64)


def _first(lengths: Int64) -> Int64:
    """Return where ranges of these lengths begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
