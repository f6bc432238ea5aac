"""Orders whose effect is seen, against BMCs that obey, forget and fall silent."""

import asyncio

import pytest
from ipmi_fixtures import MachineOf
from ipmi_sim import SimulatedBmc

from offpeak.errors import AccessRefused, NoAnswer, WrongDevice
from offpeak.machines.inventory import Enrolled, Machine
from power.drivers.port import Order, PowerDriver, PowerState
from power.drivers.registry import driver_of
from power.drivers.verified import Outcome, bring_to, check_identity
from power.drivers.wire import Wire


def brought(machine: Machine, order: Order, *, patience_s: float = 1.0) -> Outcome:
    async def run() -> Outcome:
        wire = Wire(timeout_s=0.3)
        try:
            return await bring_to(driver_of(machine, wire), order, patience_s=patience_s, poll_s=0.05)
        finally:
            await wire.close()

    return asyncio.run(run())


def test_an_order_is_followed(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    outcome = brought(machine_of(few_bmcs[0]), Order.SOFT_OFF)
    assert (outcome.reached, outcome.sent, outcome.observed.state) == (True, 1, PowerState.OFF)
    assert few_bmcs[0].lines("orders") == ["soft_off"]


def test_what_is_so_already_needs_no_order(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    outcome = brought(machine_of(few_bmcs[0]), Order.ON)
    assert (outcome.reached, outcome.sent, few_bmcs[0].lines("orders")) == (True, 0, [])


def test_an_on_that_was_dropped_is_sent_once_more(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    few_bmcs[0].write("power", "off")
    few_bmcs[0].write("drops", "1")
    outcome = brought(machine_of(few_bmcs[0]), Order.ON)
    assert (outcome.reached, outcome.sent) == (True, 2)
    assert 0.5 <= outcome.took_s < 1.0
    assert few_bmcs[0].lines("orders") == ["on", "on"]


@pytest.mark.parametrize(("order", "before", "sent"), [(Order.ON, "off", 2), (Order.SOFT_OFF, "on", 1)])
def test_a_bmc_that_always_forgets_is_not_pestered(
    order: Order, before: str, sent: int, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    few_bmcs[0].write("power", before)
    few_bmcs[0].write("drops", "100")
    outcome = brought(machine_of(few_bmcs[0]), order, patience_s=0.4)
    assert (outcome.reached, outcome.sent, outcome.trouble) == (False, sent, None)
    assert outcome.observed.state == before
    assert few_bmcs[0].lines("orders") == [str(order)] * sent


def test_silence_is_never_off(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    few_bmcs[0].freeze()
    outcome = brought(machine_of(few_bmcs[0]), Order.SOFT_OFF, patience_s=0.5)
    assert (outcome.reached, outcome.sent, outcome.observed.state) == (False, 0, PowerState.UNKNOWN)
    assert isinstance(outcome.trouble, NoAnswer)
    few_bmcs[0].thaw()
    assert few_bmcs[0].lines("orders") == []


def test_a_refused_login_ends_it_at_once(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    outcome = brought(machine_of(few_bmcs[0], password="wrong"), Order.SOFT_OFF, patience_s=30)
    assert outcome.took_s < 5
    assert (outcome.reached, outcome.sent) == (False, 0)
    assert isinstance(outcome.trouble, AccessRefused)


def test_a_node_is_not_switched_by_the_bmc_of_another(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    mine, other = few_bmcs[:2]

    async def checked_off(driver: PowerDriver, enrolled: Enrolled) -> None:
        await check_identity(driver, enrolled)
        await driver.send(Order.SOFT_OFF)

    async def run(host: SimulatedBmc) -> None:
        wire = Wire(timeout_s=1)
        driver = driver_of(machine_of(host), wire)
        try:
            await checked_off(driver, Enrolled(mine.guid, (), "2026-11-21"))
        finally:
            await wire.close()

    asyncio.run(run(mine))
    with pytest.raises(WrongDevice, match=f"says it is {other.guid}, but {mine.guid} was enrolled on 2026-11-21"):
        asyncio.run(run(other))
    assert (mine.lines("orders"), other.lines("orders")) == (["soft_off"], [])


def test_who_does_not_say_who_it_is_is_not_believed() -> None:
    class Nameless:
        name = "n1"

        async def identity(self) -> str | None:
            return None

    with pytest.raises(WrongDevice, match="n1: does not say who it is"):
        asyncio.run(check_identity(Nameless(), Enrolled("a", (), "2026-11-21")))  # type: ignore[arg-type]
