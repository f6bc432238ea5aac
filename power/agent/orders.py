"""The doors of a running agent, and what their rules ask: made anew with its parts, never without them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from offpeak.door.effect import Effect
from offpeak.door.hold import Hold
from offpeak.door.mode import Mode
from offpeak.ledger.ledger import Ledger
from power.agent.modes import Modes
from power.agent.observer import Observer
from power.agent.parts import Parts
from power.effects import NodeOrders, Site, node_orders
from power.interlocks.sighting import SightingOf
from power.scheduler_effects import SchedulerOrders, partitions_of, scheduler_door


@dataclass(frozen=True)
class Orders:
    """What goes to nodes, and what goes to the scheduler."""

    nodes: NodeOrders
    scheduler: SchedulerOrders


@dataclass(frozen=True)
class Known:
    """What the rules look up: the latest sighting of a node, and who holds it."""

    sighting_of: SightingOf
    hold_of: Callable[[str], Hold | None]


def orders_of(parts: Parts, ledger: Ledger, observer: Observer, known: Known) -> Orders:
    """Return both ways through a door; CannotWrite or BadLedger where the limits cannot be counted from the ledger."""
    mode_of = _mode_of(parts.modes, observer)
    site = Site(parts.inventory, parts.ways, known.sighting_of, parts.wire.clock, known.hold_of, parts.scheduler.in_use)
    site = replace(site, steady=parts.clock.steady_s)
    door = scheduler_door(ledger, mode_of, parts.wire.clock, nodes=parts.machines, hold_of=known.hold_of)
    nodes = node_orders(parts.settings.agent, site, ledger, mode_of)
    return Orders(nodes, SchedulerOrders(door, parts.scheduler))


def _mode_of(modes: Modes, observer: Observer) -> Callable[[Effect], Mode]:
    def mode_of(effect: Effect) -> Mode:
        partitions = partitions_of(effect)
        return modes.of(observer.partitions_of_node(effect.subject) if partitions is None else partitions)

    return mode_of
