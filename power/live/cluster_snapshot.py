"""The inputs of the power loop: the site, the snapshot of the cluster in one cycle, and the transition times.

A transition takes as long as such nodes took, else as long as the node class or the inventory says.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from offpeak.machines.inventory import Hardware, Inventory, InventoryNode, SleepMethod
from offpeak.machines.node_sets import expand
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_class import NodeClass, SleepDepth
from offpeak.model.node_states import DEPTHS, OFF, POWERSAVE, STANDBY
from offpeak.model.orders import NodeOrder
from offpeak.settings.agent import AgentSettings
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.port import no_prices, no_times
from plugin.scheduler.port import SchedulerView
from power.lifecycle.decisions import NodeRecords
from power.lifecycle.node_context import NO_DURATIONS
from power.lifecycle.node_record import ASLEEP, Instant, NodeRecord, NodeState

ORDER_OF = {STANDBY: NodeOrder.STANDBY, OFF: NodeOrder.SOFT_OFF}
"""The order that leads to a depth. A slower clock is no business of ours: the node does that by itself."""


@dataclass(frozen=True, eq=False)
class PowerSite:
    """The machines, the settings, and node classes by the names of the hardware.

    `shared_nodes`: the scheduler lets jobs share a node.
    """

    inventory: Inventory
    agent: AgentSettings
    bounds: CapacitySettings
    class_of: Mapping[str, NodeClass]
    shared_nodes: bool = False

    @cached_property
    def opted_in(self) -> frozenset[str]:
        """The nodes that may be switched."""
        return frozenset(expand(self.agent.nodes)) if self.agent.nodes else frozenset()

    @cached_property
    def machines(self) -> Mapping[str, InventoryNode]:
        """The machines by their names."""
        return {machine.node: machine for machine in self.inventory.machines}

    def node_class(self, node: str) -> NodeClass | None:
        """Return the class of a node with the depths that its hardware has rungs for, None where none is known."""
        machine = self.machines.get(node)
        return None if machine is None else self._sleeping_classes.get(machine.hardware.name)

    @cached_property
    def _sleeping_classes(self) -> Mapping[str, NodeClass]:
        kinds = {machine.hardware.name: machine.hardware for machine in self.inventory.machines}
        found = {
            name: _keep_depths_with_rungs(self.class_of[name], kinds[name]) for name in kinds if name in self.class_of
        }
        return {name: each for name, each in found.items() if each.depths}


def _keep_depths_with_rungs(node_class: NodeClass, hardware: Hardware) -> NodeClass:
    depths = (depth for depth in node_class.depths if depth.depth in ORDER_OF)
    return replace(node_class, depths=tuple(depth for depth in depths if hardware.sleep_method(ORDER_OF[depth.depth])))


@dataclass(frozen=True, eq=False)
class ClusterSnapshot:
    """Everything seen at one instant.

    `run_s` are predicted run times by job id, where there are any. `price_per_mwh[i]` holds from `price_at_s[i]` (Unix
    seconds) on, NaN where it is not known. `cycle_took_s`: so long the cycle before took.
    """

    now: Instant
    view: SchedulerView
    records: NodeRecords
    run_s: Mapping[str, int] = field(default_factory=dict)
    price_at_s: Int64 = field(default_factory=no_times)
    price_per_mwh: Float64 = field(default_factory=no_prices)
    cycle_took_s: float = 0.0

    @property
    def now_s(self) -> int:
        """When the scheduler was asked, in Unix seconds."""
        return self.view.at_s

    def record(self, node: str) -> NodeRecord | None:
        """Return the life of a node, None where nobody has looked at it; one that follows an order to wake boots.

        The view is newer than the look: where the scheduler has the node again, that look's "off" is of before.
        """
        record = self.records.nodes.get(node)
        return record if record is None else _show_as_booting(record, self.now)


def _show_as_booting(record: NodeRecord, now: Instant) -> NodeRecord:
    pending = record.attempts.pending
    if pending is None or pending.order is not NodeOrder.ON or record.observed.state not in ASLEEP:
        return record
    since_unix_s = now.unix_s - (now.monotonic_s - pending.sent_s)
    return replace(record, observed=replace(record.observed, state=NodeState.BOOTING, since_unix_s=since_unix_s))


WAKE_CHANGES = {STANDBY: "resume", OFF: "boot"}
SLEEP_CHANGES = {STANDBY: "suspend", OFF: "shutdown"}
LEAD_FACTOR = 1.2
"""Nodes are woken ahead by this much more than they take."""
HANDOVER_S = 10
"""By then a scheduler has handed a wake on to its resume program: it looks at power saving every so often only."""


def wake_s(site: PowerSite, snapshot: ClusterSnapshot, node: str, depth: int) -> int:
    """Return how long a node takes from that depth until jobs can run there, 0 where nobody knows."""
    known = _measured_s(site, snapshot, node, WAKE_CHANGES.get(depth, ""))
    sleep = _depth(site, node, depth)
    rung = _rung(site, node, depth)
    if known is not None:
        return known
    return sleep.leave.duration_s if sleep else rung.wake_patience_s if rung else 0


def enter_s(site: PowerSite, snapshot: ClusterSnapshot, node: str, depth: int) -> int:
    """Return how long a node takes to fall into that depth, 0 where nobody knows."""
    known = _measured_s(site, snapshot, node, SLEEP_CHANGES.get(depth, ""))
    sleep = _depth(site, node, depth)
    if known is not None:
        return known
    return sleep.enter.duration_s if sleep else 0


def lead_s(site: PowerSite, snapshot: ClusterSnapshot, node: str) -> int:
    """Return how long before it is needed a sleeping node has to be told to wake, a cycle of the agent included.

    What comes up just after a look is seen at the next, and carried out by the end of that cycle; the scheduler hands
    it on in its own time.
    """
    longest_s = max(wake_s(site, snapshot, node, depth) for depth in WAKE_CHANGES)
    cycle_s = max(site.agent.cycle_s, snapshot.cycle_took_s) + snapshot.cycle_took_s
    return math.ceil(LEAD_FACTOR * longest_s + cycle_s) + HANDOVER_S


def waking_s(site: PowerSite, snapshot: ClusterSnapshot, node: str) -> tuple[int, ...]:
    """Return how long such nodes take to wake, by depth number."""
    return tuple(0 if depth == POWERSAVE else wake_s(site, snapshot, node, depth) for depth in range(len(DEPTHS)))


def format_duration(seconds: float) -> str:
    """Return a duration for people: "40 s", "14 min", "3.5 h", "2 days"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR_S:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / HOUR_S:.1f} h" if seconds < 48 * HOUR_S else f"{seconds / DAY_S:.0f} days"


def _measured_s(site: PowerSite, snapshot: ClusterSnapshot, node: str, change: str) -> int | None:
    machine = site.machines.get(node)
    if machine is None:
        return None
    expected_s = snapshot.records.times.get(machine.hardware.name, NO_DURATIONS).expected_s(change)
    return None if expected_s is None else math.ceil(expected_s)


def _depth(site: PowerSite, node: str, depth: int) -> SleepDepth | None:
    node_class = site.node_class(node)
    return node_class.find_depth(depth) if node_class else None


def _rung(site: PowerSite, node: str, depth: int) -> SleepMethod | None:
    machine = site.machines.get(node)
    return machine.hardware.sleep_method(ORDER_OF[depth]) if machine and depth in ORDER_OF else None
