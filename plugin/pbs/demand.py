"""The waiting jobs for which sleeping nodes must be woken.

PBS itself gives no job a sleeping node. Therefore a job that could start if some sleeping nodes were up gets these
nodes as its planned hosts, now, which is how other schedulers publish their plans. Where OpenPBS has estimated a start,
its estimate stays, except for a start within the next ten minutes: OpenPBS counts a sleeping node as up ten minutes
after each of its cycles, and that moment may never come.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk
from plugin.pbs.jobs import PbsJob
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node, NodeUse

MOST_JOBS = 500
"""Only the first jobs of the queue count: nodes are woken for jobs that can start next."""
COUNTS_AS_UP_IN_S = 660
"""OpenPBS counts a sleeping node as up ten minutes after its cycle; one minute more for clocks. A later estimate has
another cause than a sleeping node."""
UNKNOWN_END_S = sys.maxsize
"""The end of a job without a limit."""
NO_NODE_HELPS = ("limit", "hold", "license", "dependency", "fairshare")


@dataclass
class NodeCapacity:
    """The free processors of a node while jobs are placed. `sleeps`: the node must be woken first."""

    node: Node
    cpus: int
    sleeps: bool


def with_demand(jobs: Sequence[PbsJob], nodes: Sequence[Node], now_s: int) -> tuple[Job, ...]:
    """Return the jobs, with planned hosts that must be woken or stay awake."""
    capacities = [capacity for capacity in map(_node_capacity, nodes) if capacity is not None]
    waiting = [pbs_job for pbs_job in jobs if _could_start(pbs_job.job, now_s)]
    waiting.sort(key=lambda pbs_job: (-pbs_job.job.priority, pbs_job.rank))
    if not any(capacity.sleeps for capacity in capacities) and all(pbs_job.job.start_s is None for pbs_job in waiting):
        return tuple(pbs_job.job for pbs_job in jobs)
    held_until_s = _held_until_s(pbs_job.job for pbs_job in jobs)
    planned = {
        pbs_job.job.job_id: _plan_job(pbs_job.job, capacities, held_until_s, now_s) for pbs_job in waiting[:MOST_JOBS]
    }
    return tuple(planned.get(pbs_job.job.job_id, pbs_job.job) for pbs_job in jobs)


def _plan_job(job: Job, capacities: Sequence[NodeCapacity], held_until_s: Mapping[str, int], now_s: int) -> Job:
    """Return the job with the sleeping nodes that it needs, and when; unchanged if it needs none."""
    if job.start_s is not None:
        return job._replace(start_s=_free_s(job, job.start_s, capacities, held_until_s, now_s))
    found = _place_job(job, capacities)
    hosts = ",".join(dict.fromkeys(capacity.node.name for capacity in found))
    return job._replace(start_s=now_s, hosts=hosts) if any(capacity.sleeps for capacity in found) else job


def _free_s(
    job: Job, estimated_s: int, capacities: Sequence[NodeCapacity], held_until_s: Mapping[str, int], now_s: int
) -> int:
    """Return from when no other job has the nodes of an estimate, awake or not [Unix s]; never later than estimated."""
    hosts = job.hosts.split(",")
    named = [capacity for capacity in capacities if capacity.node.name in hosts]
    if len(named) < len(hosts) or estimated_s > now_s + COUNTS_AS_UP_IN_S:
        return estimated_s
    if _place_job(job, named):
        return min(estimated_s, now_s)
    if all(capacity.node.power is PowerState.ON for capacity in named):
        return estimated_s
    return min(estimated_s, max(now_s, *(held_until_s.get(capacity.node.name, now_s) for capacity in named)))


def _held_until_s(jobs: Iterable[Job]) -> dict[str, int]:
    """Return when the last job on each node will have reached its limit [Unix s]."""
    found: dict[str, int] = {}
    for job in jobs:
        if job.state in HOLDING:
            end_s = UNKNOWN_END_S if job.end_s is None else job.end_s
            found |= {host: max(end_s, found.get(host, 0)) for host in job.hosts.split(",")}
    return found


def _node_capacity(node: Node) -> NodeCapacity | None:
    """Return what a node still has for jobs; None if it gets no jobs."""
    opens = node.closed_by_us and node.planned
    if (node.closed and not opens) or node.failed or node.reserved or node.use is NodeUse.UNKNOWN:
        return None
    if node.power is PowerState.ON:
        return NodeCapacity(node, node.cpus - node.cpus_used, sleeps=False) if node.responds else None
    if node.use is NodeUse.USED:
        return None
    return NodeCapacity(node, node.cpus, sleeps=node.power is PowerState.OFF)


def _could_start(job: Job, now_s: int) -> bool:
    if job.state is not JobState.PENDING or job.reservation or (job.begin_s or 0) > now_s:
        return False
    reason = job.reason.lower()
    return not any(cause in reason for cause in NO_NODE_HELPS)


def _place_job(job: Job, capacities: Iterable[NodeCapacity]) -> list[NodeCapacity]:
    """Return the nodes for each chunk of the job, nodes that are up first; [] if there are not enough.

    The processors that were found are subtracted: the next job gets the rest.
    """
    if job.request is None:
        return []
    open_to = [capacity for capacity in capacities if set(job.partitions) & set(capacity.node.partitions)]
    open_to.sort(key=lambda capacity: capacity.sleeps)
    taken: list[tuple[NodeCapacity, int]] = []
    for chunk in job.request.chunks:
        for _ in range(chunk.copies):
            used = {id(capacity) for capacity, _ in taken} if job.request.apart or job.whole_nodes else set()
            capacity = next(
                (capacity for capacity in open_to if id(capacity) not in used and _fits(capacity, chunk, job)), None
            )
            if capacity is None:
                for capacity, cpus in taken:
                    capacity.cpus += cpus
                return []
            cpus = capacity.cpus if job.whole_nodes else chunk.cores
            capacity.cpus -= cpus
            taken.append((capacity, cpus))
    return [capacity for capacity, _ in taken]


def _fits(capacity: NodeCapacity, chunk: Chunk, job: Job) -> bool:
    wanted = capacity.node.cpus if job.whole_nodes else chunk.cores
    if capacity.cpus < wanted or (chunk.host and chunk.host != capacity.node.name):
        return False
    return chunk.accepts(capacity.node.features)
