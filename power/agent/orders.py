"""The doors of a running agent, and what their rules ask: made anew with its parts, never without them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from offpeak.door.effect import Effect, Hold, Mode
from offpeak.ledger.ledger import Ledger
from power.agent.modes import Modes
from power.agent.observer import Observer
from power.agent.parts import Parts
from power.door.node_orders import InterlockContext, NodeOrders, make_node_orders
from power.door.scheduler_orders import SchedulerOrders, find_partitions, make_scheduler_door
from power.interlocks.preconditions import FindStateReading


@dataclass(frozen=True)
class Orders:
    """What goes to nodes, and what goes to the scheduler."""

    nodes: NodeOrders
    scheduler: SchedulerOrders


@dataclass(frozen=True)
class Known:
    """What the rules look up: the latest sighting of a node, and who holds it."""

    sighting_of: FindStateReading
    hold_of: Callable[[str], Hold | None]


def orders_of(parts: Parts, ledger: Ledger, observer: Observer, known: Known, modes: Callable[[], Modes]) -> Orders:
    """Return both ways through a door; CannotWrite or BadLedger where the limits cannot be counted from the ledger.

    Each order asks for the `modes` in force directly before it is sent.
    """
    mode_of = _mode_of(modes, observer)
    site = InterlockContext(
        parts.inventory, parts.ways, known.sighting_of, parts.wire.clock, known.hold_of, parts.scheduler.in_use
    )
    site = replace(site, steady=parts.clock.steady_s)
    nodes = make_node_orders(parts.settings.agent, site, ledger, mode_of)
    put_to_sleep = nodes.door.history.was_put_to_sleep
    return Orders(nodes, scheduler_orders_of(parts, ledger, observer, known, modes, put_to_sleep=put_to_sleep))


def scheduler_orders_of(
    parts: Parts,
    ledger: Ledger,
    observer: Observer,
    known: Known,
    modes: Callable[[], Modes],
    *,
    put_to_sleep: Callable[[str], bool] | None = None,
) -> SchedulerOrders:
    """Return the way to the scheduler alone, through a door of its own."""
    door = make_scheduler_door(
        ledger,
        _mode_of(modes, observer),
        parts.wire.clock,
        nodes=parts.machines,
        hold_of=known.hold_of,
        put_to_sleep=put_to_sleep,
    )
    return SchedulerOrders(door, parts.scheduler)


def _mode_of(modes: Callable[[], Modes], observer: Observer) -> Callable[[Effect], Mode]:
    def mode_of(effect: Effect) -> Mode:
        partitions = find_partitions(effect)
        return modes().of(observer.partitions_of_node(effect.subject) if partitions is None else partitions)

    return mode_of
