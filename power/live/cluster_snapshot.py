"""The inputs of the power decision: the site, the cluster in one cycle, and what earlier cycles learned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from offpeak.door.effect import AGENT
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster
from offpeak.model.constants import HOUR_S
from offpeak.model.facility import PowerCap
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ORDER_OF_DEPTH
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.model.request import Request
from offpeak.model.snapshot import no_rows
from offpeak.plugin.capacity.port import CapacityTargets, Fleet, no_prices
from offpeak.plugin.capacity.sleepers import NeedRecord
from offpeak.plugin.scheduler.cluster_view import NO_ALLOCATION, Allocation, cluster_of, find_allocations
from offpeak.plugin.scheduler.job import Job, count_running_tasks
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import START_MARGIN_S, SchedulerView
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_record import ASLEEP, Instant, NodeRecord
from offpeak.settings.agent import AgentSettings
from offpeak.settings.capacity import CapacitySettings

ALL_NODES = 1_000_000
UNTAKEN_S = 180
"""A scheduler that has not counted a node as powered down so long after it went off takes no part in power saving."""
PAST_HOURS = 7 * 24
"""The load of a pool is the mean over so many hours."""


def all_awake(agent: AgentSettings, bounds: CapacitySettings) -> tuple[AgentSettings, CapacitySettings]:
    """Return the settings with which no node sleeps."""
    return replace(agent, capacity="always-on", limit_capacity=False), replace(bounds, keep_hot=ALL_NODES)


@dataclass(frozen=True, eq=False)
class PowerSite:
    """Machines, settings, and node classes by hardware name. `shared_nodes`: the scheduler lets jobs share a node.

    All nodes of the `awake_partitions`, and of those with which they share jobs, stay awake or wake. A job that has not
    started within `start_patience_s`, although nodes were up for it, waits for something else. `power_terms` and
    `unable` are those of `WatchFacts`.
    """

    inventory: Inventory
    agent: AgentSettings
    bounds: CapacitySettings
    class_of: Mapping[str, NodeClass]
    shared_nodes: bool = False
    awake_partitions: frozenset[str] = frozenset()
    start_patience_s: int = START_MARGIN_S
    power_terms: str | None = None
    unable: str = ""

    def of_pool(self, nodes: Iterable[Node]) -> "PowerSite":
        """Return the site with the settings for a pool of these nodes."""
        if not any(self.awake_partitions.intersection(node.partitions) for node in nodes):
            return self
        agent, bounds = all_awake(self.agent, self.bounds)
        return replace(self, agent=agent, bounds=bounds)

    @cached_property
    def opted_in(self) -> frozenset[str]:
        """The nodes that may be switched."""
        return frozenset(expand(self.agent.nodes)) if self.agent.nodes else frozenset()

    @cached_property
    def machines(self) -> Mapping[str, InventoryNode]:
        """The machines by their names."""
        return {machine.node: machine for machine in self.inventory.machines}

    def node_class(self, node: str) -> NodeClass | None:
        """Return the class of a node with the depths that the node has a usable sleep method for, None if unknown."""
        return self._sleeping_classes.get(node)

    @cached_property
    def _sleeping_classes(self) -> Mapping[str, NodeClass]:
        """The classes by node; nodes with the same depths share one."""
        found, shared = dict[str, NodeClass](), dict[tuple[str, tuple[int, ...]], NodeClass]()
        for machine in self.inventory.machines:
            node_class = self.class_of.get(machine.hardware.name)
            if node_class is None:
                continue
            depths = tuple(
                depth
                for depth in node_class.depths
                if (order := ORDER_OF_DEPTH.get(depth.depth)) and machine.usable_method(order)
            )
            if depths:
                key = machine.hardware.name, tuple(depth.depth for depth in depths)
                found[machine.node] = shared.setdefault(key, replace(node_class, depths=depths))
        return found


@dataclass(frozen=True, eq=False)
class ClusterSnapshot:
    """The cluster at one instant.

    `run_s` are predicted run times by job id. `price_per_mwh[i]` holds from `price_at_s[i]` (Unix seconds) on, NaN
    if the price is unknown. `cycle_took_s` is the duration of the previous cycle. `caps` on power hold now or begin
    later; `measured_w` is the present draw of measured nodes, `job_w` the expected draw of jobs on each of their nodes,
    `capped_w` the most that nodes with a cap of their own draw.
    Owners let the `undelayable` jobs not wait for a cap. The nodes in `kept_awake` are not put to sleep, each by the
    setting of the scheduler that says so. The scheduler has `refused` to power nodes, each with its message.
    """

    now: Instant
    view: SchedulerView
    records: NodeRecords
    run_s: Mapping[str, int] = field(default_factory=dict)
    price_at_s: Int64 = field(default_factory=no_rows)
    price_per_mwh: Float64 = field(default_factory=no_prices)
    cycle_took_s: float = 0.0
    caps: tuple[PowerCap, ...] = ()
    measured_w: Mapping[str, float] = field(default_factory=dict)
    job_w: Mapping[str, float] = field(default_factory=dict)
    capped_w: Mapping[str, float] = field(default_factory=dict)
    undelayable: frozenset[str] = frozenset()
    kept_awake: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    _candidates: dict[Request, tuple[int, ...]] = field(default_factory=dict, init=False)
    _candidates_of_id: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster model of the view."""
        return cluster_of(self.view)

    @cached_property
    def pool_of_node(self) -> Mapping[str, int]:
        """The pool of each node in the cluster model, by number."""
        return {name: at for at, pool in enumerate(self.cluster.pools) for name in pool.names}

    @cached_property
    def _allocations(self) -> Mapping[str, Allocation]:
        return find_allocations(self.view.jobs)

    def allocation(self, node: str) -> Allocation:
        """Return what jobs hold of a node."""
        return self._allocations.get(node, NO_ALLOCATION)

    def candidate_pools(self, job: Job) -> tuple[int, ...]:
        """Return the pools that the job could use, by number; without a request those of its partitions."""
        if job.request is None:
            pools = enumerate(self.cluster.pools)
            return tuple(at for at, pool in pools if not pool.partitions.isdisjoint(job.partitions))
        found = self._candidates_of_id.get(id(job.request))
        if found is None:
            found = self._candidates.get(job.request)
            if found is None:
                found = self._candidates[job.request] = self.cluster.candidates(job.request)
            self._candidates_of_id[id(job.request)] = found
        return found

    @cached_property
    def _running_tasks(self) -> Mapping[str, int]:
        return count_running_tasks(self.view.jobs)

    def startable_limit(self, job: Job) -> int:
        """Return how many tasks may start by the limit of the job's array."""
        return job.task_limit - self._running_tasks.get(job.array_id, 0)

    @property
    def now_s(self) -> int:
        """When the scheduler was queried, in Unix seconds."""
        return self.view.at_s

    @cached_property
    def untouched(self) -> frozenset[str]:
        """The nodes that get no order now: those in maintenance, and those reserved for an unknown purpose."""
        active = [
            reservation
            for reservation in self.view.reservations
            if reservation.start_s <= self.view.at_s < reservation.end_s
        ]
        maintained = {name for reservation in active if reservation.maintenance for name in reservation.nodes}
        known = {name for reservation in active for name in reservation.nodes}
        return frozenset(
            maintained | {node.name for node in self.view.nodes if node.reserved and node.name not in known}
        )

    def with_known_sleepers(self) -> "ClusterSnapshot":
        """Return the snapshot in which nodes that offpeak has put to sleep, and whose BMC says so, are free.

        A scheduler that began anew does not know them until their daemons register, which they cannot while they sleep.
        """
        nodes = tuple(
            node._replace(use=NodeUse.FREE) if self._is_known_sleeper(node) else node for node in self.view.nodes
        )
        return replace(self, view=replace(self.view, nodes=nodes)) if nodes != self.view.nodes else self

    def _is_known_sleeper(self, node: Node) -> bool:
        if node.use is not NodeUse.UNKNOWN or node.responds or node.cpus_used:
            return False
        record = self.record(node.name)
        if record is None or record.observed.state not in ASLEEP:
            return False
        return node.is_marked or (record.observed.by == AGENT and not node.closed)

    def record(self, node: str) -> NodeRecord | None:
        """Return the record of a node, None before its first poll; a node with a pending wake counts as booting.

        The scheduler's view is newer than the poll. If the node is up in the view, the polled "off" is outdated.
        """
        record = self.records.nodes.get(node)
        pending = None if record is None else record.attempts.pending
        if record is None or pending is None:
            return record
        if pending.order is not NodeOrder.ON or record.observed.state not in ASLEEP:
            return record
        since_unix_s = self.now.unix_s - (self.now.monotonic_s - pending.sent_s)
        return replace(record, observed=replace(record.observed, state=NodeState.BOOTING, since_unix_s=since_unix_s))


@dataclass(frozen=True, slots=True)
class SleepInProgress:
    """A node on its way to sleep: since when (Unix seconds), by which order, and why."""

    since_s: int
    order: NodeOrder
    why: str


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What earlier cycles learned about a node; times are Unix seconds. Without it the loop only waits longer.

    `up`: jobs could run there in the previous cycle. `woken_s`: when the node came up last, 0 if unknown. `slept_s`:
    when it fell asleep within the last day, at least the last time. It stays awake until `rest_until_s`, since its last
    sleep was refused or failed. `why` is the last reason that was reported for it. `withdrawn`: the last plan withdrew
    it from jobs, and it was closed already. `untaken_s`: since when the scheduler is told that it is off, and does not
    count it as powered down, 0 otherwise. `was_idle`: it has not been off since the scheduler counted it as up,
    without a job. `left`: it is on and no job can use it, by this state in the scheduler, since that time.
    """

    up: bool
    idle_since_s: int
    woken_s: int = 0
    slept_s: tuple[int, ...] = ()
    leaving: SleepInProgress | None = None
    rest_until_s: int = 0
    why: str = ""
    withdrawn: bool = False
    untaken_s: int = 0
    was_idle: bool = False
    left: tuple[str, int] | None = None

    def is_untaken(self, now_s: int) -> bool:
        """Whether the scheduler takes no part in its sleep: it would never be woken for a job."""
        return self.untaken_s > 0 and now_s - self.untaken_s > UNTAKEN_S

    def has_slept_since_up(self, since_unix_s: float) -> bool:
        """Whether it came up after that time, and has then fallen asleep by an order of the agent."""
        return bool(self.slept_s) and since_unix_s < self.woken_s <= self.slept_s[-1]

    def must_boot_again(self, node: Node, record: NodeRecord | None) -> bool:
        """Whether the scheduler has forgotten that the node has come up: it accepts it only after another boot.

        A slurmctld that was killed has lost what happened within its last seconds.
        """
        is_forgotten = self.was_idle and node.power is not PowerState.ON
        return is_forgotten and record is not None and record.observed.state is NodeState.ON


def shift_node_memory(memory: NodeMemory, by_s: int) -> NodeMemory:
    """Return the memory after the clock was set forward by so much: what has passed of each wait stays the same."""
    return replace(
        memory,
        idle_since_s=memory.idle_since_s + by_s,
        woken_s=memory.woken_s + by_s,
        left=memory.left and (memory.left[0], memory.left[1] + by_s),
        slept_s=tuple(at_s + by_s for at_s in memory.slept_s),
        leaving=memory.leaving and replace(memory.leaving, since_s=memory.leaving.since_s + by_s),
        rest_until_s=memory.rest_until_s + by_s,
        untaken_s=memory.untaken_s and memory.untaken_s + by_s,
    )


@dataclass(frozen=True)
class PastUse:
    """The use of a pool in the last week: by hour (from the epoch) the observed time, and its part in use [s]."""

    at_s: int
    by_hour: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    def until(self, now_s: int, share: float) -> "PastUse":
        """Return the use after `share` of the pool was in use since the last time; a long gap does not count."""
        for_s = now_s - self.at_s
        hour = now_s // HOUR_S
        kept = {each: use for each, use in self.by_hour.items() if hour - PAST_HOURS < each <= hour}
        if 0 < for_s <= HOUR_S:
            observed_s, used_s = kept.get(hour, (0.0, 0.0))
            kept[hour] = (observed_s + for_s, used_s + share * for_s)
        return PastUse(now_s, kept)

    def load(self, share: float) -> float:
        """Return the mean load, or the present `share` before anything was observed."""
        observed_s, used_s = (sum(column) for column in zip((0.0, 0.0), *self.by_hour.values(), strict=True))
        return Fleet.mean_load(used_s, 1, observed_s) if observed_s else share


@dataclass(frozen=True)
class PoolMemory:
    """What a policy, by its name, decided for a pool and when, what a forecast has learned, and the past use.

    `served_s`: since when enough idle nodes are up for each job that few nodes fit.
    """

    policy: str
    decided_s: int
    targets: CapacityTargets
    needs: NeedRecord | None = None
    use: PastUse | None = None
    served_s: Mapping[str, int] = field(default_factory=dict)
