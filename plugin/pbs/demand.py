"""Finds the waiting jobs for which sleeping nodes have to be woken: PBS itself gives no job a node that sleeps.

The result is written where other schedulers write their plans: a job that could start if some sleeping nodes were up
has these nodes as its planned hosts, now. Where OpenPBS has estimated a start, its estimate stays, except for a start
within the next ten minutes: OpenPBS counts a sleeping node as up ten minutes after each of its cycles, and that moment
may never come.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plugin.pbs.jobs import PbsJob
from plugin.pbs.resource_request import Chunk, chunks_of
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node, NodePower, NodeUse

MOST_JOBS = 500
"""So many jobs in front of a queue decide; nodes are woken for what can start next."""
COUNTS_AS_UP_IN_S = 660
"""OpenPBS counts a sleeping node as up ten minutes after its look; one minute for clocks. What is later is not so for
want of an awake node."""
UNKNOWN_END_S = sys.maxsize
"""When a job without a limit will have ended."""
NO_NODE_HELPS = ("limit", "hold", "license", "dependency", "fairshare")


@dataclass
class NodeCapacity:
    """A node's processors that are left, in the course of a count. `sleeps`: it has to be woken first."""

    node: Node
    cpus: int
    sleeps: bool


def with_demand(jobs: Sequence[PbsJob], nodes: Sequence[Node], now_s: int) -> tuple[Job, ...]:
    """Return the jobs, those with planned hosts for which nodes are to be woken, or are to stay awake."""
    rooms = [room for room in map(_node_capacity, nodes) if room is not None]
    waiting = sorted((each for each in jobs if _could_start(each.job, now_s)), key=_queue_order)
    if not any(room.sleeps for room in rooms) and all(each.job.start_s is None for each in waiting):
        return tuple(each.job for each in jobs)
    held_until_s = _held_until_s(each.job for each in jobs)
    planned = {told.job.job_id: _plan_job(told, rooms, held_until_s, now_s) for told in waiting[:MOST_JOBS]}
    return tuple(planned.get(each.job.job_id, each.job) for each in jobs)


def _plan_job(told: PbsJob, rooms: Sequence[NodeCapacity], held_until_s: Mapping[str, int], now_s: int) -> Job:
    """Return the job with the sleeping nodes that it needs, and when; as it is if it needs none."""
    job = told.job
    if job.start_s is not None:
        return job._replace(start_s=_free_s(told, job.start_s, rooms, held_until_s, now_s))
    found = _place_job(told, rooms)
    hosts = ",".join(dict.fromkeys(room.node.name for room in found))
    return job._replace(start_s=now_s, hosts=hosts) if any(room.sleeps for room in found) else job


def _free_s(
    told: PbsJob, estimated_s: int, rooms: Sequence[NodeCapacity], held_until_s: Mapping[str, int], now_s: int
) -> int:
    """Return from when nobody else has the nodes of an estimate, awake or not [Unix s]; never later than estimated."""
    hosts = told.job.hosts.split(",")
    named = [room for room in rooms if room.node.name in hosts]
    if len(named) < len(hosts) or estimated_s > now_s + COUNTS_AS_UP_IN_S:
        return estimated_s
    if _place_job(told, named):
        return min(estimated_s, now_s)
    if all(room.node.power is NodePower.UP for room in named):
        return estimated_s
    return min(estimated_s, max(now_s, *(held_until_s.get(room.node.name, now_s) for room in named)))


def _held_until_s(jobs: Iterable[Job]) -> dict[str, int]:
    """Return when the last job on each node will have reached its limit [Unix s]."""
    found: dict[str, int] = {}
    for job in jobs:
        if job.state in HOLDING:
            end_s = UNKNOWN_END_S if job.end_s is None else job.end_s
            found |= {host: max(end_s, found.get(host, 0)) for host in job.hosts.split(",")}
    return found


def _node_capacity(node: Node) -> NodeCapacity | None:
    """Return what jobs may yet have of a node; None where they get nothing."""
    opens = node.closed_by_us and node.planned
    if (node.closed and not opens) or node.failed or node.reserved or node.use is NodeUse.UNKNOWN:
        return None
    if node.power is NodePower.UP:
        return NodeCapacity(node, node.cpus - node.cpus_used, sleeps=False) if node.responds else None
    if node.use is NodeUse.USED:
        return None
    return NodeCapacity(node, node.cpus, sleeps=node.power is NodePower.DOWN)


def _could_start(job: Job, now_s: int) -> bool:
    if job.state is not JobState.PENDING or job.reservation or (job.begin_s or 0) > now_s:
        return False
    said = job.reason.lower()
    return not any(word in said for word in NO_NODE_HELPS)


def _queue_order(told: PbsJob) -> tuple[int, int]:
    return -told.job.priority, told.rank


def _place_job(told: PbsJob, rooms: Iterable[NodeCapacity]) -> list[NodeCapacity]:
    """Return the rooms for each part of the job, first those of nodes that are up; [] if there is not enough.

    What was found is taken: the next job has to do with the rest.
    """
    open_to = [room for room in rooms if set(told.job.partitions) & set(room.node.partitions)]
    open_to.sort(key=lambda room: room.sleeps)
    taken: list[tuple[NodeCapacity, int]] = []
    for chunk in chunks_of(told.request):
        for _ in range(chunk.times):
            used = {id(room) for room, _ in taken} if told.apart or told.job.whole_nodes else set()
            room = next((each for each in open_to if id(each) not in used and _fits(each, chunk, told.job)), None)
            if room is None:
                for each, cpus in taken:
                    each.cpus += cpus
                return []
            cpus = room.cpus if told.job.whole_nodes else chunk.cpus
            room.cpus -= cpus
            taken.append((room, cpus))
    return [room for room, _ in taken]


def _fits(room: NodeCapacity, chunk: Chunk, job: Job) -> bool:
    wanted = room.node.cpus if job.whole_nodes else chunk.cpus
    if room.cpus < wanted or (chunk.host and chunk.host != room.node.name):
        return False
    return set(chunk.features) <= set(room.node.features)
