"""What the power loop goes by: the site, which stays, and a sight of it, which is new in every cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from offpeak.machines.inventory import Hardware, Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import OFF, STANDBY
from offpeak.settings.agent import AgentSettings
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.port import no_prices, no_times
from plugin.scheduler.port import SchedulerView
from power.drivers.port import Order
from power.lifecycle.decide import Lives
from power.lifecycle.life import ASLEEP, NodeLife, NodeState, Now

ORDER_OF = {STANDBY: Order.STANDBY, OFF: Order.SOFT_OFF}
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
        found = {name: _with_rungs(self.class_of[name], kinds[name]) for name in kinds if name in self.class_of}
        return {name: each for name, each in found.items() if each.depths}


def _with_rungs(node_class: NodeClass, hardware: Hardware) -> NodeClass:
    depths = (depth for depth in node_class.depths if depth.depth in ORDER_OF)
    return replace(node_class, depths=tuple(depth for depth in depths if hardware.rung(ORDER_OF[depth.depth])))


@dataclass(frozen=True, eq=False)
class Sight:
    """Everything seen at one instant.

    `run_s` are predicted run times by job id, where there are any. `price_per_mwh[i]` holds from `price_at_s[i]` (Unix
    seconds) on, NaN where it is not known. `cycle_took_s`: so long the cycle before took.
    """

    now: Now
    view: SchedulerView
    lives: Lives
    run_s: Mapping[str, int] = field(default_factory=dict)
    price_at_s: Int64 = field(default_factory=no_times)
    price_per_mwh: Float64 = field(default_factory=no_prices)
    cycle_took_s: float = 0.0

    @property
    def now_s(self) -> int:
        """When the scheduler was asked, in Unix seconds."""
        return self.view.at_s

    def life(self, node: str) -> NodeLife | None:
        """Return the life of a node, None where nobody has looked at it; one that follows an order to wake boots.

        The view is newer than the look: where the scheduler has the node again, that look's "off" is of before.
        """
        life = self.lives.nodes.get(node)
        return life if life is None else _as_ordered(life, self.now)


def _as_ordered(life: NodeLife, now: Now) -> NodeLife:
    course = life.effort.course
    if course is None or course.order is not Order.ON or life.seen.state not in ASLEEP:
        return life
    since_unix_s = now.unix_s - (now.monotonic_s - course.sent_s)
    return replace(life, seen=replace(life.seen, state=NodeState.BOOTING, since_unix_s=since_unix_s))
