"""What a cap on power changes in the plan of a pool: more idle nodes sleep, fewer wake, and the rest is closed to jobs.

A cap is an order of the site, so idle nodes sleep at once, without a time-out or a forecast: as many as are needed to
get below it, but none of those that the settings keep awake. A free node stays open to jobs only if a job may start on
it below the cap: for a job that waits and that the queue loop lets start, or if a job of full power would still fit.
All other free nodes are withdrawn, because the scheduler would start any new job there, or wake them for it.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from offpeak.display import watts_text
from offpeak.model.facility import PowerCap
from offpeak.model.node_states import ACTIVE, FAILED, ORDER_OF_DEPTH
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.job import HOLDING
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.live.cluster_snapshot import HANDOVER_S, ClusterSnapshot, PowerMemory, PowerSite
from offpeak.power.live.node_steps import GOING_OFF, ObservedNode
from offpeak.power.live.pool_plan import (
    LeastNodes,
    PoolPlan,
    find_nodes_that_may_leave,
    list_names_always_offered,
    list_nodes_to_wake,
)
from offpeak.power.live.pool_state import RISING_DEPTH, PoolState

OPEN_AGAIN = 1.1
"""A withdrawn node is opened if this multiple of its power is free: meters and forecasts move a little."""


@dataclass(frozen=True)
class PowerBudget:
    """The least of the caps that hold, or begin so soon that nodes must sleep now; `draw_w` is that of all nodes.

    `open_w` is what jobs may draw in addition on the nodes that are open to any job. `held_back_w` is the part of the
    draw that ends once `nodes_per_sweep` lets more idle nodes sleep.
    """

    cap: PowerCap
    draw_w: float
    open_w: float = 0.0
    held_back_w: float = 0.0

    @property
    def spare_w(self) -> float:
        """The power that is left, below 0 if the cap is exceeded."""
        return self.cap.cap_w - self.draw_w

    @property
    def why(self) -> str:
        """The cap as the reason of a change."""
        return f"cap of {watts_text(self.cap.cap_w)}: {self.cap.reason}"

    @property
    def text(self) -> str:
        """The cap and the expected draw in words."""
        return f"{self.why}; expected draw {watts_text(self.draw_w)}"


def find_budget(
    nodes: Mapping[str, ObservedNode], memory: PowerMemory, snapshot: ClusterSnapshot, site: PowerSite
) -> PowerBudget | None:
    """Return the budget of all nodes, None without a cap."""
    if not snapshot.caps:
        return None
    enter_s = max((site.enter_s(name, depth, snapshot) for name in nodes for depth in ORDER_OF_DEPTH), default=0)
    lead_s = enter_s + 2 * max(site.agent.cycle_s, snapshot.cycle_took_s) + HANDOVER_S
    caps = [cap for cap in snapshot.caps if cap.from_s - lead_s <= snapshot.now_s < cap.until_s]
    if not caps:
        return None
    draws = NodeDraws(snapshot, site, memory)
    draw_w = sum(map(draws.expected_w, nodes.values()))
    return PowerBudget(min(caps, key=lambda cap: (cap.cap_w, cap.from_s)), draw_w)


LATE_S = 300
"""A node that was to sleep so long ago, and that a limit of the door keeps awake, counts by what it draws."""
SETTLED_S = 60
"""A meter shows the new power of a node so long after a change at the latest."""


@dataclass(frozen=True, eq=False)
class NodeDraws:
    """The power of single nodes [W]: as measured, else by their class and the expected power of their jobs."""

    snapshot: ClusterSnapshot
    site: PowerSite
    memory: PowerMemory

    @cached_property
    def _jobs_w(self) -> Mapping[str, float]:
        """The expected power of the jobs on each node."""
        found: dict[str, float] = {}
        for job in self.snapshot.view.jobs:
            # A job on nodes that are not understood counts by what its nodes draw.
            for host in job.known_hosts if job.state in HOLDING else ():
                found[host] = found.get(host, 0.0) + self.snapshot.job_w.get(job.job_id, 0.0)
        return found

    def expected_w(self, node: ObservedNode) -> float:
        """Return the power that the node draws once its present change has ended."""
        leaving, record = self.memory.nodes[node.name].leaving, node.record
        is_kept = node.is_on and record is not None and record.attempts.pending is None
        is_late = leaving is not None and is_kept and self.snapshot.now_s - leaving.since_s > LATE_S
        if not is_late and (leaving is not None or node.state == GOING_OFF):
            return self.asleep_w(node.name)
        if node.state in RISING_DEPTH:
            return max(self.rising_w(node.name), self._jobs_w.get(node.name, 0.0))
        measured_w = self.snapshot.measured_w.get(node.name)
        if node.node.use is not NodeUse.FREE:
            by_jobs_w = self._jobs_w.get(node.name) or self.full_w(node.name)
            # A job that has just started does not draw yet what it will.
            return min(max(by_jobs_w, measured_w or 0.0), self.snapshot.capped_w.get(node.name, math.inf))
        if measured_w is not None and self._is_settled(node):
            return measured_w
        return self.asleep_w(node.name) if node.is_asleep else self.idle_w(node.name)

    def _is_settled(self, node: ObservedNode) -> bool:
        """Whether the node has been asleep, or idle, for so long that its meter shows it."""
        since_s = self.memory.nodes[node.name].idle_since_s
        if node.record is not None:
            since_s = max(since_s, int(node.record.observed.since_unix_s))
        return self.snapshot.now_s - since_s >= SETTLED_S

    def idle_w(self, node: str) -> float:
        """Return the power of the node without a job."""
        node_class = self.site.node_class(node)
        return node_class.idle_w if node_class else 0.0

    def full_w(self, node: str) -> float:
        """Return the most that a job lets the node draw."""
        node_class = self.site.node_class(node)
        return max([node_class.running_w(1.0) if node_class else 0.0, *self.snapshot.job_w.values()])

    def rising_w(self, node: str) -> float:
        """Return the most that the node draws from its wake to the start of a job."""
        node_class = self.site.node_class(node)
        return max([node_class.idle_w, *(depth.leave.power_w for depth in node_class.depths)]) if node_class else 0.0

    def asleep_w(self, node: str) -> float:
        """Return the least that the node draws asleep."""
        node_class = self.site.node_class(node)
        return node_class.asleep_w if node_class else 0.0


def obey_cap(
    pool: PoolState,
    plan: PoolPlan,
    nodes: Mapping[str, ObservedNode],
    memory: PowerMemory,
    budget: PowerBudget,
    *,
    site: PowerSite,
    snapshot: ClusterSnapshot,
    most_to_sleep: int,
) -> tuple[PoolPlan, PowerBudget]:
    """Return the pool's plan under the cap, and what it leaves of the budget to other pools."""
    ours = [nodes[node.name] for node in pool.pool.nodes if nodes[node.name].is_ours]
    may_leave = find_nodes_that_may_leave(pool, ours, memory, site=site)
    limited = plan.withdrawn.keys() | plan.sleep.keys() if plan.offer else frozenset[str]()
    free = _FreeNodes(pool, ours, budget, NodeDraws(snapshot, site, memory), may_leave, limited)
    offered = free.offer_for_jobs()
    sleep = {name: how for name, how in plan.sleep.items() if name not in offered}
    free.put_to_sleep(sleep)
    idle = sum(node.name not in offered for node in pool.nodes_at(pool.is_idle)) - len(sleep)
    awake = int((pool.state == ACTIVE).sum()) - len(sleep)
    left_on = sum(node.state == ACTIVE for name, node in nodes.items() if name in site.opted_in) - len(sleep)
    most = min(awake - plan.least.awake, idle - plan.least.idle, left_on - site.agent.min_on)
    sleep |= free.find_more_sleepers(offered | sleep.keys(), most, at_once=most_to_sleep - len(sleep))
    free.wake_for_plan(list(plan.wake), _count_least_missing(pool, plan.least))
    offered |= free.offer_spare(offered | sleep.keys())
    wake = {name: plan.wake.get(name, budget.why) for name in free.woken}
    closed = dict.fromkeys(may_leave & free.present_w.keys() - offered - sleep.keys(), budget.why)
    limits = {name: why for name, why in plan.withdrawn.items() if name not in sleep}
    left = replace(budget, draw_w=free.draw_w, open_w=free.open_w, held_back_w=free.held_back_w)
    return replace(plan, sleep=sleep, wake=wake, withdrawn=closed | limits), left


def _count_least_missing(pool: PoolState, least: LeastNodes) -> int:
    """Return how many more nodes must wake for the settings."""
    up = int((pool.state == ACTIVE).sum() + pool.rising.sum())
    return max(least.awake - up, least.idle - int(pool.ready.sum()), 0)


@dataclass
class _FreeNodes:
    """The free nodes of a pool while they are divided; `draw_w` is the draw of all nodes, `woken` those to wake.

    The `limited` nodes are closed to jobs in any case, because the capacity is limited. `open_w` is that of the budget.
    """

    pool: PoolState
    ours: list[ObservedNode]
    budget: PowerBudget
    draws: NodeDraws
    may_leave: frozenset[str]
    limited: Collection[str]
    woken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw_w, self.open_w, self.held_back_w = self.budget.draw_w, self.budget.open_w, self.budget.held_back_w
        usable = [node for node in self.ours if node.state != FAILED and node.node.use is NodeUse.FREE]
        ready = {node.name for node in self.pool.nodes_at(self.pool.ready)}
        min_asleep_s = self.draws.site.bounds.min_asleep_s
        wakeable = list_nodes_to_wake(self.pool, self.ours, self.draws.memory, min_asleep_s=min_asleep_s)
        self.present_w = {node.name: self.draws.expected_w(node) for node in usable}
        self.ready = [node.name for node in usable if node.name in ready]
        offerable = self.present_w.keys() - set(self.limited)
        self.offerable = [name for name in self.ready if name in offerable]
        self.wakeable = [name for name in wakeable if name in offerable and name not in ready]

    @property
    def spare_w(self) -> float:
        """The power that is left below the cap."""
        return self.budget.cap.cap_w - self.draw_w

    def offer_for_jobs(self) -> set[str]:
        """Return the nodes that stay open, or wake, for what must not wait and for jobs that may start now."""
        snapshot = self.draws.snapshot
        always = dict(list_names_always_offered(self.pool, self.ours, self.draws.site, snapshot.now_s))
        offered = {name for name in (*self.offerable, *self.wakeable) if name in always}
        self._wake(name for name in self.wakeable if name in offered)
        taken = offered | {*self.limited}
        room = self.pool.free_room(np.array([node.name in taken for node in self.pool.pool.nodes], np.bool_))
        for job in sorted(self.pool.waiting, key=lambda job: (-job.priority, job.submit_s)):
            counts = {number: len(tasks) for number, tasks in room.take(job).items()}
            if sum(counts.values()) < job.nodes and not job.is_array:
                continue
            names = self._choose(counts, offered)
            asleep = [name for name in names if name in self.wakeable]
            rise_w = sum(map(self._wake_w, asleep))
            if rise_w > max(self.spare_w, 0.0) and job.job_id not in snapshot.undelayable:
                continue
            offered |= set(names)
            self._wake(asleep)
            job_w = snapshot.job_w.get(job.job_id, 0.0)
            self.draw_w += sum(max(job_w - self.present_w[name], 0.0) for name in names)
        return offered

    def put_to_sleep(self, names: Iterable[str]) -> None:
        """Count these idle nodes as asleep."""
        self.draw_w -= sum(self.present_w[name] - self.draws.asleep_w(name) for name in names if name in self.present_w)

    def find_more_sleepers(
        self, others: Collection[str], most: int, *, at_once: int
    ) -> dict[str, tuple[NodeOrder, str]]:
        """Return the idle nodes that sleep now so that the draw falls below the cap, those that save most first.

        Of the `most` that may sleep, those beyond `at_once` are held back.
        """
        idle = {node.name for node in self.pool.nodes_at(self.pool.is_idle)}
        may_sleep = [name for name in self.ready if name in idle & self.may_leave and name not in others]
        # Of nodes that save as much, the last one sleeps first, as without a cap.
        may_sleep.sort(key=lambda name: self.present_w[name] - self.draws.asleep_w(name))
        found: dict[str, tuple[NodeOrder, str]] = {}
        for name in reversed(may_sleep[-most:] if most > 0 else ()):
            if self.spare_w + self.held_back_w >= 0:
                break
            if len(found) < at_once:
                found[name] = self._deepest_order(name), self.budget.why
                self.put_to_sleep((name,))
            else:
                self.held_back_w += self.present_w[name] - self.draws.asleep_w(name)
        return found

    def wake_for_plan(self, names: Collection[str], least: int) -> None:
        """Wake the nodes that the plan without a cap wakes if all fit, else the `least` of them, as far as they fit.

        Of nodes for a job that does not fit, none wakes: it would only idle.
        """
        asleep = [name for name in names if name in self.wakeable and name not in self.woken]
        asleep = asleep[: max(len(names) - len(self.woken), 0)]
        if sum(self._wake_w(name) for name in asleep) > self.spare_w:
            asleep = asleep[: max(least - len(self.woken), 0)]
        for name in asleep:
            if self._wake_w(name) <= self.spare_w:
                self._wake((name,))

    def offer_spare(self, others: Collection[str]) -> set[str]:
        """Return the nodes on which a job of full power would still fit: they stay open, asleep or awake."""
        offered = set[str]()
        for name in (*self.offerable, *self.wakeable):
            rise_w = max(self.draws.full_w(name) - self.present_w[name], 0.0)
            factor = OPEN_AGAIN if self.draws.memory.nodes[name].withdrawn else 1.0
            if name not in others and factor * rise_w <= self.spare_w - self.open_w:
                self.open_w += rise_w
                offered.add(name)
        return offered

    def _wake_w(self, name: str) -> float:
        """Return how much more the node draws if it wakes."""
        return max(self.draws.rising_w(name) - self.present_w[name], 0.0)

    def _wake(self, names: Iterable[str]) -> None:
        for name in names:
            self.woken.append(name)
            self.draw_w += self._wake_w(name)
            self.present_w[name] = self.draws.rising_w(name)

    def _choose(self, counts: Mapping[int, int], others: Collection[str]) -> list[str]:
        """Return so many nodes of each pool of the cluster model, awake ones first."""
        left, found = dict(counts), list[str]()
        for name in (*self.offerable, *self.wakeable):
            number = self.pool.cluster.pool_of_node[name]
            if left.get(number, 0) > 0 and name not in others:
                left[number] -= 1
                found.append(name)
        return found

    def _deepest_order(self, name: str) -> NodeOrder:
        node_class = self.draws.site.node_class(name)
        depths = [depth for depth in node_class.depths if depth.depth in ORDER_OF_DEPTH] if node_class else []
        used = [depth for depth in depths if depth.depth in self.pool.sleep.depths] or depths
        return ORDER_OF_DEPTH[min(used, key=lambda depth: depth.power_w).depth]
