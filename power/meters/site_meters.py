"""All meters of a site, or those of some of its nodes."""

from offpeak.machines.inventory import Inventory
from offpeak.machines.node_sets import expand
from offpeak.settings.table import Settings
from power.drivers.wire import Wire
from power.meters.port import Meter
from power.meters.registry import feeding, meters_of, own_meters, slurm_meters


def site_meters(settings: Settings, inventory: Inventory, nodes: str | None, wire: Wire) -> tuple[Meter, ...]:
    """Return the meters of these nodes, of all machines and of this one without any; BadInventory for other nodes."""
    chosen = inventory.chosen(expand(nodes)) if nodes else inventory.machines
    pdus = feeding(inventory, [each.node for each in chosen]) if nodes else inventory.pdus
    own = () if nodes else (*own_meters(), *slurm_meters(settings))
    return (*meters_of(chosen, pdus, wire), *own)
