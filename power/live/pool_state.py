"""A pool at one instant, in the arrays of a capacity policy and its kernels, and the targets of that policy.

A pool is a set of nodes that compete for the same jobs: partitions that share nodes or jobs are one pool. Its jobs are
the running jobs, and the pending jobs that could start now, in queue order.
"""

import copy
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.model.flexibility import FlexibilityRules
from offpeak.model.node_states import ACTIVE, DEPTH_OF_STATE, FAILED, OFF, asleep, coming_up, going_down
from offpeak.model.snapshot import ASSUMED_RUN_S, QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.port import CapacityPolicy, TypeShare
from offpeak.plugin.capacity.rules import NodeTable
from offpeak.plugin.capacity.sleepers import expect_needs, floor_nodes, follow_queue, new_record
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, NodeSleep, PoolMemory, PowerMemory, PowerSite
from offpeak.power.live.node_room import NodeRoom

CURRENT_STATES = HOLDING | {JobState.PENDING}
RISING_DEPTH = {coming_up(depth): depth for depth in DEPTH_OF_STATE.values()}
GOING_OFF = going_down(OFF)
GONE = frozenset(state(depth) for state in (going_down, asleep) for depth in DEPTH_OF_STATE.values())


@dataclass(frozen=True)
class NodePool:
    """Nodes in the scheduler's order, and the jobs that have or request some of them.

    `other_pools` are the pools of the cluster model, by number, with nodes of other types that compete for these jobs,
    and `share` is the share of the nodes of all these types; None if there is one type only.
    """

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    other_pools: frozenset[int] = frozenset()
    share: TypeShare | None = None

    def unclear_jobs(self, now_s: int) -> list[Job]:
        """Return the jobs that lack only nodes, and whose requests are not understood."""
        return [job for job in self.jobs if job.is_unclear and is_waiting(job, now_s)]


def find_pools(nodes: Sequence[Node], jobs: Iterable[Job]) -> tuple[NodePool, ...]:
    """Return the pools, each named after its partitions. Nodes without a partition are in none."""
    alive = [job for job in jobs if job.state in CURRENT_STATES and job.partitions]
    root = _connect_partitions({*(node.partitions for node in nodes), *(job.partitions for job in alive)})
    nodes_of: dict[str, list[Node]] = {}
    jobs_of: dict[str, list[Job]] = {}
    for node in nodes:
        if node.partitions:
            nodes_of.setdefault(root[node.partitions[0]], []).append(node)
    for job in alive:
        jobs_of.setdefault(root[job.partitions[0]], []).append(job)
    names = {top: ",".join(sorted(each for each in root if root[each] == top)) for top in nodes_of}
    return tuple(NodePool(names[top], tuple(found), tuple(jobs_of.get(top, ()))) for top, found in nodes_of.items())


def _connect_partitions(together: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Return one representative partition for each partition, the same for all that are connected."""
    root: dict[str, str] = {}
    for partitions in together:
        for partition in partitions:
            root.setdefault(partition, partition)
        tops = {root[partition] for partition in partitions}
        first = min(tops, default="")
        root = {each: first if top in tops else top for each, top in root.items()} if len(tops) > 1 else root
    return root


def is_waiting(job: Job, now_s: int) -> bool:
    """Whether the job lacks only nodes to start."""
    if job.state is not JobState.PENDING or job.reservation or job.reason == "BeginTime" or not job.lacks_only_nodes:
        return False
    return job.begin_s is None or job.begin_s <= now_s


def is_deferred(job: Job, now_s: int) -> bool:
    """Whether the job may start later only, at a time that is known; reservations wake their nodes themselves."""
    is_pending = job.state is JobState.PENDING and not job.reservation
    return is_pending and job.begin_s is not None and job.begin_s > now_s


def holds_nodes(job: Job) -> bool:
    """Whether the job has nodes."""
    return job.state in HOLDING


def count_units(job: Job, units_per_node: int) -> int:
    """Return the units that a job has or requests, at least one."""
    if units_per_node == 1:
        return max(job.nodes, 1)
    return max(job.nodes * units_per_node if job.whole_nodes else job.cpus, 1)


def running_jobs(jobs: list[tuple[Job, int]], snapshot: ClusterSnapshot, most_units: int) -> RunningJobs:
    """Return the columns of the jobs with their units, cut to `most_units` in all."""
    rows, left = [], most_units
    for job, units in sorted(jobs, key=lambda pair: _job_start_s(pair[0], snapshot.now_s)):
        size = min(units, left)
        left -= size
        start_s = _job_start_s(job, snapshot.now_s)
        if size > 0:
            end_s = expected_end_of(job, snapshot.run_s, snapshot.now_s)
            rows.append((size, min(job.submit_s, start_s), start_s, end_s))
    return RunningJobs.from_rows(rows, 4)


def queued_jobs(
    jobs: list[Job], nodes: Sequence[Node], snapshot: ClusterSnapshot, units_per_node: int, *, shared: bool
) -> QueuedJobs:
    """Return the waiting jobs that nodes can hold, as columns in queue order; an array has a row per filled node."""
    room = NodeRoom.of(snapshot, nodes, shared=shared)
    ordered = sorted(jobs, key=lambda job: (-job.priority, job.submit_s))
    sized = [
        (count_units(job, units_per_node) * (tasks if units_per_node > 1 else 1), job)
        for job in ordered
        for tasks in room.rows(job)
    ]
    rows = [
        (size, min(max(job.submit_s, job.begin_s or 0), snapshot.now_s), expected_run_of(job, snapshot.run_s))
        for size, job in sized
        if size <= len(nodes) * units_per_node
    ]
    return QueuedJobs.from_rows(rows, 3)


def _job_start_s(job: Job, now_s: int) -> int:
    return now_s if job.start_s is None else job.start_s


def expected_run_of(job: Job, run_s: Mapping[str, int]) -> int:
    """Return the run time of the job by the predictions `run_s`, at most its limit."""
    limit_s = _limit_s(job)
    return QueuedJobs.expected_run(run_s.get(job.job_id, limit_s), limit_s)


def expected_end_of(job: Job, run_s: Mapping[str, int], now_s: int) -> int:
    """Return when a running job is expected to end by the predictions."""
    return RunningJobs.expected_end(_job_start_s(job, now_s), expected_run_of(job, run_s), _limit_s(job), now_s)


def _limit_s(job: Job) -> int:
    return ASSUMED_RUN_S if job.limit_s is None else job.limit_s


@dataclass(frozen=True, eq=False)
class PoolState:
    """A pool as the capacity policy sees it.

    By node, in the pool's order: `state` as in offpeak.model.node_states, and `busy`, the units that jobs hold. `sleep`
    is that of most of its switchable nodes. `waiting` jobs lack nothing but nodes; `deferred` jobs may start later.
    `watts` is the idle power of a node by its pool in the cluster model, where it is known; `awake_beside` the nodes
    awake in its enclosure, by node.
    """

    pool: NodePool
    sleep: NodeSleep
    units_per_node: int
    shared_nodes: bool
    cluster: ClusterSnapshot
    state: NDArray[np.int8]
    busy: Int64
    waiting: tuple[Job, ...]
    deferred: tuple[Job, ...]
    snapshot: Snapshot
    watts: Mapping[int, float]
    awake_beside: Mapping[str, frozenset[str]]

    @cached_property
    def usable_nodes(self) -> int:
        """Nodes that jobs can count on, asleep or awake."""
        return int((self.state != FAILED).sum())

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """Which of them, asleep or awake, have no job."""
        free: NDArray[np.bool_] = (self.state != FAILED) & (self.busy == 0)
        return free

    @cached_property
    def is_idle(self) -> NDArray[np.bool_]:
        """Which nodes are up without a job."""
        idle: NDArray[np.bool_] = (self.state == ACTIVE) & (self.busy == 0)
        return idle

    @cached_property
    def rising(self) -> NDArray[np.bool_]:
        """Which nodes come up."""
        return np.isin(self.state, list(RISING_DEPTH))

    @cached_property
    def ready(self) -> NDArray[np.bool_]:
        """Which nodes are up or coming up without a job."""
        ready: NDArray[np.bool_] = self.is_idle | (self.rising & (self.busy == 0))
        return ready

    @cached_property
    def pool_of(self) -> Int64:
        """The pool of each node in the cluster model, by number."""
        return np.array([self.cluster.pool_of_node[node.name] for node in self.pool.nodes], dtype=np.int64)

    def count_by_pool(self, nodes: NDArray[np.bool_]) -> Counter[int]:
        """Return how many of these nodes are in each pool of the cluster model."""
        return Counter(self.pool_of[nodes].tolist())

    def free_room(self, reserved: NDArray[np.bool_]) -> NodeRoom:
        """Return the room on the nodes that jobs could get now; `reserved` ones are left out."""
        free = self.is_free & ~reserved
        return NodeRoom.of(
            self.cluster,
            self.nodes_at(free & self.ready),
            sleeping=self.nodes_at(free & ~self.ready),
            partly_used=self.nodes_at((self.state == ACTIVE) & (self.busy > 0)),
            shared=self.shared_nodes,
            watts=self.watts,
        )

    def is_selective(self, fitting: Iterable[int]) -> bool:
        """Whether a job that fits these pools fits some nodes here, but not all that compete for the same jobs."""
        fits = set(fitting)
        return not self.usable_pools.isdisjoint(fits) and not self.usable_pools | self.pool.other_pools <= fits

    @cached_property
    def usable_pools(self) -> frozenset[int]:
        """The pools of the cluster model that have nodes here, without those that failed."""
        return frozenset(self.pool_of[self.state != FAILED].tolist())

    def nodes_at(self, chosen: NDArray[np.bool_]) -> list[Node]:
        """Return the chosen nodes."""
        return [self.pool.nodes[number] for number in np.flatnonzero(chosen).tolist()]

    def node_table(self, memory: PowerMemory, may_sleep: set[str]) -> NodeTable:
        """Return the pool's nodes in the format of the kernels; power cycles of the last 24 hours count."""
        now_s, nodes = self.snapshot.now_s, [memory.nodes[node.name] for node in self.pool.nodes]
        return NodeTable.at_instant(
            state=self.state,
            busy=self.busy,
            idle=self.is_idle & np.array([node.name in may_sleep for node in self.pool.nodes]),
            idle_since_s=[node.idle_since_s for node in nodes],
            woken_s=[node.woken_s for node in nodes],
            slept_s=[max(node.slept_s, default=0) for node in nodes],
            sleeps=[sum(now_s - at_s < DAY_S for at_s in node.slept_s) for node in nodes],
            day=now_s // DAY_S,
        )


def observe_pool(pool: NodePool, states: Mapping[str, int], *, site: PowerSite, snapshot: ClusterSnapshot) -> PoolState:
    """Return the pool as it is now; `states` are those of its nodes, as in offpeak.model.node_states.

    Its snapshot is valid input of a what-if, whatever the scheduler reports. Raises BadInput if no class is known, or
    if the class lacks a depth that the settings name.
    """
    sleep = site.usual_sleep(node.name for node in pool.nodes)
    state = np.array([states[node.name] for node in pool.nodes], dtype=np.int8)
    per_node = _units_per_node(pool, state, site)
    busy = np.array([_count_busy_units(node, per_node) for node in pool.nodes], dtype=np.int64)
    busy[state == FAILED] = 0
    waiting = tuple(job for job in pool.jobs if is_waiting(job, snapshot.now_s))
    waking = site.waking_s(sleep.node, snapshot)
    up_units = per_node * int(np.isin(state, [ACTIVE, *RISING_DEPTH]).sum())
    usable = [node for node, each in zip(pool.nodes, state, strict=True) if each != FAILED]
    pool_snapshot = Snapshot(
        now_s=snapshot.now_s,
        units_per_node=per_node,
        node_state=state,
        ready_s=_ready_s(pool, state, waking, site, snapshot),
        wake_s=waking,
        running=running_jobs(_find_held_units(pool, state, per_node), snapshot, up_units),
        queued=queued_jobs(list(waiting), usable, snapshot, per_node, shared=site.shared_nodes),
    )
    return PoolState(
        pool=pool,
        sleep=sleep,
        units_per_node=per_node,
        shared_nodes=site.shared_nodes,
        cluster=snapshot,
        state=state,
        busy=busy,
        waiting=waiting,
        deferred=tuple(job for job in pool.jobs if is_deferred(job, snapshot.now_s)),
        snapshot=pool_snapshot,
        watts=_idle_w(pool, site, snapshot),
        awake_beside={node.name: find_awake_beside(node.name, states, site) for node in pool.nodes},
    )


def find_awake_beside(node: str, states: Mapping[str, int], site: PowerSite) -> frozenset[str]:
    """Return the nodes of the enclosure of a node, itself among them, that neither sleep nor are about to."""
    enclosure = site.inventory.enclosure_of.get(node)
    return frozenset(name for name in enclosure.nodes if states.get(name) not in GONE) if enclosure else frozenset()


def _idle_w(pool: NodePool, site: PowerSite, snapshot: ClusterSnapshot) -> dict[int, float]:
    """Return the idle power of a node of each pool, that of the last one with a known class."""
    classes = ((snapshot.pool_of_node[node.name], site.node_class(node.name)) for node in pool.nodes)
    return {number: node_class.idle_w for number, node_class in classes if node_class is not None}


def _units_per_node(pool: NodePool, state: NDArray[np.int8], site: PowerSite) -> int:
    """Return the CPUs of a node if jobs share nodes and all nodes have as many, else 1: whole nodes are counted."""
    cpus = {node.cpus for node, each in zip(pool.nodes, state, strict=True) if each != FAILED}
    return max(cpus.pop(), 1) if site.shared_nodes and len(cpus) == 1 else 1


def _count_busy_units(node: Node, per_node: int) -> int:
    if node.use is NodeUse.FREE:
        return 0
    return min(max(node.cpus_used, 1), per_node)


def _find_held_units(pool: NodePool, state: NDArray[np.int8], per_node: int) -> list[tuple[Job, int]]:
    """Return the jobs that have nodes, with the units that they hold on nodes that have not failed."""
    lost = {node.name for node, each in zip(pool.nodes, state, strict=True) if each == FAILED}
    lost_with_jobs = any(node.use is not NodeUse.FREE for node in pool.nodes if node.name in lost)
    held = []
    for job in filter(holds_nodes, pool.jobs):
        units = count_units(job, per_node)
        if lost_with_jobs and (hosts := job.known_hosts):
            units = units * sum(host not in lost for host in hosts) // len(hosts)
        held.append((job, units))
    return held


def _ready_s(
    pool: NodePool, state: NDArray[np.int8], waking: tuple[int, ...], site: PowerSite, snapshot: ClusterSnapshot
) -> Int64:
    """Return when each transition in progress is expected to end, counted from its first observation."""
    ready_s = np.full(len(state), snapshot.now_s)
    for number, (node, each) in enumerate(zip(pool.nodes, state.tolist(), strict=True)):
        if each in RISING_DEPTH:
            takes_s = waking[RISING_DEPTH[each]]
        elif each == GOING_OFF:
            takes_s = site.enter_s(node.name, OFF, snapshot)
        else:
            continue
        record = snapshot.record(node.name)
        since_s = snapshot.now_s if record is None else min(int(record.observed.since_unix_s), snapshot.now_s)
        ready_s[number] = max(since_s + takes_s, snapshot.now_s + 1)
    return ready_s


LONGEST_UNDECIDED_S = 60
"""After this time nodes are woken for a new job even if the queue loop has not decided on it."""


def find_undecided_jobs(
    view: SchedulerView, decided: Container[str], rules: FlexibilityRules, *, is_capped: bool = False
) -> frozenset[str]:
    """Return the new jobs that may be delayed, by their owners or if power `is_capped`, and are not decided on yet."""
    new = (
        job
        for job in view.jobs
        if job.state is JobState.PENDING
        and job.job_id not in decided
        and view.at_s - job.submit_s < LONGEST_UNDECIDED_S
    )
    hints = ((job.job_id, rules.of(job)) for job in new)
    return frozenset(job_id for job_id, hint in hints if (not hint.now if is_capped else hint.allows_delay))


def without_jobs(view: SchedulerView, jobs: Container[str]) -> SchedulerView:
    """Return the view without these jobs."""
    return replace(view, jobs=tuple(job for job in view.jobs if job.job_id not in jobs))


@dataclass(frozen=True, eq=False)
class PoolTargets:
    """A pool's targets: nodes awake (`floor`), idle and ready (`reserve`), idle and awake (`keep`), and the reason."""

    capacity: CapacityPolicy
    row: int
    floor: int
    reserve: int
    keep: int
    why: str
    memory: PoolMemory

    @classmethod
    def of(cls, pool: PoolState, capacity: CapacityPolicy, before: PoolMemory | None, now_s: int) -> "PoolTargets":
        """Return the targets now. A policy with a period decides once a period; its last decision holds in between."""
        if before is not None and before.policy != capacity.name:
            before = None
        rules, schedule = capacity.rules, capacity.schedule
        row = max(int(np.searchsorted(schedule.at_s, now_s, side="right")) - 1, 0)
        is_due = before is None or not before.decided_s <= now_s < before.decided_s + rules.period_s
        memory = before if before is not None and not is_due else _decide_targets(pool, capacity, row, before, now_s)
        targets, keep = memory.targets, 0
        if rules.worth_s:
            keep = targets.awake
        elif not rules.on_demand:
            targets = replace(targets, awake=_follow_queue(pool, capacity, targets.awake))
        reserve = targets.reserve if rules.period_s else int(schedule.reserve[row])
        idle, ready = int(pool.is_idle.sum()), max(reserve, keep)
        stay = f", {ready} of them stay ready" if ready else ""
        return cls(
            capacity=capacity,
            row=row,
            floor=floor_nodes(rules, targets.awake),
            reserve=reserve,
            keep=keep,
            why=targets.why or f"{capacity.name}: {idle:,} idle node{'' if idle == 1 else 's'}{stay}",
            memory=replace(memory, targets=targets),
        )


def _decide_targets(
    pool: PoolState, capacity: CapacityPolicy, row: int, before: PoolMemory | None, now_s: int
) -> PoolMemory:
    """Return the policy's decision. For a forecast, `awake` are the idle nodes that stay awake."""
    if capacity.decide is not None:
        return PoolMemory(capacity.name, now_s, capacity.decide(pool.snapshot))
    if not capacity.rules.worth_s:
        awake = before.targets.awake if before is not None else int(capacity.schedule.target[row])
        return PoolMemory(capacity.name, now_s, capacity.targets(awake))
    nodes = pool.usable_nodes
    known = None if before is None else before.needs
    needs = copy.deepcopy(known) if known is not None and len(known.used_s) == nodes else new_record(nodes)
    needed = min(-(-pool.snapshot.units_in_use // pool.units_per_node), nodes)
    keep, reserve = expect_needs(needs, now_s, needed, capacity.rules.worth_s)
    return PoolMemory(capacity.name, now_s, capacity.targets(int(keep), int(reserve)), needs)


def _follow_queue(pool: PoolState, capacity: CapacityPolicy, awake: int) -> int:
    """Return the target after it follows the queue: between two levels, or up to the widest queued job."""
    in_use = int(((pool.busy > 0) & (pool.state == ACTIVE)).sum())
    widest = -(-int(pool.snapshot.queued.size.max(initial=0)) // pool.units_per_node)
    return int(follow_queue(capacity.rules, awake, in_use, widest, pool.usable_nodes))
