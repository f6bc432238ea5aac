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

from offpeak.display import watts_text
from offpeak.model.facility import PowerCap
from offpeak.model.node_states import FAILED, ORDER_OF_DEPTH
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, PowerSite
from offpeak.power.live.decide import PoolPlan, list_names_always_offered, list_nodes_to_wake
from offpeak.power.live.observe import GOING_OFF, HANDOVER_S, RISING_DEPTH, PowerRow
from offpeak.power.live.pools import PoolTable

OPEN_AGAIN = 1.1
"""A withdrawn node is opened if this multiple of its power is free: meters and forecasts move a little."""
LATE_S = 300
"""A node that was to sleep so long ago, and that a limit of the door keeps awake, counts by what it draws."""
SETTLED_S = 60
"""A meter shows the new power of a node so long after a change at the latest."""


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


def find_budget(rows: Collection[PowerRow], snapshot: ClusterSnapshot, site: PowerSite) -> PowerBudget | None:
    """Return the budget of all nodes, None without a cap."""
    if not snapshot.caps:
        return None
    enter_s = max((takes_s for row in rows for takes_s in row.times.enter_s), default=0)
    lead_s = enter_s + 2 * max(site.agent.cycle_s, snapshot.cycle_took_s) + HANDOVER_S
    caps = [cap for cap in snapshot.caps if cap.from_s - lead_s <= snapshot.now_s < cap.until_s]
    if not caps:
        return None
    draw_w = sum(map(NodeDraws(snapshot).expected_w, rows))
    return PowerBudget(min(caps, key=lambda cap: (cap.cap_w, cap.from_s)), draw_w)


@dataclass(frozen=True, eq=False)
class NodeDraws:
    """The power of single nodes [W]: as measured, else by their class and the expected power of their jobs."""

    snapshot: ClusterSnapshot

    @cached_property
    def _jobs_w(self) -> Mapping[str, float]:
        """The expected power of the jobs on each node."""
        found: dict[str, float] = {}
        for job in self.snapshot.view.jobs:
            # A job on nodes that are not understood counts by what its nodes draw.
            for host in job.known_hosts if job.holds_nodes else ():
                found[host] = found.get(host, 0.0) + self.snapshot.job_w.get(job.job_id, 0.0)
        return found

    def expected_w(self, row: PowerRow) -> float:
        """Return the power that the node draws once its present change has ended."""
        snapshot, leaving, record = self.snapshot, row.memory.leaving, row.record
        is_kept = row.is_on and record is not None and record.attempts.pending is None
        is_late = leaving is not None and is_kept and snapshot.now_s - leaving.since_s > LATE_S
        if not is_late and (leaving is not None or row.state == GOING_OFF):
            return self.asleep_w(row)
        jobs_w, measured_w = self._jobs_w.get(row.name, 0.0), snapshot.measured_w.get(row.name)
        if row.state in RISING_DEPTH:
            return max(self.rising_w(row), jobs_w)
        if row.node.use is not NodeUse.FREE:
            # A job that has just started does not draw yet what it will.
            drawn_w = max(jobs_w or self.full_w(row), measured_w or 0.0)
            return min(drawn_w, snapshot.capped_w.get(row.name, math.inf))
        # The meter shows it if the node has been asleep, or idle, for long enough.
        polled_s = 0 if record is None else int(record.observed.since_unix_s)
        if measured_w is not None and snapshot.now_s - max(row.memory.idle_since_s, polled_s) >= SETTLED_S:
            return measured_w
        if row.is_asleep:
            return self.asleep_w(row)
        return row.node_class.idle_w if row.node_class else 0.0

    def full_w(self, row: PowerRow) -> float:
        """Return the most that a job lets the node draw."""
        return max([row.node_class.running_w(1.0) if row.node_class else 0.0, *self.snapshot.job_w.values()])

    @staticmethod
    def rising_w(row: PowerRow) -> float:
        """Return the most that the node draws from its wake to the start of a job."""
        node_class = row.node_class
        return max([node_class.idle_w, *(depth.leave.power_w for depth in node_class.depths)]) if node_class else 0.0

    @staticmethod
    def asleep_w(row: PowerRow) -> float:
        """Return the least that the node draws asleep."""
        return row.node_class.asleep_w if row.node_class else 0.0


def obey_cap(
    pool: PoolTable, plan: PoolPlan, budget: PowerBudget, *, spare_on: int, most_to_sleep: int
) -> tuple[PoolPlan, PowerBudget]:
    """Return the pool's plan under the cap, and what it leaves of the budget to other pools.

    Of the site's nodes that are on, `spare_on` need not stay so by `min_on`.
    """
    limited = plan.withdrawn.keys() | plan.sleep.keys() if plan.offer else frozenset[str]()
    free = _FreeNodes(pool, budget, NodeDraws(pool.cluster), limited)
    offered = free.offer_for_jobs()
    sleep = {name: how for name, how in plan.sleep.items() if name not in offered}
    free.put_to_sleep(sleep)
    idle = sum(row.name not in offered for row in pool.rows_at(pool.is_idle)) - len(sleep)
    awake = int(pool.is_active.sum()) - len(sleep)
    most = min(awake - plan.least.awake, idle - plan.least.idle, spare_on - len(sleep))
    sleep |= free.find_more_sleepers(offered | sleep.keys(), most, at_once=most_to_sleep - len(sleep))
    up = int(pool.is_active.sum() + pool.rising.sum())
    least_missing = max(plan.least.awake - up, plan.least.idle - int(pool.ready.sum()), 0)
    free.wake_for_plan(list(plan.wake), least_missing)
    offered |= free.offer_spare(offered | sleep.keys())
    wake = {name: plan.wake.get(name, budget.why) for name in free.woken}
    closed = dict.fromkeys(pool.may_leave & free.present_w.keys() - offered - sleep.keys(), budget.why)
    limits = {name: why for name, why in plan.withdrawn.items() if name not in sleep}
    left = replace(budget, draw_w=free.draw_w, open_w=free.open_w, held_back_w=free.held_back_w)
    return replace(plan, sleep=sleep, wake=wake, withdrawn=closed | limits), left


@dataclass
class _FreeNodes:
    """The free nodes of a pool while they are divided; `draw_w` is the draw of all nodes, `woken` those to wake.

    The `limited` nodes are closed to jobs in any case, because the capacity is limited. `open_w` is that of the budget.
    """

    pool: PoolTable
    budget: PowerBudget
    draws: NodeDraws
    limited: Collection[str]
    woken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw_w, self.open_w, self.held_back_w = self.budget.draw_w, self.budget.open_w, self.budget.held_back_w
        usable = [row for row in self.pool.ours if row.state != FAILED and row.node.use is NodeUse.FREE]
        ready = {row.name for row in self.pool.rows_at(self.pool.ready)}
        wakeable = list_nodes_to_wake(self.pool)
        self.present_w = {row.name: self.draws.expected_w(row) for row in usable}
        self.ready = [row.name for row in usable if row.name in ready]
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
        always = dict(list_names_always_offered(self.pool, snapshot.now_s))
        offered = {name for name in (*self.offerable, *self.wakeable) if name in always}
        self._wake(name for name in self.wakeable if name in offered)
        room = self.pool.free_room(offered | {*self.limited})
        for job in sorted(self.pool.waiting, key=lambda job: (-job.priority, job.submit_s)):
            counts = room.take_counts(job)
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
        self.draw_w -= sum(map(self._saved_w, (name for name in names if name in self.present_w)))

    def find_more_sleepers(
        self, others: Collection[str], most: int, *, at_once: int
    ) -> dict[str, tuple[NodeOrder, str]]:
        """Return the idle nodes that sleep now so that the draw falls below the cap, those that save most first.

        Of the `most` that may sleep, those beyond `at_once` are held back.
        """
        idle = {row.name for row in self.pool.rows_at(self.pool.is_idle)} & self.pool.may_leave
        may_sleep = [name for name in self.ready if name in idle and name not in others]
        # Of nodes that save as much, the last one sleeps first, as without a cap.
        may_sleep.sort(key=self._saved_w)
        found: dict[str, tuple[NodeOrder, str]] = {}
        for name in reversed(may_sleep[-most:] if most > 0 else ()):
            if self.spare_w + self.held_back_w >= 0:
                break
            if len(found) < at_once:
                found[name] = self._deepest_order(name), self.budget.why
                self.put_to_sleep((name,))
            else:
                self.held_back_w += self._saved_w(name)
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
            row = self.pool.row_of[name]
            rise_w = max(self.draws.full_w(row) - self.present_w[name], 0.0)
            factor = OPEN_AGAIN if row.memory.withdrawn else 1.0
            if name not in others and factor * rise_w <= self.spare_w - self.open_w:
                self.open_w += rise_w
                offered.add(name)
        return offered

    def _saved_w(self, name: str) -> float:
        """Return how much less the node draws asleep."""
        return self.present_w[name] - self.draws.asleep_w(self.pool.row_of[name])

    def _wake_w(self, name: str) -> float:
        """Return how much more the node draws if it wakes."""
        return max(self.draws.rising_w(self.pool.row_of[name]) - self.present_w[name], 0.0)

    def _wake(self, names: Iterable[str]) -> None:
        for name in names:
            self.woken.append(name)
            self.draw_w += self._wake_w(name)
            self.present_w[name] = self.draws.rising_w(self.pool.row_of[name])

    def _choose(self, counts: Mapping[int, int], others: Collection[str]) -> list[str]:
        """Return so many nodes of each pool of the cluster model, awake ones first."""
        left, found = dict(counts), list[str]()
        for name in (*self.offerable, *self.wakeable):
            number = self.pool.row_of[name].kind
            if left.get(number, 0) > 0 and name not in others:
                left[number] -= 1
                found.append(name)
        return found

    def _deepest_order(self, name: str) -> NodeOrder:
        node_class = self.pool.row_of[name].node_class
        depths = [depth for depth in node_class.depths if depth.depth in ORDER_OF_DEPTH] if node_class else []
        used = [depth for depth in depths if depth.depth in self.pool.sleep.depths] or depths
        return ORDER_OF_DEPTH[min(used, key=lambda depth: depth.power_w).depth]
