"""What `offpeak power now` answers: every meter read once, counters twice."""

import asyncio
import time
from collections.abc import Sequence

import typer

from offpeak.errors import BadInventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand
from offpeak.settings.table import Settings
from power.drivers.wire import Wire
from power.meters.head_node import head_node
from power.meters.port import Meter
from power.meters.site_meters import site_meters
from power.meters.taken import Taken, take
from ui.hardware.power_json import power_json
from ui.hardware.power_text import print_power

COUNTERS = ("rapl", "ssh")
"""Meters that count energy: two readings make a power."""

BETWEEN_S = 1.0
LONGEST_S = 60.0


def print_now(settings: Settings, nodes: str | None, *, as_json: bool) -> None:
    """Print what is drawn now; BadInput for nodes that the inventory does not have."""
    taken = asyncio.run(_take_all(settings, nodes))
    here = None if nodes else asyncio.run(head_node())
    if as_json:
        typer.echo(power_json(taken, here))
    else:
        print_power(taken, here, now_unix_s=time.time())
    if not any(each.readings for each in taken):
        raise typer.Exit(1)


def some_meters(settings: Settings, nodes: str | None, wire: Wire) -> tuple[Meter, ...]:
    """Return the meters of these nodes, of all machines without any; BadInventory if there is none."""
    inventory = read_inventory(settings.hardware.inventory)
    meters = site_meters(settings, inventory, nodes, wire)
    if not meters:
        hint = "docs/reference/inventory.md shows how BMCs and PDUs are written"
        raise BadInventory(f"{inventory.path}: nothing there measures power", hint=hint)
    return meters


def only_of(taken: Sequence[Taken], nodes: str | None) -> tuple[Taken, ...]:
    """Return what was taken without the readings of nodes that were not asked for."""
    if nodes is None:
        return tuple(taken)
    wanted = set(expand(nodes))
    return tuple(
        Taken(each.meter, each.way, tuple(of for of in each.readings if of.node in wanted), each.trouble)
        for each in taken
    )


async def _take_all(settings: Settings, nodes: str | None) -> tuple[Taken, ...]:
    wire = Wire(timeout_s=settings.hardware.timeout_s)
    meters = some_meters(settings, nodes, wire)
    try:
        first = await take(meters, timeout_s=LONGEST_S)
        if not any(each.way in COUNTERS for each in first):
            return only_of(first, nodes)
        await asyncio.sleep(BETWEEN_S)
        counters = [meter for meter in meters if meter.way in COUNTERS]
        again = {(each.meter, each.way): each for each in await take(counters, timeout_s=LONGEST_S)}
        return only_of([again.get((each.meter, each.way), each) for each in first], nodes)
    finally:
        await asyncio.gather(*(meter.close() for meter in meters))
        await wire.close()
