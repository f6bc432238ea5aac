"""The jobs of a log on a cluster of several pools: their requests, and which of them fit.

What the log does not tell is derived from the size of the job, names that the cluster does not have are taken out of
the requests, and jobs that fit nowhere are named. Nothing is lost without a line: each assumption becomes a note with
the number of its jobs.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadInput, BadTrace
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import UNKNOWN, Cluster, NodeType
from offpeak.model.jobs import Jobs, RejectedJobs, Trace
from offpeak.model.priority import PriorityOrder
from offpeak.model.request import Chunk, Request
from offpeak.text import counted
from sim_backend.case.machine_size import AllocationUnits
from sim_backend.case.site_priorities import SitePriorities, order_note, order_of, ordered, site_priorities
from sim_backend.mixed.case import MixedCase, MixedJobs, mixed_case
from sim_backend.traces.filters import reasons_text
from sim_backend.traces.requests import request_classes

SHOWN_NAMES = 5


Unknown = tuple[str, str]
"""A kind of name that the cluster does not have, and the name."""

KnownRequest = tuple[Request, list[Unknown]]
"""A request without the names that the cluster does not have, and these."""


@dataclass(frozen=True)
class ClusterJobs:
    """Jobs each of which fits the cluster and has a class in `requests`; the others, and what was assumed.

    The jobs have priorities only if recorded ones order them; `priorities` are those of Slurm's formula if it does.
    """

    jobs: Jobs
    requests: tuple[Request, ...]
    rejected: tuple[RejectedJobs, ...]
    notes: tuple[str, ...]
    priorities: SitePriorities | None = None


def site_units(trace: Trace, cluster: Cluster) -> AllocationUnits:
    """Return a log's jobs in nodes where these have theirs alone, else in processors, and the cluster's size in them.

    BadInput if the log counts processors and the cluster does not say how many a node has.
    """
    cores = sum(pool.nodes * pool.node_type.cores for pool in cluster.pools)
    per_node = max(1, round(cores / cluster.nodes))
    if trace.units_per_node == 1:
        return AllocationUnits(trace.jobs, cluster.nodes, 1, per_node)
    if any(pool.node_type.cores == UNKNOWN for pool in cluster.pools):
        raise BadInput(
            f"{trace.name} counts processors, and the cluster has nodes with an unknown number of cores",
            hint="write cores = N for each node type of the cluster",
        )
    return AllocationUnits(trace.jobs, cores, per_node, per_node, machine_nodes=cluster.nodes)


def site_jobs(trace: Trace, cluster: Cluster) -> ClusterJobs:
    """Return the jobs of a log with their requests to the cluster; BadTrace if none of them fits.

    Partitions, QOS, licences, reservations, nodes and generic resources that the cluster does not have are taken out
    of the requests.
    """
    whole_nodes = trace.units_per_node == 1
    request, requests, derived = _completed(trace, whole_nodes=whole_nodes)
    known = [_without_unknown(each, cluster) for each in requests]
    jobs_of = np.bincount(request, minlength=len(requests)).tolist()
    pool = _logged_pools(trace, cluster)
    remedies = _REMEDIES if pool is None else _REMEDIES | {"partition": _BY_NODE}
    unknown_notes = _unknown_notes(known, jobs_of, remedies)
    if pool is not None:
        request, known = _by_node(request, known, pool, cluster)
    numbers: dict[Request, int] = {}
    of_class = np.array([numbers.setdefault(each, len(numbers)) for each, _ in known], np.int64)
    order = order_of(trace.jobs, cluster)
    priority, order_notes = ordered(trace.jobs, order)
    jobs = replace(trace.jobs, request=of_class[request], priority=priority)
    fitting = mixed_case_of(jobs, np.zeros(len(jobs)), cluster, tuple(numbers))
    rejected = (*trace.rejected, *fitting.rejected)
    if not len(fitting.kept):
        raise BadTrace(f"{trace.name}: no job fits the cluster: {reasons_text(rejected)}", hint="check its node types")
    is_mixed = len(cluster.pools) > 1 or not whole_nodes or order is not PriorityOrder.SUBMISSION
    kept = jobs.take(fitting.kept)
    priorities = None
    if order is PriorityOrder.MULTIFACTOR:
        priorities, order_notes = site_priorities(kept, trace.names, cluster)
    notes = (
        *((cluster_note(cluster), *_derived_note(derived, whole_nodes=whole_nodes)) if is_mixed else ()),
        *unknown_notes,
        *_lost_node_notes(trace, pool),
        *((order_note(order, cluster), *order_notes) if is_mixed or _has_more_factors(cluster) else ()),
        *(_array_notes(jobs) if is_mixed else ()),
    )
    return ClusterJobs(kept, tuple(numbers), rejected, notes, priorities)


def mixed_case_of(jobs: Jobs, node_power_w: Float64, cluster: Cluster, requests: tuple[Request, ...]) -> MixedCase:
    """Return the jobs, each with a class of request, as the engine for several pools takes them.

    `node_power_w` is their draw per allocation unit [W]. BadInput if the jobs have no classes of requests.
    """
    if jobs.request is None:
        raise BadInput(
            "the jobs have no requests, and the cluster has pools of nodes",
            hint="pass the cluster to `prepare`, which derives the requests, or leave out the cluster",
        )
    parts = np.array([sum(chunk.copies for chunk in request.chunks) for request in requests], np.int64)
    mixed = MixedJobs(
        job_id=jobs.job_id,
        submit_s=jobs.submit_s,
        runtime_s=jobs.runtime_s,
        estimate_s=jobs.estimate_s,
        request=jobs.request,
        part_power_w=node_power_w * jobs.size / np.maximum(parts[jobs.request], 1),
        priority=jobs.priority,
        array=jobs.array,
        user=jobs.user,
    )
    return mixed_case(_without_preemption(cluster), requests, mixed)


def _without_preemption(cluster: Cluster) -> Cluster:
    """Return the cluster on which no job stops another: comparisons charge one run of each job."""
    return replace(
        cluster,
        partitions={name: each._replace(preempts=False) for name, each in cluster.partitions.items()},
        qos={name: each._replace(preempts=frozenset()) for name, each in cluster.qos.items()},
    )


def cluster_note(cluster: Cluster) -> str:
    """Describe the pools of a cluster, those of equal equipment together."""
    nodes: Counter[NodeType] = Counter()
    for pool in cluster.pools:
        nodes[pool.node_type._replace(features=frozenset(), power_class="", enclosure="")] += pool.nodes
    members = (f"{counted(count, 'node')} of {equipment_text(kind)}" for kind, count in nodes.items())
    return f"cluster: {'; '.join(members)}"


def equipment_text(kind: NodeType) -> str:
    """Describe the equipment of a node: cores, memory and GPUs."""
    terms = [counted(kind.cores, "core") if kind.cores else "unknown equipment"]
    if kind.memory_mib:
        terms.append(f"{kind.memory_mib / 1024:,.0f} GiB")
    terms += [
        " ".join(filter(None, (f"{count:,}", name, "GPU" if count == 1 else "GPUs"))) for name, count in kind.gpus
    ]
    return ", ".join(terms)


def _completed(trace: Trace, *, whole_nodes: bool) -> tuple[Int64, tuple[Request, ...], int]:
    """Return the class of each job, the requests, and how many of them were derived from the size of the job."""
    jobs = trace.jobs
    logged = np.full(len(jobs), -1) if jobs.request is None else jobs.request
    partition, names = trace.names.partitions(jobs)

    def derived(row: tuple[int, ...]) -> Request:
        size, number = row
        partitions = (names[number],) if number >= 0 else ()
        return Request(partitions, (Chunk(size),), apart=whole_nodes, whole_nodes=whole_nodes)

    unknown = np.flatnonzero(logged < 0)
    more, requests = request_classes((jobs.size[unknown], partition[unknown]), derived)
    request = logged.copy()
    request[unknown] = len(trace.requests) + more
    return request, (*trace.requests, *requests), len(unknown)


NO_POOL = -1
LOST = -2
"""The pool of a node that the cluster does not have."""


def _logged_pools(trace: Trace, cluster: Cluster) -> Int64 | None:
    """Return the pool on which each job ran, by its first node: NO_POOL if that is not logged, or LOST.

    None if the log or the cluster names no nodes.
    """
    jobs, names = trace.jobs, trace.names.node
    if jobs.node is None or not names or not all(pool.names for pool in cluster.pools):
        return None
    of_name = {name: number for number, pool in enumerate(cluster.pools) for name in pool.names}
    of_code = np.array([*(of_name.get(name, LOST) for name in names), NO_POOL], np.int64)
    return of_code[jobs.node]


def _by_node(
    request: Int64, known: list[KnownRequest], pool: Int64, cluster: Cluster
) -> tuple[Int64, list[KnownRequest]]:
    """Return the requests of jobs whose partitions are unknown in the partitions of the nodes on which they ran."""
    is_lost = [not each.partitions and any(kind == "partition" for kind, _ in unknown) for each, unknown in known]
    some = np.flatnonzero(np.array(is_lost, bool)[request] & (pool >= 0))
    if not len(some):
        return request, known
    pools = len(cluster.pools)
    keys, number = np.unique(request[some] * pools + pool[some], return_inverse=True)
    more: list[KnownRequest] = [
        (known[key // pools][0]._replace(partitions=tuple(sorted(cluster.pools[key % pools].partitions))), [])
        for key in keys.tolist()
    ]
    request = request.copy()
    request[some] = len(known) + number
    return request, [*known, *more]


def _lost_node_notes(trace: Trace, pool: Int64 | None) -> tuple[str, ...]:
    """Return a line on the jobs that ran on nodes that the cluster does not have."""
    if pool is None or trace.jobs.node is None or not (count := int(np.count_nonzero(pool == LOST))):
        return ()
    names = sorted(trace.names.node[code] for code in np.unique(trace.jobs.node[pool == LOST]).tolist())
    return (f"the cluster has no nodes {_shown(names)}: {counted(count, 'job')} ran there and may run on others",)


def _shown(names: list[str]) -> str:
    return ", ".join(names[:SHOWN_NAMES]) + (", ..." if len(names) > SHOWN_NAMES else "")


def _without_unknown(request: Request, cluster: Cluster) -> KnownRequest:
    """Return the request without names that the cluster does not have, and these."""
    unknown: list[Unknown] = []
    if cluster.partitions:
        unknown += [("partition", name) for name in request.partitions if name not in cluster.partitions]
        request = request._replace(partitions=tuple(name for name in request.partitions if name in cluster.partitions))
    else:
        request = request._replace(partitions=())
    if request.qos and cluster.qos and request.qos not in cluster.qos:
        unknown.append(("QOS", request.qos))
        request = request._replace(qos="")
    if request.reservation and request.reservation not in cluster.reservations:
        unknown.append(("reservation", request.reservation))
        request = request._replace(reservation="")
    unknown += [("licence", name) for name, _ in request.licences if name not in cluster.licences]
    request = request._replace(licences=tuple(each for each in request.licences if each[0] in cluster.licences))
    nodes = frozenset[str]().union(*(pool.names for pool in cluster.pools))
    if nodes and (absent := (request.hosts | {chunk.host for chunk in request.chunks if chunk.host}) - nodes):
        unknown += [("node", name) for name in sorted(absent)]
        chunks = tuple(chunk._replace(host="") if chunk.host in absent else chunk for chunk in request.chunks)
        request = request._replace(hosts=request.hosts & nodes, chunks=chunks)
    features = frozenset[str]().union(*(pool.node_type.features for pool in cluster.pools))
    if absent := _generic_resources(request) - features:
        unknown += [("generic resource", name) for name in sorted(absent)]
        chunks = tuple(
            chunk._replace(features=tuple(left for each in chunk.features if (left := each - absent)))
            for chunk in request.chunks
        )
        request = request._replace(chunks=chunks)
    return request, unknown


def _generic_resources(request: Request) -> frozenset[str]:
    needed = frozenset[str]().union(*(each for chunk in request.chunks for each in chunk.features))
    return frozenset(name for name in needed if name.startswith("gres/"))


_REMEDIES: dict[str, str] = {
    "partition": "may run on all of its nodes",
    "QOS": "count without it",
    "licence": "count without it",
    "reservation": "count without it",
    "generic resource": "count without it",
    "node": "may run on other nodes",
}


_BY_NODE = "count in the partitions of the nodes on which they ran"


def _unknown_notes(known: list[KnownRequest], jobs_of: list[int], remedies: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each partition, QOS, ... that the cluster does not have, one for all nodes."""
    jobs: Counter[Unknown] = Counter()
    for (_, unknown), count in zip(known, jobs_of, strict=True):
        for each in unknown:
            jobs[each] += count
    lines = [
        f"the cluster has no {kind} {name}: {counted(count, 'job')} of it {remedies[kind]}"
        for (kind, name), count in sorted(jobs.items())
        if kind != "node" and count
    ]
    nodes = sorted(name for kind, name in jobs if kind == "node")
    if nodes:
        count = sum(
            count
            for (_, unknown), count in zip(known, jobs_of, strict=True)
            if any(kind == "node" for kind, _ in unknown)
        )
        lines.append(f"the cluster has no nodes {_shown(nodes)}: {counted(count, 'job')} for them {remedies['node']}")
    return tuple(lines)


def _derived_note(count: int, *, whole_nodes: bool) -> tuple[str, ...]:
    if not count:
        return ()
    size = "whole nodes" if whole_nodes else "processors on any nodes"
    return (f"{counted(count, 'job')} without a logged request: taken for {size}, with any memory and no GPUs",)


def _has_more_factors(cluster: Cluster) -> bool:
    return cluster.priority is not None and bool(cluster.priority.not_modelled)


def _array_notes(jobs: Jobs) -> tuple[str, ...]:
    arrays = "tasks of an array may all run at once: the limit of tasks is not logged"
    return (arrays,) if jobs.array is not None and (jobs.array >= 0).any() else ()
