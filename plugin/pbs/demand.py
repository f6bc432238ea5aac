"""The waiting jobs for which sleeping nodes must be woken.

PBS itself gives no job a sleeping node. Therefore a job that could start if some sleeping nodes were up gets these
nodes as its planned hosts, now, which is how other schedulers publish their plans. Where OpenPBS has estimated a start,
its estimate stays, except for a start within the next ten minutes: OpenPBS counts a sleeping node as up ten minutes
after each of its cycles, and that moment may never come.

Of the sleeping nodes that fit, those without GPUs are planned first, for a job that requests none, and the smallest.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk
from plugin.pbs.jobs import PbsJob
from plugin.scheduler.cluster_view import NO_ALLOCATION, Allocation, find_allocations
from plugin.scheduler.job import HOLDING, Job, JobState, count_running_tasks
from plugin.scheduler.node import Node, NodeUse

MOST_JOBS = 500
"""Only the first jobs of the queue count: nodes are woken for jobs that can start next."""
COUNTS_AS_UP_IN_S = 660
"""OpenPBS counts a sleeping node as up ten minutes after its cycle; one minute more for clocks. A later estimate has
another cause than a sleeping node."""
UNKNOWN_END_S = sys.maxsize
"""The end of a job without a limit."""


@dataclass
class NodeCapacity:
    """What is free on a node while jobs are placed. `sleeps`: the node must be woken first."""

    node: Node
    cpus: int
    memory_mib: int
    gpus: int
    sleeps: bool

    def holds(self, chunk: Chunk, job: Job) -> bool:
        """Return whether the node has room for a chunk of the job."""
        if chunk.host not in ("", self.node.name) or not chunk.accepts(self.node.features):
            return False
        if self.cpus < (self.node.cpus if job.whole_nodes else chunk.cores) or self.gpus < chunk.gpus:
            return False
        return self.memory_mib >= chunk.memory_mib or not self.node.memory_mib

    def cost(self, *, needs_gpus: bool) -> tuple[bool, bool, int, int]:
        """Return the sort key of the node: nodes with lower keys are taken first."""
        node = self.node
        return self.sleeps, bool(node.gpus) and not needs_gpus, node.cpus, node.memory_mib.bit_length()

    def take(self, chunk: Chunk, job: Job, sign: int = 1) -> None:
        """Subtract what the chunk takes; give it back for a `sign` of -1."""
        self.cpus -= sign * (self.node.cpus if job.whole_nodes else chunk.cores)
        self.memory_mib -= sign * chunk.memory_mib
        self.gpus -= sign * chunk.gpus


def with_demand(jobs: Sequence[PbsJob], nodes: Sequence[Node], now_s: int) -> tuple[Job, ...]:
    """Return the jobs, with planned hosts that must be woken or stay awake."""
    held = find_allocations(pbs_job.job for pbs_job in jobs)
    found = (_node_capacity(node, held.get(node.name, NO_ALLOCATION)) for node in nodes)
    capacities = [capacity for capacity in found if capacity is not None]
    by_cost = {
        needs_gpus: sorted(capacities, key=lambda each: each.cost(needs_gpus=needs_gpus))
        for needs_gpus in (False, True)
    }
    waiting = [pbs_job for pbs_job in jobs if _could_start(pbs_job.job, now_s)]
    waiting.sort(key=lambda pbs_job: (-pbs_job.job.priority, pbs_job.rank))
    if not any(capacity.sleeps for capacity in capacities) and all(pbs_job.job.start_s is None for pbs_job in waiting):
        return tuple(pbs_job.job for pbs_job in jobs)
    held_until_s = _held_until_s(pbs_job.job for pbs_job in jobs)
    running = count_running_tasks(pbs_job.job for pbs_job in jobs)
    within_limits = _within_limits((pbs_job.job for pbs_job in waiting), running)
    planned = {
        job.job_id: _plan_job(job, by_cost[job.request is not None and job.request.gpus > 0], held_until_s, now_s)
        for job in islice(within_limits, MOST_JOBS)
    }
    return tuple(planned.get(pbs_job.job.job_id, pbs_job.job) for pbs_job in jobs)


def _within_limits(jobs: Iterable[Job], running: Mapping[str, int]) -> Iterable[Job]:
    """Yield the jobs without the tasks of arrays that may not start yet because of the limit of their array."""
    counted: Counter[str] = Counter(running)
    for job in jobs:
        counted[job.array_id] += 1
        if not (job.array_id and job.task_limit) or counted[job.array_id] <= job.task_limit:
            yield job


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


def _node_capacity(node: Node, held: Allocation) -> NodeCapacity | None:
    """Return what a node still has for jobs; None if it gets no jobs."""
    gpus = sum(number for _, number in node.gpus)
    opens = node.closed_by_us and node.planned
    if (node.closed and not opens) or node.failed or node.reserved or node.use is NodeUse.UNKNOWN:
        return None
    if node.power is PowerState.ON:
        if not node.responds:
            return None
        memory_mib, left = node.memory_mib - held.memory_mib, gpus - held.gpus
        return NodeCapacity(node, node.cpus - node.cpus_used, memory_mib, left, sleeps=False)
    if node.use is NodeUse.USED:
        return None
    return NodeCapacity(node, node.cpus, node.memory_mib, gpus, sleeps=node.power is PowerState.OFF)


def _could_start(job: Job, now_s: int) -> bool:
    if job.state is not JobState.PENDING or job.reservation or (job.begin_s or 0) > now_s:
        return False
    return job.lacks_only_nodes


def _place_job(job: Job, capacities: Sequence[NodeCapacity]) -> list[NodeCapacity]:
    """Return the first nodes that fit each chunk of the job, taken from the rest; [] if there are not enough."""
    if job.request is None:
        return []
    partitions = set(job.partitions)
    open_to = [each for each in capacities if not partitions.isdisjoint(each.node.partitions)]
    most_mib = max((each.node.memory_mib for each in open_to), default=0)
    taken: list[tuple[NodeCapacity, Chunk]] = []
    for chunk in job.request.chunks:
        # Where a job waits although it requests more than any node has, the server does not count memory by node.
        part = chunk if chunk.memory_mib <= most_mib else chunk._replace(memory_mib=0)
        for _ in range(chunk.copies):
            used = {id(capacity) for capacity, _ in taken} if job.request.apart or job.whole_nodes else set()
            capacity = next((each for each in open_to if id(each) not in used and each.holds(part, job)), None)
            if capacity is None:
                for each, taken_part in taken:
                    each.take(taken_part, job, -1)
                return []
            capacity.take(part, job)
            taken.append((capacity, part))
    return [capacity for capacity, _ in taken]
