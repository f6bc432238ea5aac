"""Caps go through the door, are in the ledger before the device has them, and are removed whatever happens."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fake_node import fake_node
from redfish_peer import CHASSIS, SYSTEM, RedfishPeer, redfish_peer
from served_room import ServedRoom, planned, served_room
from udp_tap import MESSAGE, tap

from benchmarks.local_slurm.processes import reserved_ports, wait_until
from offpeak.door.effect import Hold, Mode, Outcome, Refusal
from offpeak.errors import BadAnswer, BadInventory, NoAnswer, NotSupported, OrderTooLate
from offpeak.ledger.ledger import Ledger
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.power.door.cap_orders import CapDevices, CapOrderer, CapOrders, CapRecords, make_cap_door
from offpeak.power.drivers.caps import CapDriver, CapState, cap_driver_of
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.settings.ledger import LedgerSettings
from offpeak.sim_backend.virtual.node import BmcFaults

ADMIN, AGENT = CapOrderer("admin carla", "heat wave"), CapOrderer("offpeak", "grid event")


def passes() -> None:
    """A guard that lets each command go."""


def refuses() -> None:
    """A guard that keeps each command back."""
    raise OrderTooLate("the lease has ended")


@pytest.fixture(scope="module")
def room() -> Iterator[ServedRoom]:
    with served_room(planned("n[1-4]")) as room:
        for node in ("n1", "n2", "n3", "n4"):
            room.do(lambda room, node=node: room.nodes[node].use(1.0))
        yield room


@pytest.fixture(autouse=True)
def without_faults(room: ServedRoom) -> Iterator[None]:
    yield
    for node in room.plan.nodes:
        room.do(lambda room, node=node: setattr(room.bmcs[node], "faults", BmcFaults()))
        room.do(lambda room, node=node: setattr(room.bmcs[node], "power_limit", type(room.bmcs[node].power_limit)()))
        room.do(lambda room, node=node: room.nodes[node].limit(float("inf")))


@dataclass
class Site:
    """The orders of a site with a ledger in a file; `mode`, `holds` and `allowed` may be changed."""

    room: ServedRoom
    machines: dict[str, InventoryNode]
    ledger: Ledger
    mode: Mode = Mode.ACTIVE
    allowed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.holds: dict[str, Hold] = {}

    @asynccontextmanager
    async def orders(self, timeout_s: float = 120.0) -> AsyncIterator[CapOrders]:
        wire = Transport(timeout_s=timeout_s)
        door = make_cap_door(
            self.ledger,
            lambda _: self.mode,
            time.time,
            nodes=self.machines,
            hold_of=self.holds.get,
            may_cap=self.allowed.__contains__,
        )
        records = CapRecords(self.ledger)
        records.load()
        devices = CapDevices(self.machines, wire, DriverPool(self.machines, wire).bmc_of)
        try:
            yield CapOrders(door, devices, records, time.time)
        finally:
            await wire.close()

    def cap(self, caps_w: dict[str, int], by: CapOrderer = ADMIN, timeout_s: float = 120.0) -> dict[str, Any]:
        async def run() -> dict[str, Any]:
            async with self.orders(timeout_s) as orders:
                return await orders.cap(caps_w, by)

        return asyncio.run(run())

    def uncap(self, *nodes: str, timeout_s: float = 120.0) -> dict[str, Any]:
        async def run() -> dict[str, Any]:
            async with self.orders(timeout_s) as orders:
                return await orders.uncap(nodes, AGENT)

        return asyncio.run(run())

    def watts(self, node: str) -> float:
        return self.room.do(lambda room: room.nodes[node].power_w)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.sqlite"))
    # On a busy machine a new ledger takes longer than a query waits.
    ledger.write_states([])
    wait_until(ledger.settle, what="the tables of the ledger")
    yield ledger
    ledger.close()


@pytest.fixture
def site(room: ServedRoom, ledger: Ledger, tmp_path: Path) -> Site:
    password = tmp_path / "password"
    password.touch(mode=0o600)
    password.write_text("secret")
    hardware = Hardware(
        "virtual", "ipmi", Credential("bmc", "admin", password), port=room.plan.bmc_port, cap_by="bmc", cap_curve="v100"
    )
    pairs = zip(room.plan.nodes, room.plan.bmc_hosts, strict=True)
    return Site(room, {node: InventoryNode(node, hardware, bmc=host) for node, host in pairs}, ledger)


def test_a_cap_is_obeyed_and_removed(site: Site) -> None:
    full_w, begun_unix_s = site.watts("n1"), time.time()
    cap_w = round(full_w - 30)
    assert site.cap({"n1": cap_w, "n2": cap_w}) == dict.fromkeys(("n1", "n2"), Outcome("done", "accepted"))
    assert (site.watts("n1"), site.watts("n2"), site.watts("n3")) == (cap_w, cap_w, full_w)
    (done,) = site.ledger.recent(begun_unix_s)
    assert (done.intent.effect.subject, str(done.intent.effect.order)) == ("n[1-2]", "cap")
    assert dict(done.intent.effect.inputs)["cap_w"] == cap_w
    # Another program, such as the agent after a crash, removes what this one has set.
    assert site.uncap("n1", "n2") == dict.fromkeys(("n1", "n2"), Outcome("done", "accepted"))
    assert site.watts("n1") == full_w
    assert site.uncap("n1") == {}


def test_each_command_of_a_cap_is_sent_once_and_by_its_guard(site: Site) -> None:
    """pyghmi repeats by its own timer what has no answer, when the order may no longer hold."""
    machine = site.machines["n1"]

    async def send() -> None:
        wire = Transport(timeout_s=8.0)
        with tap(machine.bmc or "", machine.hardware.port or 0) as tapped:
            tapped_machine = replace(machine, bmc="127.0.0.1", hardware=replace(machine.hardware, port=tapped.port))
            driver = cap_driver_of(tapped_machine, wire)
            was = await driver.read_cap()
            tapped.seen.clear()
            for order in (driver.set_cap(200, was, 60, refuses), driver.restore_cap(was, refuses)):
                with pytest.raises(OrderTooLate):
                    await order
            assert tapped.seen == []
            tapped.is_mute = lambda: True
            with pytest.raises(NoAnswer):
                await driver.set_cap(200, was, 60, passes)
            assert tapped.seen == [MESSAGE]
            tapped.is_mute = bool
            await wire.close()

    asyncio.run(send())


def test_a_cap_that_came_first_is_not_taken_for_the_limit_from_before(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.allowed, full_w, read = frozenset({"n1"}), site.watts("n1"), CapDevices.read
    caps_w, is_first = (round(full_w - 30), round(full_w - 50)), [True]

    async def run() -> None:
        async with site.orders() as orders:

            async def read_later(devices: CapDevices, node: str, *, with_draw: bool = True) -> CapState:
                if is_first.pop() if is_first else False:
                    await orders.cap({"n1": caps_w[0]}, AGENT)
                return await read(devices, node, with_draw=with_draw)

            monkeypatch.setattr(CapDevices, "read", read_later)
            await orders.cap({"n1": caps_w[1]}, ADMIN)
            assert (site.watts("n1"), orders.records.by_node["n1"].by) == (caps_w[1], "admin carla")
            await orders.uncap(("n1",), AGENT)
            assert site.watts("n1") == full_w

    asyncio.run(run())


def test_an_agent_that_ends_sets_no_cap_that_was_ordered_before(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    full_w, read = site.watts("n1"), CapDevices.read

    async def run() -> Any:
        async with site.orders() as orders:

            async def end_meanwhile(devices: CapDevices, node: str, *, with_draw: bool = True) -> CapState:
                orders.records.is_closed = True
                return await read(devices, node, with_draw=with_draw)

            monkeypatch.setattr(CapDevices, "read", end_meanwhile)
            return (await orders.cap({"n1": 200}, ADMIN))["n1"], orders.records.by_node

    answer, records = asyncio.run(run())
    assert (answer, records) == (Refusal("cap", "n1: the agent is ending, and its caps with it"), {})
    assert site.watts("n1") == full_w


def test_shadow_mode_sets_nothing_and_records_what_it_would_have(site: Site) -> None:
    site.mode, full_w, begun_unix_s = Mode.SHADOW, site.watts("n1"), time.time()
    (answer,) = site.cap({"n1": 200}).values()
    assert isinstance(answer, Refusal)
    assert answer.rule == "mode"
    assert site.watts("n1") == full_w
    assert site.room.do(lambda room: room.bmcs["n1"].power_limit.active) is False
    assert site.ledger.recent(begun_unix_s) == ()


def test_the_agent_leaves_the_cap_of_an_admin_alone(site: Site) -> None:
    site.allowed, cap_w = frozenset(site.machines), round(site.watts("n1") - 30)
    site.cap({"n1": cap_w})
    (answer,) = site.cap({"n1": cap_w - 50}, AGENT).values()
    assert isinstance(answer, Refusal)
    assert answer.message == "n1: admin carla has capped it: heat wave"
    assert site.cap({"n1": cap_w - 20})["n1"].result == "done"
    assert site.watts("n1") == cap_w - 20
    site.uncap("n1")


def test_shadow_mode_still_removes_a_cap(site: Site) -> None:
    full_w = site.watts("n1")
    site.cap({"n1": round(full_w - 30)})
    site.mode = Mode.SHADOW
    assert site.uncap("n1")["n1"].result == "done"
    assert site.watts("n1") == full_w


def test_the_agent_caps_only_where_it_is_allowed(site: Site) -> None:
    site.allowed, site.holds = frozenset({"n1", "n2"}), {"n2": Hold("dora", "memory test")}
    answers = site.cap({"n1": 250, "n2": 250, "n3": 250, "n9": 250}, AGENT)
    rules = {node: answer.rule if isinstance(answer, Refusal) else answer.result for node, answer in answers.items()}
    assert rules == {"n1": "done", "n2": "held", "n3": "consent", "n9": "opted_in"}
    site.uncap("n1")


def test_a_cap_outside_the_range_of_the_device_is_one_line(site: Site) -> None:
    answers = site.cap({"n1": 10, "n2": 250})
    assert answers["n1"].result == "failed"
    assert "does not accept a limit of 10 W" in answers["n1"].message
    assert answers["n2"].result == "done"
    site.uncap("n1", "n2")


def test_a_limit_of_the_site_is_not_raised_and_comes_back(site: Site) -> None:
    full_w = site.watts("n1")
    site.cap({"n1": round(full_w - 20)})
    site.ledger.remember("cap of n1", "")
    (answer,) = site.cap({"n1": round(full_w - 10)}).values()
    assert isinstance(answer, Refusal)
    assert "already, which offpeak has not set" in answer.message
    assert site.cap({"n1": round(full_w - 40)})["n1"].result == "done"
    site.uncap("n1")
    assert site.watts("n1") == round(full_w - 20)


def test_a_lower_limit_that_somebody_else_has_set_stays(site: Site) -> None:
    cap_w = round(site.watts("n1") - 30)
    site.cap({"n1": cap_w})

    async def lower_by_hand() -> None:
        async with site.orders() as orders:
            await orders.devices.read("n1")
            await orders.devices.driver_of("n1").set_cap(cap_w - 20, CapState(None), 0, passes)

    asyncio.run(lower_by_hand())
    assert site.watts("n1") == cap_w - 20
    assert site.uncap("n1") == {"n1": Outcome("done", "accepted")}
    assert site.watts("n1") == cap_w - 20
    assert site.uncap("n1") == {}, "it is no cap of ours any more"


def test_dead_bmcs_hold_nobody_up(site: Site) -> None:
    site.room.do(lambda room: setattr(room.bmcs["n3"], "faults", BmcFaults(silent=True)))
    cap_w = round(site.watts("n1") - 30)

    async def run() -> None:
        async with site.orders() as orders:
            order = asyncio.create_task(orders.cap(dict.fromkeys(site.machines, cap_w), ADMIN))
            while [site.watts(node) for node in ("n1", "n2", "n4")] != [cap_w] * 3:
                assert not order.done()
                await asyncio.sleep(0.02)
            order.cancel()

    asyncio.run(run())
    assert site.cap({"n3": cap_w}, timeout_s=0.5)["n3"].result == "failed"
    site.uncap(*site.machines)


def test_a_cap_that_cannot_be_recorded_is_not_set(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    full_w = site.watts("n1")
    monkeypatch.setattr(CapRecords, "are_written", lambda _records: False)
    (answer,) = site.cap({"n1": 200}).values()
    assert isinstance(answer, Refusal)
    assert answer.rule == "ledger"
    assert site.watts("n1") == full_w


def test_a_cap_that_cannot_be_removed_stays_in_the_ledger(site: Site) -> None:
    full_w = site.watts("n1")
    site.cap({"n1": round(full_w - 30)})
    site.room.do(lambda room: setattr(room.bmcs["n1"], "faults", BmcFaults(silent=True)))
    failed = site.uncap("n1", timeout_s=4.0)["n1"]
    kept = CapRecords(site.ledger)
    kept.load()
    assert (failed.result, kept.by_node["n1"].problem) == ("failed", failed.message)
    site.room.do(lambda room: setattr(room.bmcs["n1"], "faults", BmcFaults()))
    assert site.uncap("n1")["n1"].result == "done"
    assert site.watts("n1") == full_w


def test_caps_are_renewed_and_what_fails_is_returned(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    cap_w, sent = round(site.watts("n1") - 30), list[tuple[str, int]]()
    site.cap({"n1": cap_w, "n2": cap_w})

    class NodeWithTimer:
        has_timer = True

        def __init__(self, node: str) -> None:
            self.node = node

        async def set_cap(self, cap_w: int, was: CapState, for_s: float, guard: Callable[[], float]) -> None:  # noqa: ARG002
            guard()
            if self.node == "n2":
                raise NoAnswer("n2: silent")
            sent.append((self.node, cap_w))

    async def run() -> tuple[dict[str, Any], float]:
        async with site.orders() as orders:
            before_s = orders.records.by_node["n1"].renewed_unix_s
            problems = await orders.renew(["n1", "n2", "n4"])
            return problems, orders.records.by_node["n1"].renewed_unix_s - before_s

    with monkeypatch.context() as patch:
        patch.setattr(CapDevices, "driver_of", lambda _, node: NodeWithTimer(node))
        problems, later_s = asyncio.run(run())
    assert (list(problems), sent, later_s > 0) == (["n2"], [("n1", cap_w)], True)
    site.uncap("n1", "n2")


@pytest.fixture
def peer() -> Iterator[RedfishPeer]:
    with redfish_peer() as peer:
        yield peer


def redfish_cap(peer: RedfishPeer, tmp_path: Path, act: Callable[[CapDriver], Any]) -> Any:
    password = tmp_path / "password"
    password.touch(mode=0o600)
    password.write_text("secret")
    hardware = Hardware("compute", "redfish", Credential("bmc", "admin", password), cap_by="bmc")

    async def run() -> Any:
        wire = Transport()
        try:
            return await act(cap_driver_of(InventoryNode("n001", hardware, bmc=peer.url), wire))
        finally:
            await wire.close()

    return asyncio.run(run())


LIMIT = {"SetPoint": 900, "ControlMode": "Disabled", "AllowableMin": 180, "AllowableMax": 900}


async def cap_and_restore(driver: CapDriver) -> tuple[CapState, CapState, CapState]:
    was = await driver.read_cap()
    with pytest.raises(OrderTooLate):
        await driver.set_cap(300, was, 60, refuses)
    assert await driver.read_cap() == was
    await driver.set_cap(300, was, 60, passes)
    capped = await driver.read_cap()
    await driver.restore_cap(was, passes)
    return was, capped, await driver.read_cap()


def test_redfish_sets_the_set_point_and_writes_it_back(peer: RedfishPeer, tmp_path: Path) -> None:
    peer.resources[f"{CHASSIS}/EnvironmentMetrics"]["PowerLimitWatts"] = dict(LIMIT)
    peer.needs_if_match = peer.sessions_only = True
    was, capped, after = redfish_cap(peer, tmp_path, cap_and_restore)
    assert peer.sessions == {}
    assert (was.limit_w, was.draw_w, was.range_text) == (None, 374.5, "the device accepts 180 W to 900 W")
    assert capped.limit_w == 300
    assert after == was
    assert peer.resources[f"{CHASSIS}/EnvironmentMetrics"]["PowerLimitWatts"] == LIMIT


def test_older_redfish_sets_the_limit_of_its_power_control(peer: RedfishPeer, tmp_path: Path) -> None:
    limit = {"LimitInWatts": None, "LimitException": "LogEventOnly"}
    control = {"PowerConsumedWatts": 344, "PowerCapacityWatts": 800, "PowerLimit": limit}
    peer.resources[f"{CHASSIS}/Power"]["PowerControl"] = [dict(control)]
    was, capped, after = redfish_cap(peer, tmp_path, cap_and_restore)
    assert (was.limit_w, was.draw_w, was.most_w) == (None, 344, 800)
    assert capped.limit_w == 300
    assert after == was
    assert peer.resources[f"{CHASSIS}/Power"]["PowerControl"] == [control]


CPU = {"MemberId": "0", "PhysicalContext": "CPU", "PowerConsumedWatts": 90, "PowerLimit": {"LimitInWatts": None}}
NODE = {"MemberId": "1", "PowerConsumedWatts": 231, "PowerLimit": {"LimitInWatts": None, "LimitException": "NoAction"}}


@pytest.mark.parametrize(
    ("others", "related"),
    [
        ((CPU, {"MemberId": "2", "PowerConsumedWatts": 500}), None),
        (({"MemberId": "0", "Name": "PSU zone"}, CPU), None),
        (({**CPU, "PhysicalContext": "Chassis", "PowerConsumedWatts": 1155}, CPU), SYSTEM),
    ],
)
def test_older_redfish_limits_the_entry_of_the_whole_node(
    peer: RedfishPeer, tmp_path: Path, others: tuple[dict[str, Any], ...], related: str | None
) -> None:
    node = {**NODE, "RelatedItem": [{"@odata.id": related}]} if related else NODE
    controls = [others[0], node, *others[1:]]
    peer.resources[f"{CHASSIS}/Power"]["PowerControl"] = deepcopy(controls)
    was, capped, after = redfish_cap(peer, tmp_path, cap_and_restore)
    assert (was.limit_w, was.draw_w, capped.limit_w) == (None, 231, 300)
    assert after == was
    assert peer.resources[f"{CHASSIS}/Power"]["PowerControl"] == controls


def test_no_limit_is_set_that_other_nodes_share(peer: RedfishPeer, tmp_path: Path) -> None:
    peer.resources[f"{CHASSIS}/EnvironmentMetrics"]["PowerLimitWatts"] = dict(LIMIT)
    peer.resources[CHASSIS]["ChassisType"] = "Enclosure"
    with pytest.raises(NotSupported, match="has no power limit"):
        redfish_cap(peer, tmp_path, lambda driver: driver.read_cap())


def test_a_service_without_limits_says_so(peer: RedfishPeer, tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="has no power limit"):
        redfish_cap(peer, tmp_path, lambda driver: driver.read_cap())


def test_hardware_says_what_caps_it() -> None:
    machine = InventoryNode("n1", Hardware("compute", "ipmitool"), bmc="10.0.0.1")
    with pytest.raises(BadInventory, match="nothing caps it"):
        cap_driver_of(machine, Transport())
    by_bmc = replace(machine.hardware, driver="ipmi", cap_by="bmc", bmc_power="enclosure")
    with pytest.raises(BadInventory, match="its BMC would cap the whole enclosure"):
        cap_driver_of(replace(machine, hardware=by_bmc), Transport())
    with pytest.raises(BadInventory, match="no driver 'ipmitool' caps its BMC"):
        cap_driver_of(replace(machine, hardware=replace(machine.hardware, cap_by="bmc")), Transport())


NVIDIA_SMI = """\
#!/bin/sh
# Two GPUs, as nvidia-smi 535 answers; the limits are files.
cd "{root}"
case $* in
    --query-gpu=*)
        for gpu in 0 1; do
            echo "$gpu, $(cat gpu$gpu), 100.00, 300.00, 231.50, 98"
        done ;;
    "-i "*) printf '%.2f\\n' "$4" >"gpu$2" ;;
esac
"""


def test_a_node_sets_no_cap_whose_limit_from_before_it_does_not_know(tmp_path: Path) -> None:
    credential = Credential("nodes", "root", key_file=tmp_path / "key", known_hosts=tmp_path / "known_hosts")

    async def run(port: int) -> tuple[str, str]:
        async with fake_node(tmp_path, port) as node:
            node.write("usr/bin/nvidia-smi", NVIDIA_SMI.format(root=node.root))
            node.write("gpu0", "300.00\n")
            node.write("gpu1", "[N/A]\n")
            hardware = Hardware("compute", ssh=credential, ssh_port=port, cap_by="gpu")
            driver = cap_driver_of(InventoryNode("n1", hardware, ssh="127.0.0.1"), Transport())
            was = await driver.read_cap()
            with pytest.raises(BadAnswer, match="gpu 1 does not tell its limit"):
                await driver.set_cap(300, was, 60, passes)
            await driver.restore_cap(was, passes)
            return node.read("gpu0"), node.read("gpu1")

    with reserved_ports(1) as (port,):
        assert asyncio.run(run(port)) == ("300.00\n", "[N/A]\n")


def test_a_node_caps_the_gpus_of_amd(tmp_path: Path) -> None:
    """Two packages, of which the second has two dies: the limit of its first die holds for both."""
    credential = Credential("nodes", "root", key_file=tmp_path / "key", known_hosts=tmp_path / "known_hosts")
    chip = "sys/bus/pci/devices/0000:{}:00.0/hwmon/hwmon{}/{}"

    async def run(port: int) -> tuple[CapState, list[str], list[str]]:
        async with fake_node(tmp_path, port) as node:
            for number, (bus, limit_uw, most_uw) in enumerate(
                (("c1", 550_500_000, 560_000_000), ("c6", 560_000_000, 560_000_000), ("c9", 0, 0))
            ):
                node.write(chip.format(bus, number, "name"), "amdgpu\n")
                node.write(chip.format(bus, number, "power1_cap"), f"{limit_uw}\n")
                node.write(chip.format(bus, number, "power1_cap_min"), "0\n")
                node.write(chip.format(bus, number, "power1_cap_max"), f"{most_uw}\n")
                node.write(chip.format(bus, number, "power1_average"), "231500000\n" if most_uw else "0\n")
            node.write(chip.format("d0", 7, "name"), "nvme\n")
            hardware = Hardware("compute", ssh=credential, ssh_port=port, cap_by="gpu")
            driver = cap_driver_of(InventoryNode("n1", hardware, ssh="127.0.0.1"), Transport())

            def limits() -> list[str]:
                return [node.read(chip.format(*die, "power1_cap")) for die in (("c1", 0), ("c6", 1), ("c9", 2))]

            was = await driver.read_cap()
            with pytest.raises(BadAnswer, match=r"gpu 0000:c1:00\.0 accepts 0 to 560 W, not 700 W"):
                await driver.set_cap(1400, was, 60, passes)
            await driver.set_cap(800, was, 60, passes)
            capped = limits()
            await driver.restore_cap(was, passes)
            return was, capped, limits()

    with reserved_ports(1) as (port,):
        was, capped, after = asyncio.run(run(port))
    assert (was.limit_w, was.least_w, was.most_w, was.draw_w) == (1110.5, 0, 1120, 463)
    assert capped == ["400000000\n", "400000000\n", "0\n"]
    assert after == ["550500000\n", "560000000\n", "0\n"]


@pytest.mark.parametrize(("device", "cap_w"), [("cpu", 100), ("gpu", 300)])
def test_a_node_caps_its_processors_and_gpus(tmp_path: Path, device: str, cap_w: int) -> None:
    credential = Credential("nodes", "root", key_file=tmp_path / "key", known_hosts=tmp_path / "known_hosts")

    async def run(port: int) -> tuple[CapState, CapState, CapState]:
        async with fake_node(tmp_path, port) as node:
            zone = "sys/class/powercap/intel-rapl:0"
            node.write(f"{zone}/constraint_0_power_limit_uw", "165000000\n")
            node.write(f"{zone}/constraint_0_max_power_uw", "200000000\n")
            node.write("usr/bin/nvidia-smi", NVIDIA_SMI.format(root=node.root))
            node.write("gpu0", "300.00\n")
            node.write("gpu1", "300.00\n")
            hardware = Hardware("compute", ssh=credential, ssh_port=port, cap_by=device)
            driver = cap_driver_of(InventoryNode("n1", hardware, ssh="127.0.0.1"), Transport())
            assert driver.has_timer
            was = await driver.read_cap()
            with pytest.raises(OrderTooLate):
                await driver.set_cap(cap_w, was, 60, refuses)
            assert await driver.read_cap() == was
            await driver.set_cap(cap_w, was, 60, passes)
            capped = await driver.read_cap()
            # A second cap is measured against the limits from before the first one.
            await driver.set_cap(cap_w + 20, was, 60, passes)
            with pytest.raises(BadAnswer, match=f"{device} .* accepts"):
                await driver.set_cap(9999, was, 60, passes)
            await driver.restore_cap(was, passes)
            return was, capped, await driver.read_cap()

    with reserved_ports(1) as (port,):
        was, capped, after = asyncio.run(run(port))
    assert (was.limit_w, was.least_w, was.most_w) == ((165, None, 200) if device == "cpu" else (600, 200, 600))
    assert was.draw_w == (0 if device == "cpu" else 463)
    assert capped.limit_w == cap_w
    assert after == was
