"""The pools of the table: nodes that compete for the same jobs, these jobs, and the columns of a capacity policy.

Partitions that share nodes or jobs are one pool. `find_pools` is the entry, `observe_pool` brings a pool into columns.

`TypeSplit` makes a pool of each node type, so that capacity is decided by type: a number of CPUs, an amount of memory
and the GPUs of a node. A job counts for the types whose nodes it has, whose nodes the scheduler plans for it, or whose
nodes it would get: awake ones first, without GPUs if it requests none.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.cluster import NodeType
from offpeak.model.constants import DAY_S
from offpeak.model.node_class import NodeClass, break_even_s
from offpeak.model.node_states import ACTIVE, FAILED, OFF
from offpeak.model.snapshot import ASSUMED_RUN_S, QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.policies import used_depths
from offpeak.plugin.capacity.port import TypeShare
from offpeak.plugin.capacity.rules import NodeTable
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.node_types import find_types
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, PowerSite
from offpeak.power.live.node_room import NodeRoom
from offpeak.power.live.observe import GOING_OFF, RISING_DEPTH, PowerRow

CURRENT_STATES = HOLDING | {JobState.PENDING}


@dataclass(frozen=True)
class NodePool:
    """Nodes in the scheduler's order, and the jobs that have or request some of them.

    `other_kinds` are the pools of the cluster model, by number, with nodes of other types that compete for these jobs,
    and `share` is the share of the nodes of all these types; None if there is one type only.
    """

    name: str
    rows: tuple[PowerRow, ...]
    jobs: tuple[Job, ...]
    other_kinds: frozenset[int] = frozenset()
    share: TypeShare | None = None


def find_pools(rows: Iterable[PowerRow], jobs: Iterable[Job]) -> tuple[NodePool, ...]:
    """Return the pools, each named after its partitions. Nodes without a partition are in none."""
    placed = [row for row in rows if row.node.partitions]
    alive = [job for job in jobs if job.state in CURRENT_STATES and job.partitions]
    root: dict[str, str] = {}
    # One representative partition for each partition, the same for all that are connected.
    for partitions in {*(row.node.partitions for row in placed), *(job.partitions for job in alive)}:
        for partition in partitions:
            root.setdefault(partition, partition)
        tops = {root[partition] for partition in partitions}
        if len(tops) > 1:
            first = min(tops)
            root = {partition: first if top in tops else top for partition, top in root.items()}
    rows_of: dict[str, list[PowerRow]] = {}
    jobs_of: dict[str, list[Job]] = {}
    for row in placed:
        rows_of.setdefault(root[row.node.partitions[0]], []).append(row)
    for job in alive:
        jobs_of.setdefault(root[job.partitions[0]], []).append(job)
    names = {top: ",".join(sorted(partition for partition in root if root[partition] == top)) for top in rows_of}
    return tuple(NodePool(names[top], tuple(found), tuple(jobs_of.get(top, ()))) for top, found in rows_of.items())


@dataclass(frozen=True)
class NodeSleep:
    """How most of the switchable nodes of a pool sleep: their class, the depths in use, and the times to wake."""

    node_class: NodeClass
    depths: tuple[int, ...]
    wake_s: tuple[int, ...]

    def pays_s(self, last: int = 0) -> float:
        """Return the idle time that sleep repays, for the `last` nodes of an enclosure or for one that sleeps alone."""
        return min(break_even_s(self.node_class, depth, last=last) for depth in self.depths)


@dataclass(frozen=True, eq=False)
class PoolTable:
    """A pool as the capacity policy sees it.

    By node, in the order of `rows`: `state` as in offpeak.model.node_states, `busy`, the units that jobs hold, and
    `kind`, the node's pool in the cluster model. Where nothing else decides, the last node sleeps first and wakes last.
    `waiting` jobs lack nothing but nodes; `deferred` jobs may start later. `site` has the settings for this pool.
    """

    name: str
    rows: tuple[PowerRow, ...]
    jobs: tuple[Job, ...]
    other_kinds: frozenset[int]
    share: TypeShare | None
    site: PowerSite
    cluster: ClusterSnapshot
    sleep: NodeSleep
    units_per_node: int
    state: NDArray[np.int8]
    busy: Int64
    kind: Int64
    waiting: tuple[Job, ...]
    deferred: tuple[Job, ...]
    snapshot: Snapshot

    @cached_property
    def row_of(self) -> Mapping[str, PowerRow]:
        """The rows by name."""
        return {row.name: row for row in self.rows}

    @cached_property
    def ours(self) -> tuple[PowerRow, ...]:
        """The rows of the nodes that may be switched now."""
        return tuple(row for row in self.rows if row.is_ours)

    @cached_property
    def usable_nodes(self) -> int:
        """Nodes that jobs can count on, asleep or awake."""
        return int((self.state != FAILED).sum())

    @cached_property
    def is_active(self) -> NDArray[np.bool_]:
        """Which nodes are up."""
        return np.equal(self.state, ACTIVE)

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """Which nodes that jobs can count on, asleep or awake, have no job."""
        return np.not_equal(self.state, FAILED) & np.equal(self.busy, 0)

    @cached_property
    def is_idle(self) -> NDArray[np.bool_]:
        """Which nodes are up without a job."""
        return self.is_active & np.equal(self.busy, 0)

    @cached_property
    def rising(self) -> NDArray[np.bool_]:
        """Which nodes come up."""
        return np.isin(self.state, list(RISING_DEPTH))

    @cached_property
    def ready(self) -> NDArray[np.bool_]:
        """Which nodes are up or coming up without a job."""
        return self.is_idle | (self.rising & np.equal(self.busy, 0))

    @cached_property
    def usable_kinds(self) -> frozenset[int]:
        """The pools of the cluster model that have nodes here, without those that failed."""
        return frozenset(self.kind[self.state != FAILED].tolist())

    @cached_property
    def unclear(self) -> frozenset[str]:
        """The nodes of partitions in which a job waits that is not understood: it may need any of them."""
        partitions = {name for job in self.waiting if job.is_unclear for name in job.partitions}
        return frozenset(row.name for row in self.rows if not partitions.isdisjoint(row.node.partitions))

    @cached_property
    def may_leave(self) -> frozenset[str]:
        """The nodes, awake or asleep, that jobs need not have: each of them sleeps, or can."""
        return frozenset(
            row.name
            for row in self.ours
            if (row.is_on or row.is_asleep) and row.state != FAILED and row.name not in self.unclear
            if row.memory.leaving is None and self.snapshot.now_s >= row.memory.rest_until_s
            if row.record is not None and row.record.fault is None
            if row.node_class is not None and all(row.node_class.find_depth(depth) for depth in self.sleep.depths)
        )

    def rows_at(self, chosen: NDArray[np.bool_]) -> list[PowerRow]:
        """Return the chosen rows."""
        return [self.rows[number] for number in np.flatnonzero(chosen).tolist()]

    def is_among(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Return which nodes have these names."""
        return np.array([row.name in names for row in self.rows], dtype=np.bool_)

    def count_by_kind(self, chosen: NDArray[np.bool_]) -> Counter[int]:
        """Return how many of these nodes are in each pool of the cluster model."""
        return Counter(self.kind[chosen].tolist())

    def free_room(self, reserved: Collection[str]) -> NodeRoom:
        """Return the room on the nodes that jobs could get now; `reserved` ones are left out."""
        free = self.is_free & ~self.is_among(reserved)
        return NodeRoom.of(
            self.cluster,
            [row.node for row in self.rows_at(free & self.ready)],
            sleeping=[row.node for row in self.rows_at(free & ~self.ready)],
            partly_used=[row.node for row in self.rows_at(self.is_active & (self.busy > 0))],
            shared=self.site.shared_nodes,
            watts={row.kind: row.node_class.idle_w for row in self.rows if row.node_class is not None},
        )

    def is_selective(self, fitting: Iterable[int]) -> bool:
        """Whether a job that fits these kinds fits some nodes here, but not all that compete for the same jobs."""
        fits = set(fitting)
        return not self.usable_kinds.isdisjoint(fits) and not self.usable_kinds | self.other_kinds <= fits

    def node_table(self, may_sleep: Collection[str]) -> NodeTable:
        """Return the pool's nodes in the format of the kernels; power cycles of the last 24 hours count."""
        now_s, memories = self.snapshot.now_s, [row.memory for row in self.rows]
        return NodeTable.at_instant(
            state=self.state,
            busy=self.busy,
            idle=self.is_idle & self.is_among(may_sleep),
            idle_since_s=[memory.idle_since_s for memory in memories],
            woken_s=[memory.woken_s for memory in memories],
            slept_s=[max(memory.slept_s, default=0) for memory in memories],
            sleeps=[sum(now_s - at_s < DAY_S for at_s in memory.slept_s) for memory in memories],
            day=now_s // DAY_S,
        )


def observe_pool(
    pool: NodePool, rows: Mapping[str, PowerRow], *, site: PowerSite, snapshot: ClusterSnapshot
) -> PoolTable:
    """Return the pool as it is now; `rows` are those of all nodes.

    Its snapshot is valid input of a what-if, whatever the scheduler reports. Raises BadInput if no class is known, or
    if the class lacks a depth that the settings name.
    """
    now_s = snapshot.now_s
    own = order_by_enclosure(pool.rows, rows, site)
    site = site.of_pool(row.node for row in own)
    sleep = _find_usual_sleep(own, site)
    state = np.array([row.state for row in own], dtype=np.int8)
    usable = [row.node for row in own if row.state != FAILED]
    # If jobs share nodes and all nodes have as many CPUs, these are counted, else whole nodes.
    cpus = {node.cpus for node in usable}
    per_node = max(cpus.pop(), 1) if site.shared_nodes and len(cpus) == 1 else 1
    busy = [
        0 if row.node.use is NodeUse.FREE or row.state == FAILED else min(max(row.node.cpus_used, 1), per_node)
        for row in own
    ]
    up = [row for row in own if row.state == ACTIVE or row.state in RISING_DEPTH]
    waiting = tuple(job for job in pool.jobs if job.is_waiting(now_s))
    return PoolTable(
        name=pool.name,
        rows=own,
        jobs=pool.jobs,
        other_kinds=pool.other_kinds,
        share=pool.share,
        site=site,
        cluster=snapshot,
        sleep=sleep,
        units_per_node=per_node,
        state=state,
        busy=np.array(busy, dtype=np.int64),
        kind=np.array([row.kind for row in own], dtype=np.int64),
        waiting=waiting,
        deferred=tuple(job for job in pool.jobs if job.is_deferred(now_s)),
        snapshot=Snapshot(
            now_s=now_s,
            units_per_node=per_node,
            node_state=state,
            ready_s=_find_ready_s(own, sleep.wake_s, now_s),
            wake_s=sleep.wake_s,
            running=list_running(own, pool.jobs, snapshot, per_node, per_node * len(up)),
            queued=list_queued(waiting, usable, snapshot, per_node, shared=site.shared_nodes),
        ),
    )


def order_by_enclosure(own: Iterable[PowerRow], rows: Mapping[str, PowerRow], site: PowerSite) -> tuple[PowerRow, ...]:
    """Return the rows as they are numbered: where nothing else decides, the last one sleeps first and wakes last.

    Last come enclosures that sleep or could as a whole, of these last the one with the fewest nodes awake, then the one
    idle for longest; before them nodes in no enclosure; first enclosures in which a node stays awake.
    """

    def rank(row: PowerRow) -> tuple[int, int, int, str]:
        if (enclosure := site.inventory.enclosure_of.get(row.name)) is None:
            return 1, 0, 0, ""
        beside = [rows[name] for name in row.awake_beside if name in rows]
        idle_since_s = [
            other.memory.idle_since_s
            for other in beside
            if other.is_ours and other.state == ACTIVE and other.node.use is NodeUse.FREE
        ]
        if len(idle_since_s) < len(row.awake_beside):
            return 0, 0, 0, ""
        return 2, -len(row.awake_beside), -max(idle_since_s, default=0), enclosure.name

    return tuple(sorted(own, key=rank))


def _find_usual_sleep(rows: Iterable[PowerRow], site: PowerSite) -> NodeSleep:
    """Return how the most frequent class, with its depths, among the switchable nodes sleeps. Raises BadInput."""
    sleepers: dict[tuple[str, tuple[int, ...]], list[PowerRow]] = {}
    for row in rows:
        if row.opted_in and row.node_class is not None:
            depths = tuple(depth.depth for depth in row.node_class.depths)
            sleepers.setdefault((row.node_class.name, depths), []).append(row)
    if not sleepers:
        hint = "add node_class and a rung to the [hardware] of its nodes, and the nodes to nodes below [agent]; "
        hint += "a standby counts for nodes that have passed the standby test"
        raise BadInput("no node has both a known class and a rung", hint=hint)
    example = max(sleepers.values(), key=len)[0]
    assert example.node_class is not None
    return NodeSleep(example.node_class, used_depths(example.node_class, site.bounds), example.times.wake_s)


def _find_ready_s(rows: Sequence[PowerRow], wake_s: tuple[int, ...], now_s: int) -> Int64:
    """Return when each transition in progress is expected to end, counted from its first observation."""
    ready_s = np.full(len(rows), now_s)
    for number, row in enumerate(rows):
        if row.state in RISING_DEPTH or row.state == GOING_OFF:
            since_s = now_s if row.record is None else min(int(row.record.observed.since_unix_s), now_s)
            takes_s = wake_s[RISING_DEPTH[row.state]] if row.state in RISING_DEPTH else row.times.enter_s[OFF]
            ready_s[number] = max(since_s + takes_s, now_s + 1)
    return ready_s


def list_running(
    rows: Sequence[PowerRow], jobs: Iterable[Job], snapshot: ClusterSnapshot, per_node: int, most_units: int
) -> RunningJobs:
    """Return the columns of the jobs that have nodes, with the units on nodes that have not failed.

    The first ones to start have their units; in all there are at most `most_units`.
    """
    lost = {row.name for row in rows if row.state == FAILED}
    lost_with_jobs = any(row.node.use is not NodeUse.FREE for row in rows if row.name in lost)
    found, left, now_s = [], most_units, snapshot.now_s
    held = [job for job in jobs if job.holds_nodes]
    for job in sorted(held, key=lambda job: now_s if job.start_s is None else job.start_s):
        units = job.count_units(per_node)
        if lost_with_jobs and (hosts := job.known_hosts):
            units = units * sum(host not in lost for host in hosts) // len(hosts)
        size = min(units, left)
        left -= size
        if size > 0:
            start_s = now_s if job.start_s is None else job.start_s
            end_s = expected_end_of(job, snapshot.run_s, now_s)
            found.append((size, min(job.submit_s, start_s), start_s, end_s))
    return RunningJobs.from_rows(found, 4)


def list_queued(
    jobs: Iterable[Job], usable: Sequence[Node], snapshot: ClusterSnapshot, per_node: int, *, shared: bool
) -> QueuedJobs:
    """Return the waiting jobs that the nodes can hold, as columns in queue order.

    An array has a row for each node that it fills.
    """
    room, found = NodeRoom.of(snapshot, usable, shared=shared), []
    for job in sorted(jobs, key=lambda job: (-job.priority, job.submit_s)):
        submit_s = min(max(job.submit_s, job.begin_s or 0), snapshot.now_s)
        for tasks in room.rows(job):
            size = job.count_units(per_node) * (tasks if per_node > 1 else 1)
            if size <= len(usable) * per_node:
                found.append((size, submit_s, expected_run_of(job, snapshot.run_s)))
    return QueuedJobs.from_rows(found, 3)


def expected_run_of(job: Job, run_s: Mapping[str, int]) -> int:
    """Return the run time of the job by the predictions `run_s`, at most its limit."""
    limit_s = ASSUMED_RUN_S if job.limit_s is None else job.limit_s
    return QueuedJobs.expected_run(run_s.get(job.job_id, limit_s), limit_s)


def expected_end_of(job: Job, run_s: Mapping[str, int], now_s: int) -> int:
    """Return when a running job is expected to end by the predictions."""
    limit_s = ASSUMED_RUN_S if job.limit_s is None else job.limit_s
    start_s = now_s if job.start_s is None else job.start_s
    return RunningJobs.expected_end(start_s, expected_run_of(job, run_s), limit_s, now_s)


@dataclass
class TypeSplit:
    """A pool by node types. Jobs are placed one after the other; `load` is what each type has to do, by its nodes."""

    pool: NodePool
    types: Mapping[NodeType, Sequence[PowerRow]]
    snapshot: ClusterSnapshot
    shared: bool
    room: NodeRoom
    usable: Sequence[int]
    load: list[float]

    @classmethod
    def of(cls, pool: NodePool, snapshot: ClusterSnapshot, *, shared: bool) -> Self:
        """Return the split of a pool."""
        row_of = {row.name: row for row in pool.rows}
        found = find_types([row.node for row in pool.rows])
        types = {kind: [row_of[node.name] for node in nodes] for kind, nodes in found.items()}
        free = [row for row in pool.rows if row.state != FAILED and row.node.use is NodeUse.FREE]
        ready = [row.state in {ACTIVE, *RISING_DEPTH} for row in free]
        awake = [row.node for row, is_ready in zip(free, ready, strict=True) if is_ready]
        sleeping = [row.node for row, is_ready in zip(free, ready, strict=True) if not is_ready]
        return cls(
            pool,
            types,
            snapshot,
            shared,
            room=NodeRoom.of(snapshot, awake, sleeping=sleeping, shared=shared),
            usable=[sum(row.state != FAILED for row in rows) for rows in types.values()],
            load=[0.0] * len(types),
        )

    def pools(self) -> tuple[NodePool, ...]:
        """Return the pools of the types, the largest first; the pool itself if all nodes are of one type."""
        if len(self.types) == 1:
            return (self.pool,)
        numbers = [{row.kind for row in rows} for rows in self.types.values()]
        every = frozenset[int]().union(*numbers)
        pools, before = [], 0
        for (equipment, rows), own, jobs in zip(self.types.items(), numbers, self.place_all(), strict=True):
            share = TypeShare(before, before + len(rows), len(self.pool.rows))
            name = f"{self.pool.name}: {equipment.equipment}"
            pools.append(NodePool(name, tuple(rows), tuple(jobs), every - own, share))
            before += len(rows)
        return tuple(pools)

    @cached_property
    def _type_of_node(self) -> Mapping[str, int]:
        return {row.name: at for at, rows in enumerate(self.types.values()) for row in rows}

    @cached_property
    def _type_of_pool(self) -> Mapping[int, int]:
        return {row.kind: at for at, rows in enumerate(self.types.values()) for row in rows}

    @cached_property
    def _used(self) -> Sequence[int]:
        return [sum(row.node.use is NodeUse.USED for row in rows) for rows in self.types.values()]

    @cached_property
    def _cpus(self) -> Sequence[int]:
        return [max(equipment.cores, 1) for equipment in self.types]

    def place_all(self) -> list[list[Job]]:
        """Return the parts of jobs for each type: of jobs with nodes, of waiting ones in queue order, of later ones."""
        now_s = self.snapshot.now_s
        found: list[list[Job]] = [[] for _ in self.types]
        current = [job for job in self.pool.jobs if job.holds_nodes or job.is_waiting(now_s) or job.is_deferred(now_s)]
        current.sort(key=lambda job: (not job.holds_nodes, job.is_deferred(now_s), -job.priority, job.submit_s))
        for job in current:
            for at, part in self._place(job):
                found[at].append(part)
        return found

    def _place(self, job: Job) -> Iterator[tuple[int, Job]]:
        names = job.known_hosts or tuple(job.required_hosts)
        by_type: dict[int, list[str]] = {}
        for name in names:
            if name in self._type_of_node:
                by_type.setdefault(self._type_of_node[name], []).append(name)
        if job.is_unclear and not by_type:
            # Any of these nodes may be what the job needs.
            yield from ((at, job) for at in self._candidates(job))
        elif by_type:
            more = max(max(job.nodes, 1) - len(names), 0)
            for at, hosts in by_type.items():
                yield self._part(job, at, len(hosts) + more, hosts=",".join(hosts) if job.hosts else "")
                more = 0
        elif job.state is JobState.PENDING and self.room.left(job) >= max(job.nodes, 1):
            yield from self._take(job)
        elif candidates := self._candidates(job):
            yield from self._queue(job, candidates)

    def _candidates(self, job: Job) -> list[int]:
        """Return the types that the job could use; a job that has nodes is on a type with used nodes."""
        found = sorted(
            {self._type_of_pool[pool] for pool in self.snapshot.candidate_pools(job) if pool in self._type_of_pool}
        )
        return [at for at in found if self._used[at]] or found if job.holds_nodes else found

    def _take(self, job: Job) -> Iterator[tuple[int, Job]]:
        """Place the job on free nodes; the tasks of an array that find none wait for the type with most of them."""
        startable = self.room.startable_tasks(job)
        nodes: dict[int, int] = {}
        tasks: dict[int, int] = {}
        for pool, placed in self.room.take(job).items():
            at = self._type_of_pool[pool]
            nodes[at] = nodes.get(at, 0) + len(placed)
            tasks[at] = tasks.get(at, 0) + sum(placed)
        if not job.array_id or not nodes:
            yield from (self._part(job, at, count) for at, count in nodes.items())
            return
        width = max(job.nodes, 1)
        parts = {at: (count // width if width > 1 else tasks[at]) for at, count in nodes.items()}
        first = max(parts, key=lambda at: parts[at])
        parts[first] += startable - sum(parts.values())
        for at, count in parts.items():
            if count:
                self.load[at] += count * self._size(job, at) / max(self.usable[at], 1)
                yield at, job._replace(tasks=count, task_limit=0)

    def _queue(self, job: Job, candidates: Sequence[int]) -> Iterator[tuple[int, Job]]:
        """Place the job behind the shortest queue of a type with enough nodes, else on several types."""
        width = max(job.nodes, 1)
        wide = [at for at in candidates if self.usable[at] >= width]
        if wide:
            yield self._part(job, min(wide, key=lambda at: self.load[at]), width)
            return
        for at in sorted(candidates, key=lambda at: -self.usable[at]):
            nodes = min(width, self.usable[at])
            width -= nodes
            if nodes:
                yield self._part(job, at, nodes)

    def _part(self, job: Job, at: int, nodes: int, hosts: str = "") -> tuple[int, Job]:
        """Return the part of a job on so many nodes of a type."""
        share = nodes / max(job.nodes, 1)
        self.load[at] += share * self._size(job, at) / max(self.usable[at], 1)
        if share == 1:
            return at, job
        return at, job._replace(nodes=nodes, cpus=max(round(job.cpus * share), 1), hosts=hosts)

    def _size(self, job: Job, at: int) -> float:
        """Return how many nodes of the type the job, or one of its tasks, fills."""
        if job.whole_nodes or not self.shared:
            return max(job.nodes, 1)
        return job.cpus / self._cpus[at]
