"""Standby is proven or not offered: nodes that really go away, and come back by packet, BMC, alarm, or never."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from fake_node import ASLEEP_W, AWAKE_W, MAC, FakeNode, fake_node
from redfish_peer import SYSTEM, RedfishPeer, redfish_peer

from benchmarks.local_slurm.processes import reserved_ports
from offpeak.errors import AccessRefused, BadAnswer, BadInventory, NoAnswer, NotSupported
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.power.check.standby import GiveOrder, StandbyParts, StandbyTestResult, alarm_after_s, suspend_and_wake
from offpeak.power.drivers.logins import Logins
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.drivers.redfish import RedfishDriver
from offpeak.power.drivers.ssh import NodeSsh, SshDriver
from offpeak.power.drivers.wake_on_lan import WakeOnLanDriver

SPEED = 40.0
RUNG = SleepMethod(NodeOrder.STANDBY, ("bmc", "wol"), enter_timeout_s=100, wake_timeout_s=40, ceiling_w=25.0)

Meter = Callable[[FakeNode], Callable[[], Awaitable[float | None]] | None]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_ports(1) as (port,):
        yield port


class Bench:
    """Tests the standby of one node, forty times as fast as time passes."""

    def __init__(self, folder: Path, port: int, bmc: RedfishPeer) -> None:
        self.folder, self.port, self.bmc = folder, port, bmc
        (folder / "password").touch(mode=0o600)
        (folder / "password").write_text("secret")
        self.node: FakeNode | None = None

    def prove(
        self,
        method: SleepMethod = RUNG,
        *,
        watts: Meter = lambda node: node.watts,
        spoil: Callable[[FakeNode], None] = lambda _node: None,
        bmc_wakes: bool = False,
        **faults: Any,
    ) -> StandbyTestResult:
        async def there() -> StandbyTestResult:
            async with fake_node(self.folder, self.port, speed=SPEED, **faults) as node:
                self.node = node
                spoil(node)
                self._wire(node, bmc_wakes)
                machine = self._machine(node, method)
                by_ssh = NodeSsh(machine, logins=Logins(), timeout_s=10.0)
                parts = StandbyParts(machine, by_ssh, method, self._orders(machine, method), watts(node))
                return await suspend_and_wake(
                    parts, clock=lambda: time.monotonic() * SPEED, sleep=lambda s: asyncio.sleep(s / SPEED)
                )

        return asyncio.run(there())

    def _wire(self, node: FakeNode, bmc_wakes: bool) -> None:
        loop = asyncio.get_running_loop()
        self.bmc.resources[SYSTEM]["PowerState"] = "Off" if bmc_wakes else "On"
        self.bmc.on_reset = lambda _reset: loop.call_soon_threadsafe(lambda: asyncio.ensure_future(node.wake()))

    def _machine(self, node: FakeNode, method: SleepMethod) -> InventoryNode:
        bmc = Credential("bmc", "admin", self.folder / "password")
        ssh = Credential("nodes", "root", key_file=self.folder / "key", known_hosts=self.folder / "known_hosts")
        hardware = Hardware("compute", "redfish", bmc, ssh=ssh, ssh_port=self.port, sleep_methods=(method,))
        return InventoryNode("n001", hardware, bmc=self.bmc.url, ssh="127.0.0.1", mac=MAC, wol_via=node.via)

    def _orders(self, machine: InventoryNode, method: SleepMethod) -> GiveOrder:
        async def order(order: NodeOrder, way: str) -> None:
            await self._driver(machine, way, alarm_after_s(method)).send(order)

        return order

    def _driver(self, machine: InventoryNode, way: str, alarm_s: int) -> PowerDriver:
        if way == "bmc":
            return RedfishDriver(machine, logins=Logins(), timeout_s=10.0)
        if way == "wol":
            return WakeOnLanDriver(machine)
        if way:
            raise BadInventory("it has none")
        return SshDriver(machine, logins=Logins(), timeout_s=10.0, dead_man_s=alarm_s)


@pytest.fixture
def bench(tmp_path: Path, port: int) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, port, stack.enter_context(redfish_peer()))


def test_a_bmc_that_takes_a_sleeper_for_running_leaves_it_to_the_packet(bench: Bench) -> None:
    result = bench.prove()
    assert result.offered
    assert (result.woken_by, result.by_power, result.asleep_w) == ("wol", True, ASLEEP_W)
    assert result.notes == ("bmc: did not wake it within 40 s",)
    assert result.enter_s is not None
    assert result.wake_s is not None
    # It goes a second of the real clock after its answer, which may come late.
    assert 0.2 * SPEED < result.enter_s < 100
    assert 0 <= result.wake_s < 40
    assert bench.bmc.resets == []


def test_a_bmc_that_sees_the_sleep_wakes_it(bench: Bench) -> None:
    result = bench.prove(bmc_wakes=True)
    assert result.offered
    assert (result.woken_by, result.notes) == ("bmc", ())
    assert bench.bmc.resets == ["On"]


def test_without_a_meter_or_a_ceiling_power_proves_nothing(bench: Bench) -> None:
    result = bench.prove(bmc_wakes=True, watts=lambda _node: None)
    assert result.offered
    assert not result.by_power
    assert result.notes == ("not proven by power: no meter showed its power",)
    result = bench.prove(replace(RUNG, ceiling_w=None), bmc_wakes=True)
    assert (result.offered, result.by_power, result.asleep_w) == (True, False, ASLEEP_W)
    assert result.notes == ("not proven by power: the rung has no ceiling",)


def test_a_meter_that_fails_is_no_proof(bench: Bench) -> None:
    async def fails() -> float | None:
        raise NoAnswer("pdu1: silent")

    result = bench.prove(bmc_wakes=True, watts=lambda _node: fails)
    assert (result.offered, result.by_power, result.asleep_w) == (True, False, None)


def test_a_node_that_is_silent_but_hot_is_woken_and_not_offered(bench: Bench) -> None:
    result = bench.prove(bmc_wakes=True, asleep_w=AWAKE_W)
    assert str(result.error) == "n001: silent, but draws 212 W, above the ceiling of 25 W"
    assert not result.offered
    assert result.woken_by == "bmc"


def test_a_node_that_boots_instead_of_waking_has_lost_its_standby(bench: Bench) -> None:
    result = bench.prove(bmc_wakes=True, boots_on_wake=True)
    assert str(result.error) == "n001: rebooted instead of waking from standby"
    assert (result.offered, result.woken_by) == (False, "bmc")


def test_a_node_that_only_its_alarm_wakes_is_not_offered(bench: Bench) -> None:
    result = bench.prove(replace(RUNG, wake=("pdu",), wake_timeout_s=20))
    assert str(result.error) == "n001: only its own alarm clock woke it"
    assert result.notes == ("pdu: it has none",)
    assert (result.woken_by, result.wake_s) == ("clock", None)


def test_a_node_that_never_comes_back_is_reported_and_never_cut(bench: Bench) -> None:
    result = bench.prove(replace(RUNG, wake_timeout_s=20), bmc_wakes=True, never_wakes=True)
    assert isinstance(result.error, NoAnswer)
    assert str(result.error) == "n001: does not wake from standby"
    assert "console" in result.error.hint
    assert result.notes == ("bmc: did not wake it within 20 s", "wol: did not wake it within 20 s")
    assert bench.bmc.resets == ["On"]


def test_a_way_that_fails_is_noted_and_the_next_one_tried(bench: Bench) -> None:
    bench.bmc.login = "admin:changed"
    result = bench.prove()
    assert result.offered
    assert result.woken_by == "wol"
    assert "refuses GET /redfish/v1/Systems (HTTP 401)" in result.notes[0]


def test_a_node_that_stays_up_is_reported(bench: Bench) -> None:
    def no_suspend(node: FakeNode) -> None:
        node.write("run/systemd/system/x", "")
        node.write("usr/bin/systemctl", "#!/bin/sh\nexit 1\n")

    result = bench.prove(spoil=no_suspend)
    assert str(result.error) == "n001: still answers 100 s after it was to sleep"
    assert (result.enter_s, result.wake_s) == (None, None)


@pytest.mark.parametrize(
    ("spoilt", "text", "kind", "message"),
    [
        ("sys/power/mem_sleep", "[s2idle]\n", NotSupported, "n001: offers no standby by deep"),
        ("proc/77/comm", "slurmstepd\n", BadAnswer, "n001: standby: process 77 belongs to a job"),
    ],
)
def test_a_node_that_cannot_or_works_is_left_alone(
    bench: Bench, spoilt: str, text: str, kind: type[Exception], message: str
) -> None:
    result = bench.prove(spoil=lambda node: node.write(spoilt, text))
    assert type(result.error) is kind
    assert str(result.error) == message
    assert bench.bmc.requested == []


@pytest.mark.parametrize("state", ["shallow", "s2idle"])
def test_a_node_without_s3_proves_another_sleep_state(bench: Bench, state: str) -> None:
    def without_s3(node: FakeNode) -> None:
        node.write("sys/power/mem_sleep", "[s2idle] shallow\n")

    result = bench.prove(spoil=without_s3)
    assert str(result.error) == "n001: offers no standby by deep"
    assert result.error is not None
    assert result.error.hint.startswith("it offers s2idle, shallow: set mem_sleep below [hardware.compute.standby]")
    result = bench.prove(replace(RUNG, mem_sleep=state), spoil=without_s3)
    assert (result.offered, result.by_power, result.woken_by) == (True, True, "wol")
    assert bench.node is not None
    assert any(request == f"standby {alarm_after_s(RUNG)} {state}" for request in bench.node.requested)


def test_a_refused_key_ends_the_test(bench: Bench) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key()
    result = bench.prove(spoil=lambda node: node.authorized_keys.write_bytes(other))
    assert isinstance(result.error, AccessRefused)


def test_a_node_without_an_alarm_clock_is_warned_of(bench: Bench) -> None:
    result = bench.prove(bmc_wakes=True, spoil=lambda node: (node.root / "sys/class/rtc/rtc0/wakealarm").unlink())
    assert result.offered
    assert result.notes == ("it has no alarm clock: if no other way wakes it, it stays asleep",)
