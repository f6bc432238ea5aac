"""A command that changes a node's power is sent once: whatever the wire loses, nothing below the door repeats it."""

import asyncio
import time
from dataclasses import replace

import pytest
from ipmi_fixtures import MachineOf
from udp_tap import MESSAGE, tap

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.door.door import Guard
from offpeak.errors import NoAnswer
from offpeak.model.orders import NodeOrder
from offpeak.power.drivers.ipmi.driver import ipmi_driver
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport

DRIVERS = ("ipmi", "ipmitool", "ipmipower")
SILENT_S = 8.0
"""Long enough for the second try of each program."""


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_order_whose_answer_is_lost_is_not_repeated(
    driver: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    bmc = few_bmcs[0]

    async def send() -> None:
        machine = machine_of(bmc, driver=driver)
        wire = Transport(timeout_s=SILENT_S)
        with tap(bmc.host, bmc.port) as tapped:
            # The node stays up, as one that needs minutes to shut down: a second order would be carried out, too.
            tapped.is_mute = lambda: bool(bmc.lines("orders"))
            hardware = replace(machine.hardware, port=tapped.port)
            switch = driver_of(replace(machine, bmc="127.0.0.1", hardware=hardware), wire)
            with pytest.raises(NoAnswer):
                await switch.send(NodeOrder.SOFT_OFF)
            await wire.close()

    asyncio.run(send())
    bmc.settle()
    assert bmc.lines("orders") == ["soft_off"]


@pytest.mark.parametrize("driver", ["ipmitool", "ipmipower"])
def test_a_program_that_logs_in_slowly_sends_nothing_when_the_guard_has_ended(
    driver: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    """The program runs alone: its end does not depend on the process that has started it."""
    bmc = few_bmcs[0]

    async def send() -> None:
        machine = machine_of(bmc, driver=driver)
        wire = Transport(timeout_s=SILENT_S)
        with tap(bmc.host, bmc.port) as tapped:
            hardware = replace(machine.hardware, port=tapped.port)
            switch = driver_of(replace(machine, bmc="127.0.0.1", hardware=hardware), wire)

            async def confirm() -> Guard:
                def guard() -> float:
                    # The login takes 1.5 s, and the lease ends after one.
                    tapped.holds_until_s = time.monotonic() + 1.5
                    return 1.0

                return guard

            with pytest.raises(NoAnswer):
                await switch.send(NodeOrder.SOFT_OFF, confirm)
            await asyncio.sleep(2.0)
            await wire.close()

    asyncio.run(send())
    bmc.settle()
    assert bmc.lines("orders") == []


def test_an_order_that_is_lost_on_its_way_never_arrives_later(
    few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    bmc = few_bmcs[0]

    async def send() -> None:
        machine = machine_of(bmc)
        wire = Transport(timeout_s=SILENT_S)
        with tap(bmc.host, bmc.port) as tapped:
            switch = ipmi_driver(
                replace(machine, bmc="127.0.0.1", hardware=replace(machine.hardware, port=tapped.port)), wire
            )

            async def confirm() -> Guard:
                def guard() -> None:
                    tapped.swallowed.add(MESSAGE)

                return guard

            sending = asyncio.ensure_future(switch.send(NodeOrder.SOFT_OFF, confirm))
            async with asyncio.timeout(300):
                while MESSAGE not in tapped.swallowed or tapped.seen[-1:] != [MESSAGE]:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            tapped.swallowed.clear()
            with pytest.raises(NoAnswer):
                await sending
            await wire.close()

    asyncio.run(send())
    bmc.settle()
    assert bmc.lines("orders") == []
