"""Sessions that are held: logged out when closed, given up when a BMC falls silent, never blocking one another."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from ipmi_fixtures import MachineOf
from udp_tap import MESSAGE, RAKP_1, Tap, tap

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.errors import AccessRefused, BadInventory, NoAnswer
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.ipmi.driver import ipmi_driver
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.drivers.transport import Transport


def on_a_wire(use: Callable[[Transport], Awaitable[None]], *, timeout_s: float = 120.0) -> None:
    async def run() -> None:
        wire = Transport(timeout_s=timeout_s)
        try:
            await use(wire)
        finally:
            await wire.close()

    asyncio.run(run())


async def is_on(driver: PowerDriver) -> None:
    """Return once the BMC answers: within a short time-out it may take some queries."""
    async with asyncio.timeout(300):
        while (await driver.query()).state is not PowerState.ON:
            pass


def through(tapped: Tap, machine: InventoryNode) -> InventoryNode:
    return replace(machine, bmc="127.0.0.1", hardware=replace(machine.hardware, port=tapped.port))


def sessions(bmc: SimulatedBmc) -> tuple[int, int]:
    """Return how many sessions the BMC opened, and how many were closed by request."""
    log = bmc.lines("log")
    return sum("Session started" in line for line in log), sum("Closed due to request" in line for line in log)


@pytest.mark.quick
def test_one_login_serves_many_queries_and_ends_with_a_logout(
    few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    async def use(wire: Transport) -> None:
        driver = ipmi_driver(machine_of(few_bmcs[0]), wire)
        for _ in range(20):
            assert (await driver.query()).state is PowerState.ON
        assert sessions(few_bmcs[0]) == (1, 0)
        await driver.close()

    on_a_wire(use)
    few_bmcs[0].settle()
    assert sessions(few_bmcs[0]) == (1, 1)


@pytest.mark.quick
def test_sessions_leave_the_shared_generator_of_random_numbers_alone(
    few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    async def use(wire: Transport) -> None:
        driver = ipmi_driver(machine_of(few_bmcs[0]), wire)
        assert (await driver.query()).state is PowerState.ON
        await driver.close()

    before = random.getstate()
    on_a_wire(use)
    assert random.getstate() == before


@pytest.mark.quick
def test_the_wire_logs_out_everywhere(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        drivers = [ipmi_driver(machine_of(bmc), wire) for bmc in few_bmcs]
        await asyncio.gather(*(driver.query() for driver in drivers))

    on_a_wire(use)
    for bmc in few_bmcs:
        bmc.settle()
        assert sessions(bmc) == (1, 1)


@pytest.mark.quick
def test_several_drivers_of_one_bmc_do_not_wait_for_each_other(
    few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    async def use(wire: Transport) -> None:
        other = Transport(timeout_s=120)
        machines = [machine_of(few_bmcs[0], node=node) for node in ("n1", "n2")]
        for _ in range(3):
            drivers = [ipmi_driver(machine, transport) for machine in machines for transport in (wire, other)]
            seen = await asyncio.gather(*(driver.query() for driver in drivers * 3))
            assert [observation.error for observation in seen] == [None] * 12
            await drivers[0].close()
            assert (await drivers[1].query()).error is None
            await asyncio.gather(*(driver.close() for driver in drivers))

    on_a_wire(use)


@pytest.mark.quick
def test_a_bmc_that_freezes_costs_the_timeout_and_is_found_again(
    few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    async def use(wire: Transport) -> None:
        driver = ipmi_driver(machine_of(few_bmcs[0]), wire)
        await is_on(driver)
        few_bmcs[0].freeze()
        begin_s = time.monotonic()
        for _ in range(2):
            assert isinstance((await driver.query()).error, NoAnswer)
        assert time.monotonic() - begin_s >= 4
        few_bmcs[0].thaw()
        await is_on(driver)

    on_a_wire(use, timeout_s=2)


@pytest.mark.quick
def test_many_that_ask_a_dead_bmc_wait_once(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        driver = ipmi_driver(machine_of(few_bmcs[0]), wire)
        for before_freezing in (driver.query, driver.close):
            await before_freezing()
            few_bmcs[0].freeze()
            begin_s = time.monotonic()
            seen = await asyncio.gather(*(driver.query() for _ in range(10)))
            assert all(isinstance(observation.error, NoAnswer) for observation in seen)
            # In turn they would wait for 30 s.
            assert time.monotonic() - begin_s < 25
            few_bmcs[0].thaw()

    on_a_wire(use, timeout_s=3)


@pytest.mark.quick
def test_a_bmc_that_dies_during_the_login_holds_nobody_up(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        live = ipmi_driver(machine_of(few_bmcs[1]), wire)
        await is_on(live)
        with tap(few_bmcs[0].host, few_bmcs[0].port) as tapped:
            tapped.swallowed.add(MESSAGE)
            driver = ipmi_driver(through(tapped, machine_of(few_bmcs[0])), wire)
            dying = asyncio.ensure_future(driver.query())
            async with asyncio.timeout(300):
                while MESSAGE not in tapped.seen:
                    await asyncio.sleep(0.01)
            living = asyncio.ensure_future(live.query())
            first, _ = await asyncio.wait([living, dying], return_when=asyncio.FIRST_COMPLETED)
            assert living in first
            error = (await dying).error
            assert isinstance(error, NoAnswer)
            assert str(error).endswith("is present, but completed no login within 4 s")
            assert "cipher_suite = 3" in error.hint
            tapped.swallowed.clear()
            await is_on(driver)
            await driver.close()

    on_a_wire(use, timeout_s=4)


@pytest.mark.quick
def test_a_late_answer_does_not_pass_for_a_wrong_password(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        with tap(few_bmcs[0].host, few_bmcs[0].port) as tapped:
            tapped.late_rakp_2 = True
            driver = ipmi_driver(through(tapped, machine_of(few_bmcs[0])), wire)
            assert isinstance((await driver.query()).error, NoAnswer)
            async with asyncio.timeout(300):
                while isinstance((observed := await driver.query()).error, NoAnswer):
                    pass
            assert (observed.state, observed.error) == (PowerState.ON, None)
            await driver.close()

    on_a_wire(use, timeout_s=0.4)


@pytest.mark.quick
def test_a_lost_answer_is_requested_again_without_a_login(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        with tap(few_bmcs[0].host, few_bmcs[0].port) as tapped:
            driver = ipmi_driver(through(tapped, machine_of(few_bmcs[0])), wire)
            await driver.query()
            tapped.swallowed.add(MESSAGE)
            sent = tapped.seen.count(MESSAGE)
            query = asyncio.ensure_future(driver.query())
            while tapped.seen.count(MESSAGE) == sent:
                await asyncio.sleep(0.01)
            tapped.swallowed.clear()
            assert (await query).state is PowerState.ON
            assert tapped.seen.count(RAKP_1) == 1
            await driver.close()

    on_a_wire(use)


@pytest.mark.quick
def test_idle_sessions_are_kept_alive(
    few_bmcs: list[SimulatedBmc], machine_of: MachineOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyghmi.ipmi.private.session.MAX_IDLE", 1.0)

    async def use(wire: Transport) -> None:
        with tap(few_bmcs[0].host, few_bmcs[0].port) as tapped:
            driver = ipmi_driver(through(tapped, machine_of(few_bmcs[0])), wire)
            await driver.query()
            sent = tapped.seen.count(MESSAGE)
            async with asyncio.timeout(300):
                while tapped.seen.count(MESSAGE) == sent:
                    await asyncio.sleep(0.05)
            await driver.close()

    on_a_wire(use)


@pytest.mark.quick
def test_suite_17_falls_back_to_3(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        driver = ipmi_driver(machine_of(few_bmcs[0], cipher_suite=17), wire)
        assert (await driver.query()).state is PowerState.ON

    on_a_wire(use)


@pytest.mark.quick
def test_other_suites_are_another_drivers(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    with pytest.raises(BadInventory, match=r"hardware\.compute\.cipher_suite.* not 12") as caught:
        ipmi_driver(machine_of(few_bmcs[0], cipher_suite=12), Transport())
    assert "ipmitool" in caught.value.hint


@pytest.mark.quick
def test_the_privilege_is_that_of_the_inventory(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        looks = ipmi_driver(machine_of(few_bmcs[0], privilege="user"), wire)
        assert (await looks.query()).state is PowerState.ON
        with pytest.raises(AccessRefused, match="insufficient privilege level"):
            await looks.send(NodeOrder.SOFT_OFF)

    on_a_wire(use)


class Babbler(asyncio.DatagramProtocol):
    """Something that answers every packet with one that makes no sense."""

    def __init__(self, packet: bytes) -> None:
        self.packet = packet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.DatagramTransport)
        self.transport = transport

    def datagram_received(self, _: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(self.packet, addr)


@pytest.mark.parametrize("rest", ["", "06", "0611", "0611" + "00" * 9, "00" + "00" * 9, "06c0" + "ff" * 30])
def test_nonsense_of_one_bmc_disturbs_no_other(rest: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def use(wire: Transport) -> None:
        loop = asyncio.get_running_loop()
        packet = bytes.fromhex("0600ff07" + rest)
        transport, _ = await loop.create_datagram_endpoint(lambda: Babbler(packet), local_addr=("127.0.0.1", 0))
        machine = machine_of(few_bmcs[0])
        port = transport.get_extra_info("sockname")[1]
        babbler = replace(machine, bmc="127.0.0.1", hardware=replace(machine.hardware, port=port))
        babble = asyncio.ensure_future(ipmi_driver(babbler, wire).query())
        live = ipmi_driver(machine, wire)
        while not babble.done():
            await is_on(live)
            await asyncio.sleep(0.05)
        assert isinstance((await babble).error, NoAnswer)
        transport.close()

    on_a_wire(use, timeout_s=3)
