"""What the agent works with, made from its settings: the site, the modes of its partitions, and the doors for effects.

When the settings are read again, all of it is made anew. The mode says how far the door is open for effects on a
partition: the mode of the settings, or one of the partition's own. The doors never exist without their rules.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

from offpeak.door.effect import Effect, Hold, Mode
from offpeak.errors import BadSetting
from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand
from offpeak.model.clock import Clock
from offpeak.model.facility import facility_named
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import node_class_named
from offpeak.prices.peak import PeakRule, parse_peak_rule
from offpeak.settings.agent import AgentSettings
from offpeak.settings.table import Settings
from offpeak.text import did_you_mean
from plugin.scheduler.port import Scheduler
from plugin.scheduler.registry import scheduler_of
from power.capacity.registry import check_policy_name
from power.door.node_orders import InterlockContext, NodeOrders, make_node_orders
from power.door.scheduler_orders import SchedulerOrders, find_partitions, make_scheduler_door
from power.drivers.registry import DriverPool
from power.drivers.transport import Transport
from power.interlocks.preconditions import FindStateReading
from power.lifecycle.sweep import NodePoller, make_poller
from predictors.feeds.feed import Feed
from predictors.price_forecast import PriceSource
from predictors.site_sources import build_carbon_source, build_price_source
from services.agent.observer import Observer
from services.agent.requests import Callers, find_callers

OPENNESS = (Mode.SHADOW, Mode.ADVISE, Mode.ACTIVE)


@dataclass(frozen=True)
class PartitionModes:
    """`usual` holds for partitions that are not in `own`."""

    usual: Mode
    own: Mapping[str, Mode]

    def of(self, partitions: Iterable[str]) -> Mode:
        """Return the least open mode of these partitions, the usual one where there are none."""
        modes = [self.own.get(each, self.usual) for each in partitions] or [self.usual]
        return min(modes, key=OPENNESS.index)

    @property
    def most_open(self) -> Mode:
        """The most open mode of any partition."""
        return max((self.usual, *self.own.values()), key=OPENNESS.index)

    def narrowed(self, other: "PartitionModes") -> "PartitionModes":
        """Return of each partition the less open mode of both."""
        return self._merged(other, lambda *modes: min(modes, key=OPENNESS.index))

    def widened(self, other: "PartitionModes") -> "PartitionModes":
        """Return of each partition the more open mode of both."""
        return self._merged(other, lambda *modes: max(modes, key=OPENNESS.index))

    def _merged(self, other: "PartitionModes", choose: Callable[[Mode, Mode], Mode]) -> "PartitionModes":
        own = {each: choose(self.of((each,)), other.of((each,))) for each in (*self.own, *other.own)}
        return PartitionModes(choose(self.usual, other.usual), own)


def parse_modes(settings: AgentSettings) -> PartitionModes:
    """Return the modes of the settings; BadSetting for a partition without one, or with one that there is not."""
    return PartitionModes(Mode(settings.mode), dict(map(_parse_partition_mode, settings.partition_modes or ())))


def _parse_partition_mode(text: str) -> tuple[str, Mode]:
    partition, _, mode = text.partition("=")
    if not partition or mode not in tuple(Mode):
        hint = did_you_mean(mode, tuple(Mode)) if mode else 'write it like ["debug=shadow"]'
        raise BadSetting(f"agent.partition_modes: {text!r} names no partition and its mode", hint=hint)
    return partition, Mode(mode)


CLOCK = Clock()


@dataclass(frozen=True)
class SiteContext:
    """The site: `by_name` are all machines, `machines` those that may be switched, by name.

    `zone` is the clock of its prices; `class_of` are node classes by the names of hardware. Cycles and
    waits go by `clock`.
    """

    settings: Settings
    modes: PartitionModes
    inventory: Inventory
    by_name: Mapping[str, InventoryNode]
    machines: Mapping[str, InventoryNode]
    scheduler: Scheduler
    wire: Transport
    ways: DriverPool
    lookout: NodePoller
    prices: PriceSource
    carbon: Feed | float | None
    peak_rule: PeakRule
    zone: tzinfo
    callers: Callers
    class_of: Mapping[str, NodeClass]
    clock: Clock = CLOCK

    def node_class(self, node: str) -> NodeClass | None:
        """Return the class of a node, None where nobody has said it."""
        machine = self.by_name.get(node)
        return None if machine is None else self.class_of.get(machine.hardware.name)

    async def close(self) -> None:
        """Log out everywhere."""
        await self.ways.close()
        await self.wire.close()


def make_site_context(settings: Settings, clock: Clock = CLOCK) -> SiteContext:
    """Return the parts; BadInput, with what to mend, where the settings or the inventory cannot be used."""
    check_policy_name(settings.agent.capacity)
    if settings.plan.facility:
        # Better refused at the start than in each round.
        facility_named(settings.plan.facility, full_power_w=1.0)
    inventory = _read_inventory(settings)
    chosen = inventory.chosen(expand(settings.agent.nodes)) if settings.agent.nodes else ()
    by_name = {machine.node: machine for machine in inventory.machines}
    wire = Transport(timeout_s=settings.hardware.timeout_s, clock=clock.unix_s)
    prices, zone = build_price_source(settings.feeds, settings.prices)
    return SiteContext(
        settings=settings,
        modes=parse_modes(settings.agent),
        inventory=inventory,
        by_name=by_name,
        machines={machine.node: machine for machine in chosen},
        scheduler=scheduler_of(settings),
        wire=wire,
        ways=DriverPool(by_name, wire),
        lookout=make_poller(chosen, wire),
        prices=prices,
        carbon=build_carbon_source(settings.feeds, settings.carbon),
        peak_rule=parse_peak_rule(settings.prices.peak_rule, zone=zone),
        zone=zone,
        callers=find_callers(settings.slurm.user, settings.agent.operators, settings.agent.viewers),
        class_of=_find_node_classes(inventory),
        clock=clock,
    )


def _find_node_classes(inventory: Inventory) -> dict[str, NodeClass]:
    hardware = {machine.hardware.name: machine.hardware for machine in inventory.machines}
    return {name: node_class_named(each.node_class) for name, each in hardware.items() if each.node_class}


def _read_inventory(settings: Settings) -> Inventory:
    """Return the inventory; none is needed where no node may be switched: queues can be put in order without one."""
    path = settings.hardware.inventory
    return Inventory(path) if settings.agent.nodes is None and not path.exists() else read_inventory(path)


@dataclass(frozen=True)
class SiteOrders:
    """What goes to nodes, and what goes to the scheduler."""

    nodes: NodeOrders
    scheduler: SchedulerOrders


@dataclass(frozen=True)
class RuleInputs:
    """What the rules look up: the latest sighting of a node, and who holds it."""

    sighting_of: FindStateReading
    hold_of: Callable[[str], Hold | None]


def open_doors(
    parts: SiteContext, ledger: Ledger, observer: Observer, known: RuleInputs, modes: Callable[[], PartitionModes]
) -> SiteOrders:
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
    return SiteOrders(nodes, open_scheduler_door(parts, ledger, observer, known, modes, put_to_sleep=put_to_sleep))


def open_scheduler_door(
    parts: SiteContext,
    ledger: Ledger,
    observer: Observer,
    known: RuleInputs,
    modes: Callable[[], PartitionModes],
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


def _mode_of(modes: Callable[[], PartitionModes], observer: Observer) -> Callable[[Effect], Mode]:
    def mode_of(effect: Effect) -> Mode:
        partitions = find_partitions(effect)
        return modes().of(observer.partitions_of_node(effect.subject) if partitions is None else partitions)

    return mode_of
