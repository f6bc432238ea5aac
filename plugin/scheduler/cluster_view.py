"""The cluster model of a scheduler's view, the nodes of each pool that are free, and what jobs hold of a node."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from offpeak.model.cluster import Cluster, ClusterNode, NodeType, Partition, pools_of
from offpeak.model.limits import DEFAULT_PREEMPTION, SiteLimits
from offpeak.model.request import Request
from offpeak.plugin.scheduler.job import HOLDING, Job
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import SchedulerView


def cluster_of(
    view: SchedulerView,
    partitions: Iterable[Partition] = (),
    *,
    features: Collection[str] | None = None,
    limits: SiteLimits | None = None,
) -> Cluster:
    """Return the cluster; partitions without a record of their own have no limits and share their nodes.

    Nodes that differ only in other features than `features` are in one pool: by default those that a job requests.
    """
    requests = {id(job.request): job.request for job in view.jobs if job.request}.values()
    kept = requested_features(requests) if features is None else frozenset(features)
    known = {partition.name: partition for partition in partitions}
    found = {name for node in view.nodes for name in node.partitions}
    return Cluster(
        pools=pools_of(_cluster_node(node, kept) for node in view.nodes),
        partitions=known | {name: Partition(name, shared=True) for name in sorted(found - known.keys())},
        reservations={each.name: frozenset(each.nodes) for each in view.reservations},
        licences=limits.licences if limits else {},
        qos=limits.qos if limits else {},
        preemption=limits.preemption if limits else DEFAULT_PREEMPTION,
        priority=limits.priority if limits else None,
    )


def requested_features(requests: Iterable[Request]) -> frozenset[str]:
    """Return the features that a request names."""
    return frozenset(
        name for request in requests for chunk in request.chunks for names in chunk.features for name in names
    )


def _cluster_node(node: Node, kept: frozenset[str]) -> ClusterNode:
    features = kept.intersection(node.features)
    return ClusterNode(node.name, NodeType(node.cpus, node.memory_mib, node.gpus, features), frozenset(node.partitions))


def free_nodes(cluster: Cluster, nodes: Iterable[Node]) -> tuple[float, ...]:
    """Return the number of nodes of each pool that are free; shares of nodes add up, sleeping nodes count as free."""
    free = {node.name: free_share(node) for node in nodes}
    return tuple(sum(free.get(name, 0.0) for name in pool.names) for pool in cluster.pools)


def free_share(node: Node) -> float:
    """Return the share of the node that the scheduler could give to jobs, by its CPUs."""
    if node.closed or node.failed or node.reserved:
        return 0.0
    if node.use is NodeUse.USED and 0 < node.cpus_used < node.cpus:
        return 1.0 - node.cpus_used / node.cpus
    return 1.0 if node.use is NodeUse.FREE else 0.0


class Allocation(NamedTuple):
    """What jobs hold of a node besides its cores."""

    memory_mib: int = 0
    gpus: int = 0


NO_ALLOCATION, ALL_OF_IT = Allocation(), Allocation(1 << 40, 1 << 20)


def find_allocations(jobs: Iterable[Job]) -> dict[str, Allocation]:
    """Return what jobs hold of each node, in equal shares of their requests; unclear requests hold all of it."""
    found: dict[str, Allocation] = {}
    for job in jobs:
        hosts = job.known_hosts if job.state in HOLDING else ()
        if not hosts:
            continue
        share = _share_of(job.request, len(hosts)) if job.request else ALL_OF_IT
        for host in hosts:
            held = found.get(host, NO_ALLOCATION)
            found[host] = Allocation(held.memory_mib + share.memory_mib, held.gpus + share.gpus)
    return found


def _share_of(request: Request, nodes: int) -> Allocation:
    memory_mib = sum(chunk.copies * chunk.memory_mib for chunk in request.chunks)
    return Allocation(-(-memory_mib // nodes), -(-request.gpus // nodes))
