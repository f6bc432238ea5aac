"""Which nodes of a pool fall asleep and which wake, within the bounds of single nodes and those of the site.

Idle nodes with a feature that a waiting job requests stay awake: a node of another kind would not help that job.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.model.node_states import ACTIVE, DEPTHS, asleep
from offpeak.model.orders import NodeOrder
from plugin.capacity.rules import NEVER, NodeTable
from plugin.capacity.sleepers import NO_DEPTH, SleepCriteria, pick_sleepers
from plugin.scheduler.job import Job
from plugin.scheduler.node import Node
from power.lifecycle.node_record import ASLEEP, NodeState
from power.live.cluster_snapshot import ORDER_OF, ClusterSnapshot, PowerSite, format_duration, lead_s
from power.live.cycle_memory import NodeMemory, PoolMemory
from power.live.node_demand import PoolTargets, UpcomingDemand
from power.live.node_steps import find_admin_override, find_exclusion, may_still_go_down
from power.live.pool_state import PoolState
from sim_backend.engine.power import bitmap

FEATURE_NAME = re.compile(r"[\w.-]+")


def keep_for_features(pool: PoolState) -> frozenset[str]:
    """Return the idle nodes that jobs without a plan ask for by their features, as many as the jobs want."""
    known = {feature for node in pool.pool.nodes for feature in node.features}
    kept: set[str] = set()
    for job in pool.waiting if known else ():
        requested = _requested_features(job, known)
        if requested and not job.hosts:
            kept.update(_list_idle_with(pool, requested, kept)[: pool.nodes_of(job)])
    return frozenset(kept)


def _requested_features(job: Job, known: set[str]) -> frozenset[str]:
    """Return the features that the job's needs name."""
    return frozenset(FEATURE_NAME.findall(job.needs)) & known


def _list_idle_with(pool: PoolState, requested: frozenset[str], kept: set[str]) -> list[str]:
    nodes = zip(pool.pool.nodes, pool.is_idle, strict=True)
    return [node.name for node, idle in nodes if idle and node.name not in kept and requested <= set(node.features)]


@dataclass(frozen=True)
class PoolPlan:
    """Of one pool: who is to sleep, by which order and why; who is to wake, and why; what is remembered."""

    sleep: Mapping[str, tuple[NodeOrder, str]]
    wake: Mapping[str, str]
    memory: PoolMemory


@dataclass(frozen=True)
class NodeChoice:
    """Which nodes may be put to sleep now, and how many at most; which can be woken or called back, the best first."""

    may_sleep: frozenset[str]
    most: int
    may_wake: tuple[str, ...]


def plan_pool(
    pool: PoolState, targets: PoolTargets, ahead: UpcomingDemand, nodes: Mapping[str, NodeMemory], choice: NodeChoice
) -> PoolPlan:
    """Return the plan. While nodes are missing none is put to sleep."""
    missing = _count_missing(pool, targets, ahead)
    if missing > 0:
        why = ahead.why if ahead.idle_now and ahead.why else targets.why
        return PoolPlan({}, dict.fromkeys(choice.may_wake[:missing], why), targets.memory)
    return PoolPlan(_choose_sleepers(pool, targets, ahead, nodes, choice), {}, targets.memory)


def _count_missing(pool: PoolState, targets: PoolTargets, ahead: UpcomingDemand) -> int:
    """Return how many nodes have to be awake besides those that are, or come up."""
    active, rising = int((pool.state == ACTIVE).sum()), int(pool.rising.sum())
    ready = pool.is_idle | (pool.rising & (pool.busy == 0))
    free = ready & ~_find_reserved(pool, ahead)
    return max(targets.floor - active - rising, targets.reserve - int(ready.sum()), ahead.idle_now - int(free.sum()))


def _find_reserved(pool: PoolState, ahead: UpcomingDemand) -> NDArray[np.bool_]:
    """Return which nodes are kept for a reservation or a planned start: no other job gets them."""
    return np.array([node.name in ahead.spoken_for for node in pool.pool.nodes], dtype=np.bool_)


def _choose_sleepers(
    pool: PoolState, targets: PoolTargets, ahead: UpcomingDemand, nodes: Mapping[str, NodeMemory], choice: NodeChoice
) -> dict[str, tuple[NodeOrder, str]]:
    """Return the nodes beyond those that have to be awake, chosen as in a replay."""
    rules, course = targets.capacity.rules, targets.capacity.course
    if (course.after_s[targets.row] == NEVER).all():
        return {}
    idle, free = int(pool.is_idle.sum()), int((pool.is_idle & ~_find_reserved(pool, ahead)).sum())
    spare = min(idle - max(targets.reserve, targets.keep), free - ahead.idle_kept)
    allowed = min(int((pool.state == ACTIVE).sum()) - targets.floor, spare, choice.most)
    depth = np.full(len(pool.state), NO_DEPTH)
    table = make_node_table(pool, nodes, choice.may_sleep)
    now_s = pool.snapshot.now_s
    criteria = SleepCriteria(table, rules, course, targets.row, now_s, not rules.on_demand)
    pick_sleepers(criteria, max(allowed, 0), depth)
    return {
        node.name: (ORDER_OF[each], _describe_sleep(pool, targets, now_s - nodes[node.name].idle_since_s))
        for node, each in zip(pool.pool.nodes, depth.tolist(), strict=True)
        if each in ORDER_OF
    }


def make_node_table(pool: PoolState, nodes: Mapping[str, NodeMemory], may_sleep: frozenset[str]) -> NodeTable:
    """Return the pool's nodes as the kernels take them; cycles count within the last 24 hours."""
    names = [node.name for node in pool.pool.nodes]
    now_s = pool.snapshot.now_s

    def column(values: list[int]) -> Int64:
        return np.array(values, dtype=np.int64)

    return NodeTable(
        state=pool.state.copy(),
        busy=pool.busy.copy(),
        idle=bitmap(pool.is_idle & np.array([name in may_sleep for name in names])),
        idle_since_s=column([nodes[name].idle_since_s for name in names]),
        woken_s=column([nodes[name].woken_s for name in names]),
        slept_s=column([max(nodes[name].slept_s, default=0) for name in names]),
        sleeps=column([sum(now_s - at_s < DAY_S for at_s in nodes[name].slept_s) for name in names]),
        day=np.full(len(names), now_s // DAY_S),
    )


def sort_lightest_first(pool: PoolState, names: frozenset[str]) -> list[str]:
    """Return the sleeping nodes of these, the lightest sleepers first, and of them those that sleep last."""
    found = []
    for depth in range(len(DEPTHS)):
        sleeping = pool.state == asleep(depth)
        found += [
            node.name for node, each in zip(pool.pool.nodes, sleeping, strict=True) if each and node.name in names
        ]
    return found


def _describe_sleep(pool: PoolState, targets: PoolTargets, idle_s: int) -> str:
    pays_s = pool.pays_s
    return f"{targets.why}; idle {format_duration(idle_s)}; break-even {format_duration(pays_s)}"


@dataclass(frozen=True)
class NodeCandidates:
    """What choices are made from: the site as it is seen, its nodes' memories, and who is not to be touched."""

    site: PowerSite
    snapshot: ClusterSnapshot
    nodes: Mapping[str, NodeMemory]
    maintained: frozenset[str]

    def is_ours(self, node: Node) -> bool:
        """Whether the node may be switched now, and nobody else has a hand on it."""
        if node.name not in self.site.opted_in or node.name in self.maintained:
            return False
        record, now = self.snapshot.record(node.name), self.snapshot.now
        return (
            record is not None and not find_exclusion(node, record, now) and not find_admin_override(node, record, now)
        )

    def choice(self, pool: PoolState, ahead: UpcomingDemand, most: int) -> NodeChoice:
        """Return who of a pool may be put to sleep, `most` of them, and who can be woken."""
        ours = [node for node in pool.pool.nodes if self.is_ours(node)]
        kept = keep_for_features(pool)
        may_sleep = {node.name for node in ours if self._may_sleep(node, pool, ahead) and node.name not in kept}
        return NodeChoice(frozenset(may_sleep), most, self._may_wake(ours, pool, ahead))

    def _may_sleep(self, node: Node, pool: PoolState, ahead: UpcomingDemand) -> bool:
        memory, record, now_s = self.nodes[node.name], self.snapshot.record(node.name), self.snapshot.now_s
        if memory.leaving is not None or now_s < memory.rest_until_s or not self._can_sleep(node.name, pool):
            return False
        if record is None or record.observed.state is not NodeState.ON or record.fault is not None:
            return False
        within_s = pool.pays_s + lead_s(self.site, self.snapshot, node.name)
        is_planned = node.planned and node.name not in ahead.nodes
        return not is_planned and not ahead.keeps(node.name, within_s, now_s)

    def _can_sleep(self, name: str, pool: PoolState) -> bool:
        """Whether its kind of node has the depths that the pool uses."""
        node_class = self.site.node_class(name)
        return node_class is not None and all(node_class.find_depth(depth) for depth in pool.depths)

    def _may_wake(self, ours: list[Node], pool: PoolState, ahead: UpcomingDemand) -> tuple[str, ...]:
        """Return first who is requested for by name, then who has not left yet, then who sleeps lightly."""
        requested = [node.name for node in ours if self.to_wake(node.name, ahead)]
        back = [node.name for node in ours if self._can_come_back(node)]
        rested = frozenset(node.name for node in ours if self._is_rested(node))
        return tuple(dict.fromkeys([*requested, *back, *sort_lightest_first(pool, rested)]))

    def to_wake(self, name: str, ahead: UpcomingDemand) -> str:
        """Return why a sleeping node is to be woken now, "" if nobody asks for it."""
        record = self.snapshot.record(name)
        if record is None or record.observed.state not in ASLEEP:
            return ""
        return ahead.to_wake(name, lead_s(self.site, self.snapshot, name), self.snapshot.now_s)

    def _can_come_back(self, node: Node) -> bool:
        record = self.snapshot.record(node.name)
        if self.nodes[node.name].leaving is None or record is None or record.observed.state is not NodeState.ON:
            return False
        return not may_still_go_down(record, self.snapshot.now)

    def _is_rested(self, node: Node) -> bool:
        slept_s = max(self.nodes[node.name].slept_s, default=0)
        return not node.failed and self.snapshot.now_s - slept_s >= self.site.bounds.min_asleep_s


def count_most_to_sleep(candidates: NodeCandidates, nodes: tuple[Node, ...], states: Mapping[str, int]) -> int:
    """Return how many more nodes may be on their way to sleep: in a sweep, and so that enough stay on."""
    agent = candidates.site.agent
    leaving = sum(memory.leaving is not None for memory in candidates.nodes.values())
    ours = [node for node in nodes if node.name in candidates.site.opted_in]
    left_on = sum(states[node.name] == ACTIVE for node in ours)
    return max(min(agent.nodes_per_sweep - leaving, left_on - agent.min_on), 0)
