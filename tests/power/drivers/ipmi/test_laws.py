"""What holds for every way of speaking IPMI with one BMC: ipmi_sim, whose orders are logged."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from ipmi_fixtures import MachineOf
from udp_tap import RAKP_1, tap

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.errors import AccessRefused, BadInput, NoAnswer, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport

pytestmark = pytest.mark.quick

WAYS = ("ipmi", "ipmitool", "ipmipower")
Result = TypeVar("Result")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def by(way: str, machine: InventoryNode, wire: Transport) -> PowerDriver:
    return driver_of(replace(machine, hardware=replace(machine.hardware, driver=way)), wire)


def with_driver(
    way: str, machine: InventoryNode, use: Callable[[PowerDriver], Awaitable[Result]], *, timeout_s: float = 10.0
) -> Result:
    """Return what `use` returns of the machine's driver, which is closed afterwards."""

    async def run() -> Result:
        wire = Transport(timeout_s=timeout_s)
        try:
            return await use(by(way, machine, wire))
        finally:
            await wire.close()

    return asyncio.run(run())


@pytest.mark.parametrize("state", [PowerState.ON, PowerState.OFF])
def test_the_state_is_that_of_the_chassis(
    way: str, state: PowerState, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    few_bmcs[0].write("power", state)
    observed = with_driver(way, machine_of(few_bmcs[0]), lambda driver: driver.query())
    assert (observed.state, observed.error) == (state, None)


@pytest.mark.parametrize(
    ("before", "order", "orders", "after"),
    [
        ("off", NodeOrder.ON, ["on"], "on"),
        ("on", NodeOrder.SOFT_OFF, ["soft_off"], "off"),
        ("on", NodeOrder.HARD_OFF, ["hard_off"], "off"),
        ("on", NodeOrder.ON, [], "on"),
        ("off", NodeOrder.SOFT_OFF, [], "off"),
        ("off", NodeOrder.HARD_OFF, [], "off"),
    ],
)
def test_an_order_is_sent_where_it_changes_something(
    way: str,
    before: str,
    order: NodeOrder,
    orders: list[str],
    after: str,
    few_bmcs: list[SimulatedBmc],
    machine_of: MachineOf,
) -> None:
    bmc = few_bmcs[0]
    bmc.write("power", before)
    with_driver(way, machine_of(bmc), lambda driver: driver.send(order))
    assert bmc.lines("orders") == orders
    assert bmc.lines("power") == [after]


def test_standby_is_no_order_of_ipmi(way: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    with pytest.raises(NotSupported, match=r"n1 .* has no order standby"):
        with_driver(way, machine_of(few_bmcs[0]), lambda driver: driver.send(NodeOrder.STANDBY))
    assert few_bmcs[0].lines("orders") == []


def test_the_identity_is_that_of_ipmitool(way: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    for bmc in few_bmcs[:2]:
        identity = with_driver(way, machine_of(bmc), lambda driver: driver.identity())
        assert identity == bmc.guid == printed_guid(bmc)


def printed_guid(bmc: SimulatedBmc) -> str:
    login = ("-H", bmc.host, "-p", str(bmc.port), "-U", "admin", "-P", "secret", "-C", "3")
    done = subprocess.run(
        ["ipmitool", "-I", "lanplus", *login, "mc", "guid"], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.splitlines()[0].partition(": ")[2]


def test_a_dead_bmc_is_unknown_within_the_timeout(
    way: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    few_bmcs[0].freeze()
    machine = machine_of(few_bmcs[0])
    observed = with_driver(way, machine, lambda driver: driver.query(), timeout_s=0.4)
    assert observed.state is PowerState.UNKNOWN
    assert isinstance(observed.error, NoAnswer)
    assert str(observed.error) == f"n1 (BMC {few_bmcs[0].host}): no answer within 0.4 s"
    with pytest.raises(NoAnswer):
        with_driver(way, machine, lambda driver: driver.send(NodeOrder.SOFT_OFF), timeout_s=0.4)
    few_bmcs[0].thaw()
    assert few_bmcs[0].lines("orders") == []


@pytest.mark.parametrize(("host", "hint"), [("bmc..1", "getent hosts bmc..1"), ("no-such-bmc.invalid", "")])
def test_a_name_that_nobody_knows_is_no_answer(
    way: str, host: str, hint: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    observed = with_driver(way, machine_of(few_bmcs[0], host=host), lambda driver: driver.query())
    assert isinstance(observed.error, NoAnswer)
    assert hint in observed.error.hint


@pytest.mark.parametrize(("user", "password"), [("admin", "wrong"), ("nobody", "secret")])
def test_a_refused_login_reaches_the_bmc_once(
    way: str, user: str, password: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    async def try_everything(machine: InventoryNode) -> None:
        wire = Transport(timeout_s=10)
        drivers = [by(each, machine, wire) for each in (way, *WAYS)]
        for driver in drivers:
            observed = await driver.query()
            assert isinstance(observed.error, AccessRefused), observed
            assert password not in f"{observed.error!r} {observed.error.hint}".replace("password", "").split()
            with pytest.raises(AccessRefused):
                await driver.send(NodeOrder.SOFT_OFF)
        await wire.close()

    with tap(few_bmcs[0].host, few_bmcs[0].port) as tapped:
        machine = machine_of(few_bmcs[0], user=user, password=password)
        machine = replace(machine, hardware=replace(machine.hardware, port=tapped.port), bmc="127.0.0.1")
        asyncio.run(try_everything(machine))
        assert tapped.seen.count(RAKP_1) == 1
    assert few_bmcs[0].lines("orders") == []


def test_too_little_privilege_says_so(way: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    machine = machine_of(few_bmcs[0], user="onlooker", privilege="user")
    few_bmcs[0].write("power", "off")
    with pytest.raises(AccessRefused, match="privilege") as caught:
        with_driver(way, machine, lambda driver: driver.send(NodeOrder.ON))
    assert "privilege" in caught.value.hint
    assert few_bmcs[0].lines("orders") == []


def test_a_password_file_that_others_can_read_stops_nothing_else(
    way: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    machine = machine_of(few_bmcs[0])
    credential = machine.hardware.credential
    assert credential is not None
    assert credential.password_file is not None
    credential.password_file.chmod(0o644)
    with pytest.raises(BadInput):
        credential.password()
    observed = with_driver(way, machine, lambda driver: driver.query())
    assert isinstance(observed.error, AccessRefused)
    assert observed.error.hint.startswith("chmod 600")


def test_a_driver_can_be_used_again_after_it_was_closed(
    way: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    async def twice(driver: PowerDriver) -> list[PowerState]:
        states = []
        for _ in range(2):
            states.append((await driver.query()).state)
            await driver.close()
            await driver.close()
        return states

    assert with_driver(way, machine_of(few_bmcs[0]), twice) == [PowerState.ON, PowerState.ON]


def test_a_query_may_be_cancelled(way: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def cancelled(driver: PowerDriver) -> PowerState:
        few_bmcs[0].freeze()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(driver.query(), 0.2)
        few_bmcs[0].thaw()
        return (await driver.query()).state

    assert with_driver(way, machine_of(few_bmcs[0]), cancelled) is PowerState.ON
