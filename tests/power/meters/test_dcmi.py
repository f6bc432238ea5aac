"""Watts of a BMC: read over the session of its driver; no figure rather than a false one."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ipmi_fixtures import MachineOf

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.errors import AccessRefused, BadAnswer, NoAnswer, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.bmc import NO_WATTS, NOT_ACTIVE, dcmi_meter, watts
from offpeak.power.meters.port import Reading

pytestmark = pytest.mark.quick

# Of ipmi_sim: DCMI itself asks for user only.
DCMI_NEEDS = "admin"


def read(machine: InventoryNode, *, timeout_s: float = 20.0) -> tuple[Reading, ...]:
    async def run() -> tuple[Reading, ...]:
        wire = Transport(timeout_s=timeout_s, clock=lambda: 7.0)
        try:
            return await dcmi_meter(machine, wire).read()
        finally:
            await wire.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("written", "power_w", "why"),
    [("250", 250.0, ""), ("40000", 40000.0, ""), ("0", None, NO_WATTS), ("-1", None, NOT_ACTIVE)],
)
def test_watts_are_what_the_bmc_measures(
    written: str, power_w: float | None, why: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    few_bmcs[0].write("watts", written)
    assert read(machine_of(few_bmcs[0], privilege=DCMI_NEEDS)) == (
        Reading("n1", "dcmi", "total", power_w, 7.0, node="n1", why=why),
    )


def test_a_bmc_without_dcmi_says_so(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    (few_bmcs[0].folder / "watts").unlink()
    with pytest.raises(NotSupported, match="DCMI Get Power Reading: invalid command"):
        read(machine_of(few_bmcs[0], privilege=DCMI_NEEDS))


def test_a_bmc_that_wants_more_privilege_says_so(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    with pytest.raises(AccessRefused, match="insufficient privilege level") as caught:
        read(machine_of(few_bmcs[0], privilege="operator"))
    assert "set another privilege" in caught.value.hint


def test_a_dead_bmc_has_no_reading(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    few_bmcs[0].freeze()
    with pytest.raises(NoAnswer):
        read(machine_of(few_bmcs[0], privilege=DCMI_NEEDS), timeout_s=0.5)


def test_meter_and_driver_share_a_session(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def run() -> None:
        wire = Transport(timeout_s=20)
        machine = machine_of(few_bmcs[0], privilege=DCMI_NEEDS)
        meter, driver = dcmi_meter(machine, wire), driver_of(machine, wire)
        await asyncio.gather(*(each() for each in (meter.read, driver.query) * 5))
        await meter.close()
        await driver.query()
        await driver.close()

    asyncio.run(run())
    assert sum("Session started" in line for line in few_bmcs[0].lines("log")) == 2


@given(st.binary(max_size=40))
def test_any_dcmi_answer_is_watts_or_a_bad_answer(answer: bytes) -> None:
    try:
        power_w, why = watts(answer)
    except BadAnswer:
        return
    assert (power_w is None) == bool(why)
    assert power_w is None or power_w > 0
