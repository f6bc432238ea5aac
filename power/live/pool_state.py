"""A pool at one instant, in the arrays that a capacity policy and its kernels take.

A pool is a set of nodes that compete for the same jobs: partitions that share nodes or jobs are one pool. Its jobs are
those that run, and those that could start now, in the order of the queue.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.model.node_class import NodeClass, break_even_s
from offpeak.model.node_states import ACTIVE, FAILED, OFF, going_down
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from plugin.capacity.policies import used_depths
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node, NodeUse
from power.live.cluster_snapshot import ClusterSnapshot, PowerSite, enter_s, waking_s
from power.live.node_steps import RISING

CURRENT_STATES = HOLDING | {JobState.PENDING}


@dataclass(frozen=True)
class NodePool:
    """Nodes in the order in which the scheduler tells of them, and the jobs that have or want some of them."""

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]


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
    """Return one partition for each that is connected with it, the same for all of them."""
    root: dict[str, str] = {}
    for partitions in together:
        for each in partitions:
            root.setdefault(each, each)
        tops = {root[each] for each in partitions}
        first = min(tops, default="")
        root = {each: first if top in tops else top for each, top in root.items()} if len(tops) > 1 else root
    return root


ASSUMED_RUN_S = DAY_S
"""What a job without a limit and without a prediction is taken to run."""

CANNOT_START = ("Dependency", "BeginTime", "JobHeld", "Assoc", "QOS", "Licenses", "Reservation", "Partition", "Account")
"""What the reasons begin with of jobs that no free node would help."""


def is_waiting(job: Job, now_s: int) -> bool:
    """Whether nothing but nodes is missing for the job to start."""
    if job.state is not JobState.PENDING or job.reservation or job.reason.startswith(CANNOT_START):
        return False
    return job.begin_s is None or job.begin_s <= now_s


def is_deferred(job: Job, now_s: int) -> bool:
    """Whether the job may start later only, at a time that is known."""
    return job.state is JobState.PENDING and job.begin_s is not None and job.begin_s > now_s


def holds_nodes(job: Job) -> bool:
    """Whether the job has nodes."""
    return job.state in HOLDING


def count_units(job: Job, units_per_node: int) -> int:
    """Return the units that a job has or asks for, one at least."""
    if units_per_node == 1:
        return max(job.nodes, 1)
    return max(job.nodes * units_per_node if job.whole_nodes else job.cpus, 1)


def running_jobs(jobs: list[tuple[Job, int]], snapshot: ClusterSnapshot, most_units: int) -> RunningJobs:
    """Return the columns of jobs with the units that they have, cut where all together have more than there are."""
    rows, left = [], most_units
    for job, units in sorted(jobs, key=lambda pair: _job_start_s(pair[0], snapshot.now_s)):
        size = min(units, left)
        left -= size
        start_s = _job_start_s(job, snapshot.now_s)
        if size > 0:
            rows.append((size, min(job.submit_s, start_s), start_s, _job_end_s(job, start_s, snapshot)))
    return RunningJobs(*_to_columns(rows, 4))


def queued_jobs(jobs: list[Job], snapshot: ClusterSnapshot, units_per_node: int, most_units: int) -> QueuedJobs:
    """Return the columns of the jobs that wait, the first to start first, without those that are too wide."""
    ordered = sorted(jobs, key=lambda job: (-job.priority, job.submit_s))
    sized = [(count_units(job, units_per_node), job) for job in ordered]
    rows = [
        (size, min(max(job.submit_s, job.begin_s or 0), snapshot.now_s), _job_run_s(job, snapshot))
        for size, job in sized
        if size <= most_units
    ]
    return QueuedJobs(*_to_columns(rows, 3))


def _job_start_s(job: Job, now_s: int) -> int:
    return now_s if job.start_s is None else job.start_s


def _job_run_s(job: Job, snapshot: ClusterSnapshot) -> int:
    limit_s = ASSUMED_RUN_S if job.limit_s is None else job.limit_s
    return max(min(snapshot.run_s.get(job.job_id, limit_s), limit_s), 1)


def _job_end_s(job: Job, start_s: int, snapshot: ClusterSnapshot) -> int:
    """Return when a job that has nodes is expected to end: one that has outlived its prediction, at its limit."""
    predicted_s = start_s + _job_run_s(job, snapshot)
    if predicted_s > snapshot.now_s or job.job_id not in snapshot.run_s:
        return predicted_s
    return start_s + (ASSUMED_RUN_S if job.limit_s is None else job.limit_s)


def _to_columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Int64]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)


@dataclass(frozen=True, eq=False)
class PoolState:
    """`state` as in offpeak.model.node_states and `busy`, the units that jobs hold, by node in the pool's order.

    `node_class` is that of most of its nodes that may be switched, `depths` are those that are used, and sleep pays
    after `pays_s`.
    """

    pool: NodePool
    node_class: NodeClass
    depths: tuple[int, ...]
    pays_s: float
    units_per_node: int
    state: NDArray[np.int8]
    busy: Int64
    waiting: tuple[Job, ...]
    snapshot: Snapshot

    @cached_property
    def usable_nodes(self) -> int:
        """Nodes that jobs can count on, asleep or awake."""
        return int((self.state != FAILED).sum())

    @cached_property
    def free_nodes(self) -> int:
        """Of these, the nodes without a job."""
        return int(((self.state != FAILED) & (self.busy == 0)).sum())

    @cached_property
    def is_idle(self) -> NDArray[np.bool_]:
        """Which nodes are up without a job."""
        idle: NDArray[np.bool_] = (self.state == ACTIVE) & (self.busy == 0)
        return idle

    @cached_property
    def rising(self) -> NDArray[np.bool_]:
        """Which nodes come up."""
        return np.isin(self.state, list(RISING))

    def nodes_of(self, job: Job) -> int:
        """Return how many whole nodes the job's units fill."""
        return -(-count_units(job, self.units_per_node) // self.units_per_node)


def observe_pool(pool: NodePool, states: Mapping[str, int], *, site: PowerSite, snapshot: ClusterSnapshot) -> PoolState:
    """Return the pool as it is now; `states` are those of its nodes, as in offpeak.model.node_states.

    Its snapshot can be planned with, whatever the scheduler says. BadInput where no class is known, or a depth that
    is to be used is none of its class.
    """
    usual, node_class = _find_usual_class(pool, site)
    depths = used_depths(node_class, site.bounds)
    pays_s = min(break_even_s(node_class, depth) for depth in depths)
    state = np.array([states[node.name] for node in pool.nodes], dtype=np.int8)
    per_node = _units_per_node(pool, state, site)
    busy = np.array([_count_busy_units(node, per_node) for node in pool.nodes], dtype=np.int64)
    busy[state == FAILED] = 0
    waiting = tuple(job for job in pool.jobs if is_waiting(job, snapshot.now_s))
    waking = waking_s(site, snapshot, usual)
    up_units = per_node * int(np.isin(state, [ACTIVE, *RISING]).sum())
    pool_snapshot = Snapshot(
        now_s=snapshot.now_s,
        units_per_node=per_node,
        node_state=state,
        ready_s=_ready_s(pool, state, waking, site, snapshot),
        wake_s=waking,
        running=running_jobs(_find_held_units(pool, state, per_node), snapshot, up_units),
        queued=queued_jobs(list(waiting), snapshot, per_node, per_node * int((state != FAILED).sum())),
    )
    return PoolState(
        pool=pool,
        node_class=node_class,
        depths=depths,
        pays_s=pays_s,
        units_per_node=per_node,
        state=state,
        busy=busy,
        waiting=waiting,
        snapshot=pool_snapshot,
    )


def _units_per_node(pool: NodePool, state: NDArray[np.int8], site: PowerSite) -> int:
    """Return the CPUs of a node where jobs share nodes and all have as many, else 1: whole nodes are counted."""
    cpus = {node.cpus for node, each in zip(pool.nodes, state, strict=True) if each != FAILED}
    return max(cpus.pop(), 1) if site.shared_nodes and len(cpus) == 1 else 1


def _count_busy_units(node: Node, per_node: int) -> int:
    if node.use is NodeUse.FREE:
        return 0
    return min(max(node.cpus_used, 1), per_node)


def _find_held_units(pool: NodePool, state: NDArray[np.int8], per_node: int) -> list[tuple[Job, int]]:
    """Return the jobs that have nodes with the units that they hold of nodes that count."""
    lost = {node.name for node, each in zip(pool.nodes, state, strict=True) if each == FAILED}
    lost_with_jobs = any(node.use is not NodeUse.FREE for node in pool.nodes if node.name in lost)
    held = []
    for job in filter(holds_nodes, pool.jobs):
        units = count_units(job, per_node)
        if lost_with_jobs and job.hosts:
            hosts = expand(job.hosts)
            units = units * sum(host not in lost for host in hosts) // len(hosts)
        held.append((job, units))
    return held


def _ready_s(
    pool: NodePool, state: NDArray[np.int8], waking: tuple[int, ...], site: PowerSite, snapshot: ClusterSnapshot
) -> Int64:
    """Return when each transition that is under way is expected to end, from when it was first seen."""
    ready_s = np.full(len(state), snapshot.now_s)
    for at, (node, each) in enumerate(zip(pool.nodes, state.tolist(), strict=True)):
        if each in RISING:
            takes_s = waking[(each - 4) // 3]
        elif each == going_down(OFF):
            takes_s = enter_s(site, snapshot, node.name, OFF)
        else:
            continue
        record = snapshot.record(node.name)
        since_s = snapshot.now_s if record is None else min(int(record.observed.since_unix_s), snapshot.now_s)
        ready_s[at] = max(since_s + takes_s, snapshot.now_s + 1)
    return ready_s


def _find_usual_class(pool: NodePool, site: PowerSite) -> tuple[str, NodeClass]:
    """Return the first node of the class that most nodes have that may be switched, and that class."""
    known = ((node.name, site.node_class(node.name)) for node in pool.nodes if node.name in site.opted_in)
    classes = [(name, node_class) for name, node_class in known if node_class is not None]
    if not classes:
        hint = "add node_class and a rung to their [hardware], and them to nodes below [agent]"
        raise BadInput("of none of its nodes both a class and a rung are known", hint=hint)
    usual = Counter(node_class.name for _, node_class in classes).most_common(1)[0][0]
    return next(each for each in classes if each[1].name == usual)
