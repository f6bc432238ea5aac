"""The waiting jobs for which nodes must be woken, or stay awake until the job has started.

PBS itself gives no job a sleeping node. Therefore a job that could start if some sleeping nodes were up gets these
nodes as its planned hosts, now, which is how other schedulers publish their plans. A node that is up stays the planned
host of its job until the scheduler has started the job, which may take it a whole interval between two cycles. A job
that does not start in that time waits for something else: it is passed over for a pause, then it may wake nodes again.

Where OpenPBS has estimated a start, its estimate stays, except for a start within the next ten minutes: OpenPBS counts
a sleeping node as up ten minutes after each of its cycles, and that moment may never come.

Of the sleeping nodes that fit, those without GPUs are planned first, for a job that requests none, and the smallest.

A job gets no processors that a reservation takes before the job has reached its limit; a job without a limit may run
for ever. If only reservations keep the first job without a place from starting, it is planned for the end of one.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from offpeak.model.constants import HOUR_S
from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk
from offpeak.plugin.pbs.jobs import PbsJob
from offpeak.plugin.pbs.reservations import ALL_CPUS, ReservedCpus
from offpeak.plugin.scheduler.cluster_view import NO_ALLOCATION, Allocation, find_allocations
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState, count_running_tasks
from offpeak.plugin.scheduler.node import Node, NodeUse

MOST_JOBS = 500
"""Only the first jobs of the queue count: nodes are woken for jobs that can start next."""
COUNTS_AS_UP_IN_S = 660
"""OpenPBS counts a sleeping node as up ten minutes after its cycle; one minute more for clocks. A later estimate has
another cause than a sleeping node."""
UNKNOWN_END_S = sys.maxsize
"""The end of a job without a limit."""
BEHIND_OTHERS = "would break strict sorted order"
"""OpenPBS's reason, with strict_ordering and without backfill, why it starts no job before the first one."""
NO_RESERVATIONS: Mapping[str, Sequence[ReservedCpus]] = {}
LONGEST_PAUSE_S = 4 * HOUR_S
"""A job that never starts, for a reason that is not known, has nodes woken so often at most."""

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class StartChance:
    """Since when nodes are up for a waiting job, None if they are not, and how many such chances passed before.

    `reason` is the server's reason why the job waits, without numbers: with another reason the first pause ends.
    """

    reason: str
    since_s: int | None = None
    passed: int = 0

    def renewed(self, job: Job, now_s: int, patience_s: int) -> "StartChance":
        """Return the chance as it is now: a new one for another reason, and after the pause of a chance that passed."""
        if (reason := _reason_text(job)) != self.reason:
            # Once only: the comment changes with the sleep of the nodes, too.
            return StartChance(reason, passed=1) if not self.passed else replace(self, reason=reason)
        if self.since_s is None:
            return self
        pause_s = min(patience_s * 2 ** min(self.passed + 1, 16), LONGEST_PAUSE_S)
        if now_s - self.since_s >= patience_s + pause_s:
            return StartChance(reason, passed=self.passed + 1)
        # The clock may have been set back.
        return replace(self, since_s=min(self.since_s, now_s))

    def has_passed(self, now_s: int, patience_s: int) -> bool:
        """Whether nodes were up for the job so long that it must lack something else."""
        return self.since_s is not None and now_s - self.since_s >= patience_s


class PbsDemand(NamedTuple):
    """The jobs with their planned hosts, and the chances of the jobs that wait, by job."""

    jobs: tuple[Job, ...]
    chances: Mapping[str, StartChance]


def _reason_text(job: Job) -> str:
    return _NUMBER.sub("", job.reason)


@dataclass
class NodeCapacity:
    """What is free on a node while jobs are placed, apart from what is `reserved`. `sleeps`: it must be woken first."""

    node: Node
    cpus: int
    memory_mib: int
    gpus: int
    sleeps: bool
    reserved: Sequence[ReservedCpus] = ()

    def holds(self, chunk: Chunk, job: Job, from_s: int) -> bool:
        """Return whether the node has room for a chunk of the job, which starts then [Unix s]."""
        if chunk.host not in ("", self.node.name) or not chunk.accepts(self.node.features):
            return False
        until_s = UNKNOWN_END_S if job.limit_s is None else from_s + job.limit_s
        cpus = self.cpus - sum(each.cpus for each in self.reserved if each.start_s < until_s and each.end_s > from_s)
        if cpus < (self.node.cpus if job.whole_nodes else chunk.cores) or self.gpus < chunk.gpus:
            return False
        return self.memory_mib >= chunk.memory_mib or not self.node.memory_mib

    def cost(self, *, needs_gpus: bool) -> tuple[bool, bool, int, int]:
        """Return the sort key of the node: nodes with lower keys are taken first."""
        node = self.node
        return self.sleeps, bool(node.gpus) and not needs_gpus, node.cpus, node.memory_mib.bit_length()

    @property
    def is_up(self) -> bool:
        """Whether the server can start a job there now."""
        return self.node.power is PowerState.ON and not self.node.closed

    def take(self, chunk: Chunk, job: Job, sign: int = 1) -> None:
        """Subtract what the chunk takes; give it back for a `sign` of -1."""
        self.cpus -= sign * (self.node.cpus if job.whole_nodes else chunk.cores)
        self.memory_mib -= sign * chunk.memory_mib
        self.gpus -= sign * chunk.gpus


def with_demand(
    jobs: Sequence[PbsJob],
    nodes: Sequence[Node],
    now_s: int,
    reserved: Mapping[str, Sequence[ReservedCpus]] = NO_RESERVATIONS,
    *,
    patience_s: int,
    chances: Mapping[str, StartChance] | None = None,
) -> PbsDemand:
    """Return the jobs, with planned hosts that must be woken or stay awake.

    `reserved` are reservations by node, `chances` those of the last time. A job for which nodes were up for
    `patience_s` is passed over.
    """
    held = find_allocations(pbs_job.job for pbs_job in jobs)
    found = (
        _node_capacity(node, held.get(node.name, NO_ALLOCATION), reserved.get(node.name, ()), now_s) for node in nodes
    )
    capacities = {capacity.node.name: capacity for capacity in found if capacity is not None}
    has_room = [capacity for capacity in capacities.values() if capacity.cpus > 0]
    by_cost = {
        needs_gpus: sorted(has_room, key=lambda each: each.cost(needs_gpus=needs_gpus)) for needs_gpus in (False, True)
    }
    waiting = [pbs_job for pbs_job in jobs if _could_start(pbs_job.job, now_s)]
    waiting.sort(key=lambda pbs_job: (-pbs_job.job.priority, pbs_job.rank))
    # The reason of the first job may be older than its place.
    waiting = [*waiting[:1], *(pbs_job for pbs_job in waiting[1:] if BEHIND_OTHERS not in pbs_job.job.reason)]
    held_until_s = _held_until_s(pbs_job.job for pbs_job in jobs)
    running = count_running_tasks(pbs_job.job for pbs_job in jobs)
    planned: dict[str, Job] = {}
    pending = {pbs_job.job.job_id for pbs_job in jobs if pbs_job.job.state is JobState.PENDING}
    known = {job_id: chance for job_id, chance in (chances or {}).items() if job_id in pending}
    may_start = []
    for job in (pbs_job.job for pbs_job in waiting):
        before = known.get(job.job_id)
        chance = StartChance(_reason_text(job)) if before is None else before.renewed(job, now_s, patience_s)
        known[job.job_id] = chance
        if chance.has_passed(now_s, patience_s):
            planned[job.job_id] = job._replace(was_passed_over=True, start_s=None, hosts="")
        else:
            may_start.append(job)
    up = {name for name, capacity in capacities.items() if capacity.is_up}
    # What jobs inside a reservation leave, only others inside it can have.
    ends_s = [*_held_until_s(pbs_job.job for pbs_job in jobs if not pbs_job.job.reservation).values()]
    reservation_ends_s = sorted({each.end_s for spans in reserved.values() for each in spans})
    all_have_a_place = True
    for job in islice(_within_limits(may_start, running), MOST_JOBS):
        open_to, plan = by_cost[job.request is not None and job.request.gpus > 0], job
        if job.start_s is not None:
            plan = job._replace(start_s=_free_s(job, job.start_s, capacities, held_until_s, now_s))
        elif places := _place_job(job, open_to, now_s):
            ends_s.append(UNKNOWN_END_S if job.limit_s is None else now_s + job.limit_s)
            plan = _plan_at(job, places, now_s)
        elif all_have_a_place:
            all_have_a_place = False
            plan = _plan_after(
                job, open_to, [end_s for end_s in reservation_ends_s if end_s <= min(ends_s, default=end_s)]
            )
        planned[job.job_id] = plan
        is_due = plan.start_s is not None and plan.start_s <= now_s and plan.hosts
        chance, may_start_now = known[job.job_id], is_due and up.issuperset(plan.hosts.split(","))
        since_s = now_s if chance.since_s is None else chance.since_s
        known[job.job_id] = replace(chance, since_s=since_s if may_start_now else None)
    return PbsDemand(tuple(planned.get(pbs_job.job.job_id, pbs_job.job) for pbs_job in jobs), known)


def _within_limits(jobs: Iterable[Job], running: Mapping[str, int]) -> Iterable[Job]:
    """Yield the jobs without the tasks of arrays that may not start yet because of the limit of their array."""
    counted: Counter[str] = Counter(running)
    for job in jobs:
        counted[job.array_id] += 1
        if not (job.array_id and job.task_limit) or counted[job.array_id] <= job.task_limit:
            yield job


Places = list[tuple[NodeCapacity, Chunk]]
"""Nodes, each with a chunk of a job."""


def _plan_at(job: Job, places: Places, start_s: int) -> Job:
    return job._replace(start_s=start_s, hosts=",".join(dict.fromkeys(capacity.node.name for capacity, _ in places)))


def _plan_after(job: Job, capacities: Sequence[NodeCapacity], ends_s: Iterable[int]) -> Job:
    """Return the job with a start at the first of these times [Unix s] at which it has a place, or unchanged.

    Until then other jobs may use the place.
    """
    for end_s in ends_s:
        if places := _place_job(job, capacities, end_s):
            _give_back(job, places)
            return _plan_at(job, places, end_s)
    return job


def _free_s(
    job: Job,
    estimated_s: int,
    capacities: Mapping[str, NodeCapacity],
    held_until_s: Mapping[str, int],
    now_s: int,
) -> int:
    """Return from when no other job has the nodes of an estimate, awake or not [Unix s]; never later than estimated."""
    hosts = job.hosts.split(",")
    named = [capacities[name] for name in hosts if name in capacities]
    if len(named) < len(hosts) or estimated_s > now_s + COUNTS_AS_UP_IN_S:
        return estimated_s
    if _place_job(job, named, now_s):
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


def _node_capacity(node: Node, held: Allocation, reserved: Sequence[ReservedCpus], now_s: int) -> NodeCapacity | None:
    """Return what a node still has for jobs; None if it gets no jobs. A reservation that has begun has all of it."""
    gpus = sum(number for _, number in node.gpus)
    opens = node.closed_by_us and node.planned
    begun_cpus = [each.cpus for each in reserved if each.start_s <= now_s]
    if (node.closed and not opens) or node.failed or node.use is NodeUse.UNKNOWN or (node.reserved and not begun_cpus):
        return None
    if begun_cpus:
        # The server counts the processors of a reservation as used.
        cpus = node.cpus - max(node.cpus_used - sum(begun_cpus), 0)
        whole = [each._replace(cpus=ALL_CPUS) if each.start_s <= now_s else each for each in reserved]
        return NodeCapacity(node, cpus, node.memory_mib, gpus, sleeps=False, reserved=whole)
    if node.power is PowerState.ON:
        if not node.responds:
            return None
        memory_mib, left = node.memory_mib - held.memory_mib, gpus - held.gpus
        return NodeCapacity(node, node.cpus - node.cpus_used, memory_mib, left, sleeps=False, reserved=reserved)
    if node.use is NodeUse.USED:
        return None
    sleeps = node.power is PowerState.OFF
    return NodeCapacity(node, node.cpus, node.memory_mib, gpus, sleeps=sleeps, reserved=reserved)


def _could_start(job: Job, now_s: int) -> bool:
    if job.state is not JobState.PENDING or job.reservation or (job.begin_s or 0) > now_s:
        return False
    return job.lacks_only_nodes


def _place_job(job: Job, capacities: Sequence[NodeCapacity], start_s: int) -> Places:
    """Return the first nodes that fit each chunk of the job from then on, taken from the rest; [] if they are few."""
    if job.request is None:
        return []
    partitions = set(job.partitions)
    open_to = [each for each in capacities if not partitions.isdisjoint(each.node.partitions)]
    # Chunks without a processor would fit without end.
    if sum(chunk.copies for chunk in job.request.chunks) > sum(each.node.cpus for each in open_to):
        return []
    most_mib = max((each.node.memory_mib for each in open_to), default=0)
    taken: Places = []
    used = set[int]()
    for chunk in job.request.chunks:
        # Where a job waits although it requests more than any node has, the server does not count memory by node.
        part = chunk if chunk.memory_mib <= most_mib else chunk._replace(memory_mib=0)
        for _ in range(chunk.copies):
            fits = (each for each in open_to if id(each) not in used and each.holds(part, job, start_s))
            capacity = next(fits, None)
            if capacity is None:
                _give_back(job, taken)
                return []
            capacity.take(part, job)
            taken.append((capacity, part))
            if job.request.apart or job.whole_nodes:
                used.add(id(capacity))
    return taken


def _give_back(job: Job, places: Places) -> None:
    for capacity, part in places:
        capacity.take(part, job, -1)
