"""The power drivers and meters find, switch and measure a virtual room by nothing but the folder that it wrote."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from served_room import ServedRoom, planned, served_room

from benchmarks.local_slurm.processes import wait_until
from offpeak.machines.inventory import Inventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.port import Reading
from offpeak.power.meters.registry import device_meters
from offpeak.sim_backend.virtual.room_plan import room_logins, write_inventory

NODES = 30
FASTER = 1000.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedRoom, Inventory]]:
    """A room of two racks, and its inventory."""
    folder, plan = tmp_path_factory.mktemp("room"), planned(f"n[01-{NODES}]", clock_factor=FASTER)
    inventory = write_inventory(folder, plan, node_class="server", made_by="a test")
    with served_room(plan, room_logins(folder)) as room:
        yield room, read_inventory(Path(inventory))


async def states(inventory: Inventory, *nodes: str) -> list[PowerState]:
    wire = Transport()
    drivers = [driver_of(machine, wire) for machine in inventory.chosen(nodes)]
    seen = await asyncio.gather(*(driver.query() for driver in drivers))
    await wire.close()
    return [observation.state for observation in seen]


async def reported(inventory: Inventory, node: str, order: NodeOrder) -> str | None:
    """Send an order; return the node that received it."""
    wire = Transport()
    driver = driver_of(inventory.chosen((node,))[0], wire)
    await driver.send(order)
    who = await driver.identity()
    await wire.close()
    return who


async def metered(inventory: Inventory) -> dict[tuple[str, str], float | None]:
    """Return the watts of each node by each way of measuring it, and of each PDU as a whole."""
    wire = Transport()
    readings: list[Reading] = []
    for meter in device_meters(inventory.machines, inventory.pdus, wire):
        readings.extend(await meter.read())
        await meter.close()
    await wire.close()
    wanted = [reading for reading in readings if reading.node or reading.part == "total"]
    return {(reading.way, reading.node or reading.meter): reading.power_w for reading in wanted}


def test_every_node_is_found_on(site: tuple[ServedRoom, Inventory]) -> None:
    room, inventory = site
    assert asyncio.run(states(inventory, *room.plan.nodes)) == [PowerState.ON] * NODES


def test_a_node_is_switched_off_and_the_meter_sees_it(site: tuple[ServedRoom, Inventory]) -> None:
    room, inventory = site
    who = asyncio.run(reported(inventory, "n07", NodeOrder.SOFT_OFF))
    assert who is not None
    assert str(room.do(lambda room: room.bmcs["n07"].guid)).replace("-", "") in who.replace("-", "").lower()
    room.do(lambda room: room.nodes["n30"].use(1.0))
    gone = [PowerState.OFF, PowerState.ON]
    wait_until(lambda: asyncio.run(states(inventory, "n07", "n08")) == gone, what="the shutdown")
    watts = asyncio.run(metered(inventory))
    for node, expected_w in {"n07": 15, "n08": 200, "n30": 700}.items():
        assert (watts["snmp", node], watts["dcmi", node]) == (expected_w, expected_w)
    # 23 x 200 W + 15 W; a whole PDU says so in steps of 10 W.
    assert (watts["snmp", "rack1"], watts["snmp", "rack2"]) == (4620, 1700)
