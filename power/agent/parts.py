"""What the agent works with, made from its settings: when these are read again, all of it is made anew."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand
from offpeak.model.clock import Clock
from offpeak.model.facility import facility_named
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import node_class_named
from offpeak.prices.peak import PeakRule, parse_peak_rule
from offpeak.settings.table import Settings
from plugin.scheduler.port import Scheduler
from plugin.scheduler.registry import scheduler_of
from power.agent.callers import Callers, callers
from power.agent.modes import Modes, modes_of
from power.capacity.registry import check_policy_name
from power.drivers.registry import DriverPool
from power.drivers.transport import Transport
from power.lifecycle.sweep import NodePoller, make_poller
from predictors.feeds.feed import Feed
from predictors.price_forecast import PriceSource
from predictors.site_sources import build_carbon_source, build_price_source

CLOCK = Clock()


@dataclass(frozen=True)
class Parts:
    """The site: `by_name` are all machines, `machines` those that may be switched, by name.

    `zone` is the clock of its prices; `class_of` are node classes by the names of hardware. Cycles and
    waits go by `clock`.
    """

    settings: Settings
    modes: Modes
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


def parts_of(settings: Settings, clock: Clock = CLOCK) -> Parts:
    """Return the parts; BadInput, with what to mend, where the settings or the inventory cannot be used."""
    check_policy_name(settings.agent.capacity)
    if settings.plan.facility:
        # Better refused at the start than in each round.
        facility_named(settings.plan.facility, full_power_w=1.0)
    inventory = _inventory(settings)
    chosen = inventory.chosen(expand(settings.agent.nodes)) if settings.agent.nodes else ()
    by_name = {machine.node: machine for machine in inventory.machines}
    wire = Transport(timeout_s=settings.hardware.timeout_s, clock=clock.unix_s)
    prices, zone = build_price_source(settings.feeds, settings.prices)
    return Parts(
        settings=settings,
        modes=modes_of(settings.agent),
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
        callers=callers(settings.slurm.user, settings.agent.operators, settings.agent.viewers),
        class_of=_classes(inventory),
        clock=clock,
    )


def _classes(inventory: Inventory) -> dict[str, NodeClass]:
    hardware = {machine.hardware.name: machine.hardware for machine in inventory.machines}
    return {name: node_class_named(each.node_class) for name, each in hardware.items() if each.node_class}


def _inventory(settings: Settings) -> Inventory:
    """Return the inventory; none is needed where no node may be switched: queues can be put in order without one."""
    path = settings.hardware.inventory
    return Inventory(path) if settings.agent.nodes is None and not path.exists() else read_inventory(path)
