"""The wire before a BMC notes exactly the orders that an agent sends, and loses or delays them as it is set to."""

import asyncio
import subprocess
from dataclasses import replace

import pytest
from ipmi_fixtures import MachineOf

from benchmarks.local_slurm.ipmi_sim import PORT, SimulatedBmc
from benchmarks.local_slurm.wire import Wire, wire
from offpeak.errors import NoAnswer
from offpeak.model.clock import boot_s
from offpeak.model.orders import NodeOrder
from offpeak.power.drivers.ipmi.driver import BmcDriver, ipmi_driver
from offpeak.power.drivers.transport import Transport

LATE_S = 1.5


def test_orders_are_noted_as_they_pass_and_lost_or_late(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    bmc = few_bmcs[0]
    with wire("node1", (bmc.host, bmc.port), PORT + 1, "secret") as made:
        begun_s = boot_s()
        asyncio.run(send_all(made, bmc, machine_of))
        login = ("-I", "lanplus", "-C", "3", "-H", bmc.host, "-p", str(PORT + 1), "-U", "admin", "-P", "secret")
        subprocess.run(("ipmitool", *login, "chassis", "power", "on"), check=True)
        bmc.settle()
    assert [order.text for order in made.orders] == ["soft_off node1", "on node1", "hard_off node1"]
    assert begun_s < made.orders[0].at_s < made.orders[1].at_s
    assert bmc.lines("orders") == ["on", "hard_off", "on"]


async def send_all(made: Wire, bmc: SimulatedBmc, machine_of: MachineOf) -> None:
    """Send an order that is lost, one that arrives, and one that is late."""
    machine = machine_of(bmc)
    transport = Transport(timeout_s=4.0)
    driver: BmcDriver = ipmi_driver(replace(machine, hardware=replace(machine.hardware, port=PORT + 1)), transport)
    made.copies_s = ()
    with pytest.raises(NoAnswer):
        await driver.send(NodeOrder.SOFT_OFF)
    made.copies_s = (0.0,)
    bmc.write("power", "off")
    await driver.send(NodeOrder.ON)
    made.copies_s = (LATE_S,)
    sent_s = boot_s()
    await driver.send(NodeOrder.HARD_OFF)
    assert boot_s() - sent_s >= LATE_S
    await transport.close()
