"""A pool at one instant, in the arrays that a capacity policy and its kernels take."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.model.arrays import Int64
from offpeak.model.node_class import NodeClass, break_even_s
from offpeak.model.node_states import ACTIVE, FAILED, OFF, going_down
from offpeak.model.snapshot import Snapshot
from plugin.capacity.policies import used_depths
from plugin.scheduler.job import Job
from plugin.scheduler.node import Node, NodeUse
from power.live.pools import Pool
from power.live.queue import holds_nodes, is_waiting, queued_jobs, running_jobs, units_of
from power.live.site import PowerSite, Sight
from power.live.standing import RISING
from power.live.times import enter_s, waking_s


@dataclass(frozen=True, eq=False)
class PoolState:
    """`state` as in offpeak.model.node_states and `busy`, the units that jobs hold, by node in the pool's order.

    `node_class` is that of most of its nodes that may be switched, `depths` are those that are used, and sleep pays
    after `pays_s`.
    """

    pool: Pool
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
        return -(-units_of(job, self.units_per_node) // self.units_per_node)


def pool_state(pool: Pool, states: Mapping[str, int], *, site: PowerSite, sight: Sight) -> PoolState:
    """Return the pool as it is now; `states` are those of its nodes, as in offpeak.model.node_states.

    Its snapshot can be planned with, whatever the scheduler says. BadInput where no class is known, or a depth that
    is to be used is none of its class.
    """
    usual, node_class = _usual(pool, site)
    depths = used_depths(node_class, site.bounds)
    pays_s = min(break_even_s(node_class, depth) for depth in depths)
    state = np.array([states[node.name] for node in pool.nodes], dtype=np.int8)
    per_node = _units_per_node(pool, state, site)
    busy = np.array([_busy(node, per_node) for node in pool.nodes], dtype=np.int64)
    busy[state == FAILED] = 0
    waiting = tuple(job for job in pool.jobs if is_waiting(job, sight.now_s))
    waking = waking_s(site, sight, usual)
    up_units = per_node * int(np.isin(state, [ACTIVE, *RISING]).sum())
    snapshot = Snapshot(
        now_s=sight.now_s,
        units_per_node=per_node,
        node_state=state,
        ready_s=_ready_s(pool, state, waking, site, sight),
        wake_s=waking,
        running=running_jobs(_held(pool, state, per_node), sight, up_units),
        queued=queued_jobs(list(waiting), sight, per_node, per_node * int((state != FAILED).sum())),
    )
    return PoolState(pool, node_class, depths, pays_s, per_node, state, busy, waiting, snapshot)


def _units_per_node(pool: Pool, state: NDArray[np.int8], site: PowerSite) -> int:
    """Return the CPUs of a node where jobs share nodes and all have as many, else 1: whole nodes are counted."""
    cpus = {node.cpus for node, each in zip(pool.nodes, state, strict=True) if each != FAILED}
    return max(cpus.pop(), 1) if site.shared_nodes and len(cpus) == 1 else 1


def _busy(node: Node, per_node: int) -> int:
    if node.use is NodeUse.FREE:
        return 0
    return min(max(node.cpus_used, 1), per_node)


def _held(pool: Pool, state: NDArray[np.int8], per_node: int) -> list[tuple[Job, int]]:
    """Return the jobs that have nodes with the units that they hold of nodes that count."""
    lost = {node.name for node, each in zip(pool.nodes, state, strict=True) if each == FAILED}
    lost_with_jobs = any(node.use is not NodeUse.FREE for node in pool.nodes if node.name in lost)
    held = []
    for job in filter(holds_nodes, pool.jobs):
        units = units_of(job, per_node)
        if lost_with_jobs and job.hosts:
            hosts = expand(job.hosts)
            units = units * sum(host not in lost for host in hosts) // len(hosts)
        held.append((job, units))
    return held


def _ready_s(pool: Pool, state: NDArray[np.int8], waking: tuple[int, ...], site: PowerSite, sight: Sight) -> Int64:
    """Return when each transition that is under way is expected to end, from when it was first seen."""
    ready_s = np.full(len(state), sight.now_s)
    for at, (node, each) in enumerate(zip(pool.nodes, state.tolist(), strict=True)):
        if each in RISING:
            takes_s = waking[(each - 4) // 3]
        elif each == going_down(OFF):
            takes_s = enter_s(site, sight, node.name, OFF)
        else:
            continue
        life = sight.life(node.name)
        since_s = sight.now_s if life is None else min(int(life.seen.since_unix_s), sight.now_s)
        ready_s[at] = max(since_s + takes_s, sight.now_s + 1)
    return ready_s


def _usual(pool: Pool, site: PowerSite) -> tuple[str, NodeClass]:
    """Return the first node of the class that most nodes have that may be switched, and that class."""
    known = ((node.name, site.node_class(node.name)) for node in pool.nodes if node.name in site.opted_in)
    classes = [(name, node_class) for name, node_class in known if node_class is not None]
    if not classes:
        hint = "add node_class and a rung to their [hardware], and them to nodes below [agent]"
        raise BadInput("of none of its nodes both a class and a rung are known", hint=hint)
    usual = Counter(node_class.name for _, node_class in classes).most_common(1)[0][0]
    return next(each for each in classes if each[1].name == usual)
