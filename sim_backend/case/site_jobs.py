"""The jobs of a log on a cluster of several pools: their requests, and which of them fit.

What the log does not tell is derived from the size of the job, names that the cluster does not have are taken out of
the requests, and jobs that fit nowhere are named. Nothing is lost without a line: each assumption becomes a note with
the number of its jobs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadInput, BadTrace
from offpeak.machines.node_sets import fold_names
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import UNKNOWN, Cluster, NodeType
from offpeak.model.jobs import Jobs, RejectedJobs, Trace
from offpeak.model.limits import PriorityOrder
from offpeak.model.request import Chunk, Request
from offpeak.sim_backend.case.machine_size import AllocationUnits
from offpeak.sim_backend.case.site_priorities import SitePriorities, order_note, order_of, ordered, site_priorities
from offpeak.sim_backend.engine.case import EngineCase, RequestedJobs, case_of_classes, engine_case
from offpeak.sim_backend.engine.classes import REFUSED, RequestClasses, request_classes
from offpeak.sim_backend.traces.filters import reasons_text
from offpeak.sim_backend.traces.records import request_classes as classes_of_rows
from offpeak.text import counted, natural_key

ARRAY_NOTE = "tasks of an array may all run at once: the limit of tasks is not logged"
MOST_TYPES_NAMED = 6
SHOWN_NAMES = 5
LONGEST_FOLDED = 80
"""The longest text of folded names, such as p[1-200], that is shown whole."""


NO_POOL = -1
LOST = -2
"""The pool of a node that the cluster does not have."""

_REMEDIES: dict[str, str] = {
    "partition": "may run on all of its nodes",
    "QOS": "count without it",
    "licence": "count without it",
    "reservation": "count without it",
    "generic resource": "count without it",
    "node": "may run on other nodes",
}
_BY_NODE = "count in the partitions of the nodes on which they ran"

Unknown = tuple[str, str]
"""A kind of name that the cluster does not have, and the name."""

KnownRequest = tuple[Request, Sequence[Unknown]]
"""A request without the names that the cluster does not have, and these."""


@dataclass(frozen=True)
class ClusterJobs:
    """Jobs each of which fits the cluster and has one of the `requests`; the others, and what was assumed.

    `classes` are those of the engine for these jobs.

    The jobs have priorities only if recorded ones order them; `priorities` are those of Slurm's formula if it does.
    """

    jobs: Jobs
    requests: tuple[Request, ...]
    classes: RequestClasses
    rejected: tuple[RejectedJobs, ...]
    notes: tuple[str, ...]
    priorities: SitePriorities | None = None


def site_units(trace: Trace, cluster: Cluster) -> AllocationUnits:
    """Return a log's jobs in nodes where these have theirs alone, else in processors, and the cluster's size in them.

    BadInput if the log counts processors and the cluster does not say how many a node has.
    """
    cores = sum(pool.nodes * pool.node_type.cores for pool in cluster.pools)
    per_node = max(1, round(cores / cluster.nodes))
    of_pools = [pool.node_type.cores for pool in cluster.pools]
    units = AllocationUnits(
        jobs=trace.jobs,
        size=cluster.nodes,
        per_node=1,
        node_processors=per_node,
        processors_range=(min(of_pools), max(of_pools)),
    )
    if trace.units_per_node == 1:
        return units
    if UNKNOWN in of_pools:
        raise BadInput(
            f"{trace.name} counts processors, and the cluster has nodes with an unknown number of cores",
            hint="write cores = N for each node type of the cluster",
        )
    return replace(units, size=cores, per_node=per_node, machine_nodes=cluster.nodes)


def site_jobs(trace: Trace, cluster: Cluster) -> ClusterJobs:
    """Return the jobs of a log with their requests to the cluster; BadTrace if none of them fits.

    Partitions, QOS, licences, reservations, nodes and generic resources that the cluster lacks are taken out of them.
    """
    whole_nodes = trace.units_per_node == 1
    request, requests, unlogged = _completed(trace, whole_nodes=whole_nodes)
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
    classes = request_classes(cluster, tuple(numbers), of_class[request], jobs.estimate_s)
    job_class, refused = classes.assign(of_class[request], jobs.estimate_s, jobs.job_id)
    rejected = (*trace.rejected, *refused)
    if (job_class == REFUSED).all():
        raise BadTrace(f"{trace.name}: no job fits the cluster: {reasons_text(rejected)}", hint="check its node types")
    is_mixed = len(cluster.pools) > 1 or not whole_nodes or order is not PriorityOrder.SUBMISSION or cluster.preempts
    has_more_factors = cluster.priority is not None and bool(cluster.priority.not_modelled)
    kept = jobs.take(np.flatnonzero(job_class != REFUSED))
    priorities = None
    if order is PriorityOrder.MULTIFACTOR:
        priorities, order_notes = site_priorities(kept, trace.names, cluster)
    size = "whole nodes" if whole_nodes else "processors on any nodes"
    taken_for = f"taken for {size}, with any memory and no GPUs"
    derived_note = f"{counted(unlogged, 'job')} without a logged request: {taken_for}"
    suspended = list(cluster.suspended)
    noun = "QOS" if cluster.qos_preempt else "partition" if len(suspended) == 1 else "partitions"
    suspension_note = f"jobs of {noun} {_shown(suspended)} run on where the scheduler would suspend them for others"
    notes = (
        *([cluster_note(cluster)] if is_mixed else []),
        *([derived_note] if is_mixed and unlogged else []),
        *unknown_notes,
        *_lost_node_notes(trace, pool),
        *((order_note(order, cluster), *order_notes) if is_mixed or has_more_factors else ()),
        *([ARRAY_NOTE] if is_mixed and jobs.array is not None and (jobs.array >= 0).any() else []),
        *([suspension_note] if suspended else []),
    )
    return ClusterJobs(kept, tuple(numbers), classes, rejected, notes, priorities)


def engine_case_of(
    jobs: Jobs,
    node_power_w: Float64,
    cluster: Cluster,
    requests: tuple[Request, ...],
    classes: RequestClasses | None = None,
    *,
    without_limit: Int64 | None = None,
) -> EngineCase:
    """Return the jobs, each with the number of its request, as the engine takes them.

    `node_power_w` is their draw per allocation unit [W]. `classes` are those that `site_jobs` has made for the jobs,
    if it has, and `without_limit` the ids of jobs without a time limit. BadInput if the jobs have no requests.
    """
    if jobs.request is None:
        raise BadInput(
            "the jobs have no requests, and the cluster has pools of nodes",
            hint="pass the cluster to `prepare`, which derives the requests, or leave out the cluster",
        )
    parts = np.array([sum(chunk.copies for chunk in request.chunks) for request in requests], np.int64)
    requested = RequestedJobs(
        job_id=jobs.job_id,
        submit_s=jobs.submit_s,
        runtime_s=jobs.runtime_s,
        estimate_s=jobs.estimate_s,
        request=jobs.request,
        part_power_w=node_power_w * jobs.size / np.maximum(parts[jobs.request], 1),
        priority=jobs.priority,
        array=jobs.array,
        user=jobs.user,
        application=jobs.application,
    )
    case = engine_case(cluster, requests, requested) if classes is None else case_of_classes(classes, requested)
    if without_limit is None:
        return case
    return replace(case, submitted=case.submitted.without_limit(np.isin(case.job_id, without_limit)))


def round_memory(
    jobs: Jobs, requests: Sequence[Request], cluster: Cluster
) -> tuple[Jobs, tuple[Request, ...], RequestClasses]:
    """Return the jobs with fewer different requests, these and their classes: memory is rounded up to three significant
    bits, or down if no node has so much.
    """

    def rounded(request: Request, *, up: bool) -> Request:
        chunks = []
        for chunk in request.chunks:
            grain = 1 << max(chunk.memory_mib.bit_length() - 3, 0)
            steps = -(-chunk.memory_mib // grain) if up else chunk.memory_mib // grain
            chunks.append(chunk._replace(memory_mib=steps * grain))
        return request._replace(chunks=tuple(chunks))

    assert jobs.request is not None
    used, request = np.unique(jobs.request, return_inverse=True)
    numbers: dict[Request, int] = {}
    number_of = []
    for each in (requests[number] for number in used.tolist()):
        larger = rounded(each, up=True)
        fitting = rounded(each, up=False) if cluster.misfit(larger) else larger
        number_of.append(numbers.setdefault(fitting, len(numbers)))
    number = np.array(number_of)[request]
    classes = request_classes(cluster, tuple(numbers), number, jobs.estimate_s)
    return replace(jobs, request=number), tuple(numbers), classes


def cluster_note(cluster: Cluster) -> str:
    """Describe the pools of a cluster, those of equal equipment together."""
    nodes: Counter[NodeType] = Counter()
    for pool in cluster.pools:
        nodes[pool.node_type._replace(features=frozenset(), power_class="", enclosure="")] += pool.nodes
    named = nodes if len(nodes) <= MOST_TYPES_NAMED else dict(nodes.most_common(MOST_TYPES_NAMED))
    members = [f"{counted(count, 'node')} of {kind.equipment}" for kind, count in named.items()]
    if len(nodes) > len(named):
        others = nodes.total() - sum(named.values())
        members.append(f"{counted(others, 'node')} of {len(nodes) - len(named)} other types")
    return f"cluster: {'; '.join(members)}"


def _completed(trace: Trace, *, whole_nodes: bool) -> tuple[Int64, tuple[Request, ...], int]:
    """Return the class of each job, the requests, and how many of them were derived from the size of the job."""
    jobs = trace.jobs
    request = np.full(len(jobs), -1) if jobs.request is None else jobs.request.copy()
    partition, names = trace.names.partitions(jobs)

    def derived(row: tuple[int, ...]) -> Request:
        size, number = row
        partitions = (names[number],) if number >= 0 else ()
        return Request(partitions, (Chunk(size),), apart=whole_nodes, whole_nodes=whole_nodes)

    unlogged = np.flatnonzero(request < 0)
    more, requests = classes_of_rows((jobs.size[unlogged], partition[unlogged]), derived)
    request[unlogged] = len(trace.requests) + more
    return request, (*trace.requests, *requests), len(unlogged)


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
    found = (trace.names.node[code] for code in np.unique(trace.jobs.node[pool == LOST]).tolist())
    names = sorted(found, key=natural_key)
    return (f"the cluster has no nodes {_shown(names)}: {counted(count, 'job')} ran there and may run on others",)


def _shown(names: list[str]) -> str:
    if len(names) <= SHOWN_NAMES:
        return ", ".join(names)
    folded = fold_names(names)
    return folded if len(folded) <= LONGEST_FOLDED else f"{', '.join(names[:SHOWN_NAMES])}, ... ({len(names):,} in all)"


def _without_unknown(request: Request, cluster: Cluster) -> KnownRequest:
    """Return the request without names that the cluster does not have, and these."""
    unknown: list[Unknown] = []
    if not cluster.partitions:
        request = request._replace(partitions=())
    elif absent := [name for name in request.partitions if name not in cluster.partitions]:
        unknown += [("partition", name) for name in absent]
        request = request._replace(partitions=tuple(name for name in request.partitions if name in cluster.partitions))
    if request.qos and cluster.qos and request.qos not in cluster.qos:
        unknown.append(("QOS", request.qos))
        request = request._replace(qos="")
    if request.reservation and request.reservation not in cluster.reservations:
        unknown.append(("reservation", request.reservation))
        request = request._replace(reservation="")
    if unlicensed := [name for name, _ in request.licences if name not in cluster.licences]:
        unknown += [("licence", name) for name in unlicensed]
        request = request._replace(licences=tuple(each for each in request.licences if each[0] in cluster.licences))
    nodes = cluster.node_names
    if nodes and (lost := (request.hosts | {chunk.host for chunk in request.chunks if chunk.host}) - nodes):
        unknown += [("node", name) for name in sorted(lost)]
        chunks = tuple(chunk._replace(host="") if chunk.host in lost else chunk for chunk in request.chunks)
        request = request._replace(hosts=request.hosts & nodes, chunks=chunks)
    needed = frozenset[str]().union(*(each for chunk in request.chunks for each in chunk.features))
    if missing := frozenset(name for name in needed if name.startswith("gres/")) - cluster.features:
        unknown += [("generic resource", name) for name in sorted(missing)]
        chunks = tuple(
            chunk._replace(features=tuple(left for each in chunk.features if (left := each - missing)))
            for chunk in request.chunks
        )
        request = request._replace(chunks=chunks)
    return request, unknown or ()


def _unknown_notes(known: list[KnownRequest], jobs_of: list[int], remedies: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each partition, QOS, ... that the cluster does not have, one for many or for nodes."""
    jobs: Counter[Unknown] = Counter()
    of_kind: Counter[str] = Counter()
    for (_, unknown), count in zip(known, jobs_of, strict=True):
        jobs.update(dict.fromkeys(unknown, count))
        of_kind.update(dict.fromkeys({kind for kind, _ in unknown}, count))
    lines: list[str] = []
    for kind in sorted(of_kind, key=lambda kind: (kind == "node", kind)):
        names = sorted((name for (each, name), count in jobs.items() if each == kind and count), key=natural_key)
        total = counted(of_kind[kind], "job")
        if kind == "node" and names:
            lines.append(f"the cluster has no nodes {_shown(names)}: {total} for them {remedies[kind]}")
        elif len(names) > SHOWN_NAMES:
            plural, remedy = f"{kind}s".replace("QOSs", "QOS"), remedies[kind].replace("without it", "without them")
            lines.append(f"the cluster has no {plural} {_shown(names)}: {total} of them {remedy}")
        else:
            lines += [
                f"the cluster has no {kind} {name}: {counted(jobs[kind, name], 'job')} of it {remedies[kind]}"
                for name in names
            ]
    return tuple(lines)
