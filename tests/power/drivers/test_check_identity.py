"""A device is spoken to as the one that was enrolled only if it says so itself."""

import asyncio

import pytest
from ipmi_fixtures import MachineOf

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.errors import WrongDevice
from offpeak.machines.inventory import Enrolment
from offpeak.model.orders import NodeOrder
from offpeak.power.drivers.port import PowerDriver, check_identity
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport


def test_a_node_is_not_switched_by_the_bmc_of_another(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    mine, other = few_bmcs[:2]

    async def checked_off(driver: PowerDriver, enrolled: Enrolment) -> None:
        await check_identity(driver, enrolled)
        await driver.send(NodeOrder.SOFT_OFF)

    async def run(host: SimulatedBmc) -> None:
        wire = Transport(timeout_s=10)
        driver = driver_of(machine_of(host), wire)
        try:
            await checked_off(driver, Enrolment(mine.guid, (), "2026-11-21"))
        finally:
            await wire.close()

    asyncio.run(run(mine))
    with pytest.raises(WrongDevice, match=f"says it is {other.guid}, but {mine.guid} was enrolled on 2026-11-21"):
        asyncio.run(run(other))
    assert (mine.lines("orders"), other.lines("orders")) == (["soft_off"], [])


def test_bmc_without_an_identity_is_not_trusted() -> None:
    class Nameless:
        name = "n1"

        async def identity(self) -> str | None:
            return None

    with pytest.raises(WrongDevice, match="n1: reports no identity"):
        asyncio.run(check_identity(Nameless(), Enrolment("a", (), "2026-11-21")))  # type: ignore[arg-type]
