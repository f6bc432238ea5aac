"""Nodes switched and capped by one power-control service: many at once, and every fault of the service."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_certificate import write_certificate
from power_control_peer import PowerControlPeer, power_control_peer

from offpeak.door.door import Guard
from offpeak.errors import AccessRefused, BadAnswer, BadInventory, NoAnswer, NotSupported, OrderTooLate, WrongDevice
from offpeak.machines.inventory import Enrolment, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.check.devices import check_bmc
from offpeak.power.check.findings import CheckVerdict
from offpeak.power.drivers import power_control
from offpeak.power.drivers.caps import PowerControlCap, cap_driver_of
from offpeak.power.drivers.poll import poll_drivers
from offpeak.power.drivers.port import PowerDriver, PowerObservation
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport


def passes() -> None:
    """A guard that lets each command go."""


XNAMES = [f"x1000c{chassis}s{slot}b0n{node}" for chassis in range(2) for slot in range(8) for node in range(4)]
INVENTORY = """
[credentials.pcs]
password_file = "token"

[hardware.compute]
driver = "pcs"
url = "{url}"
credential = "pcs"
cap_by = "bmc"
{more}

[[machines]]
nodes = "n[001-064]"
hardware = "compute"
bmc = "x1000c[0-1]s[0-7]b0n[0-3]"
"""
BY_NODE = dict(zip((f"n{number:03}" for number in range(1, 65)), XNAMES, strict=True))


@pytest.fixture
def peer() -> Iterator[PowerControlPeer]:
    with power_control_peer(XNAMES) as peer:
        yield peer


@pytest.fixture
def machines(tmp_path: Path) -> Callable[..., dict[str, InventoryNode]]:
    def of(peer: PowerControlPeer, more: str = "", token: str = "first") -> dict[str, InventoryNode]:
        (tmp_path / "token").write_text(token)
        (tmp_path / "token").chmod(0o600)
        file = tmp_path / "inventory.toml"
        file.write_text(INVENTORY.format(url=peer.url, more=more))
        return {machine.node: machine for machine in read_inventory(file).machines}

    return of


def run(machines: dict[str, InventoryNode], act: Callable[..., Any], timeout_s: float = 120.0) -> Any:
    """Run `act` with the drivers of all nodes; the transport is closed at the end."""

    async def main() -> Any:
        wire = Transport(timeout_s=timeout_s)
        try:
            return await act({node: driver_of(machine, wire) for node, machine in machines.items()})
        finally:
            await wire.close()

    return asyncio.run(main())


async def poll(drivers: dict[str, PowerDriver]) -> dict[str, PowerObservation]:
    return await poll_drivers(drivers, timeout_s=300.0, clock=time.time)


def send(machines: dict[str, InventoryNode], order: NodeOrder, *nodes: str, timeout_s: float = 120.0) -> Any:
    """Return what each send returned or raised."""

    async def act(drivers: dict[str, PowerDriver]) -> Any:
        return await asyncio.gather(*(drivers[node].send(order) for node in nodes), return_exceptions=True)

    return run(machines, act, timeout_s)


def test_the_states_of_all_nodes_are_one_request(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.power[BY_NODE["n002"]], peer.power[BY_NODE["n003"]] = "off", "undefined"
    states = run(machines(peer), poll)
    assert peer.requests == [("POST", "/v1/power-status")]
    assert [states[node].state for node in ("n001", "n002", "n003")] == ["on", "off", "unknown"]
    assert sum(observed.state is PowerState.ON for observed in states.values()) == 62
    assert "n003 (x1000c0s0b0n2): its power is undefined, its BMC available" in str(states["n003"].error)


@pytest.mark.parametrize(
    ("order", "before", "operation"),
    [
        (NodeOrder.ON, "off", "On"),
        (NodeOrder.SOFT_OFF, "on", "Soft-Off"),
        (NodeOrder.HARD_OFF, "on", "Force-Off"),
    ],
)
def test_equal_orders_are_one_transition(
    peer: PowerControlPeer,
    machines: Callable[..., dict[str, InventoryNode]],
    order: NodeOrder,
    before: str,
    operation: str,
) -> None:
    nodes = ("n001", "n002", "n003")
    peer.power |= {BY_NODE[node]: before for node in nodes}
    assert send(machines(peer), order, *nodes) == [None, None, None]
    assert peer.orders == [(operation, [BY_NODE[node] for node in nodes])]
    assert {peer.power[BY_NODE[node]] for node in nodes} == {"on" if order is NodeOrder.ON else "off"}
    # An order that is done already is not sent.
    assert send(machines(peer), order, *nodes) == [None, None, None]
    assert len(peer.orders) == 1


def test_an_order_that_the_door_refuses_at_the_last_moment_is_left_out(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    def too_late() -> None:
        raise OrderTooLate("the answer of the scheduler is too old")

    async def confirm_late() -> Guard:
        return too_late

    async def act(drivers: dict[str, PowerDriver]) -> Any:
        late = drivers["n001"].send(NodeOrder.SOFT_OFF, confirm_late)
        return await asyncio.gather(late, drivers["n002"].send(NodeOrder.SOFT_OFF), return_exceptions=True)

    refused, done = run(machines(peer), act)
    assert (type(refused), done) == (OrderTooLate, None)
    assert peer.orders == [("Soft-Off", [BY_NODE["n002"]])]


def test_a_caller_that_has_gone_is_left_out(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    async def act(drivers: dict[str, PowerDriver]) -> Any:
        confirmed = asyncio.Event()

        async def confirm() -> Guard:
            confirmed.set()
            return lambda: None

        gone = asyncio.create_task(drivers["n001"].send(NodeOrder.HARD_OFF, confirm))
        await confirmed.wait()
        gone.cancel()
        await asyncio.sleep(0.3)

    run(machines(peer), act)
    assert peer.orders == []


@pytest.mark.parametrize("state", ["undefined", "unavailable", "missing"])
def test_no_order_goes_to_a_node_whose_state_is_unknown(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]], state: str
) -> None:
    if state == "undefined":
        peer.power[BY_NODE["n001"]] = state
    else:
        (peer.silent if state == "unavailable" else peer.unlisted).add(BY_NODE["n001"])
    (problem,) = send(machines(peer), NodeOrder.HARD_OFF, "n001")
    assert isinstance(problem, BadAnswer)
    assert peer.orders == []


def test_half_of_the_nodes_or_none_is_answered_for(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.unlisted = set(XNAMES[32:])
    states = run(machines(peer), poll)
    assert [states[f"n{number:03}"].state for number in (1, 32, 33, 64)] == ["on", "on", "unknown", "unknown"]
    assert "reports nothing of it, and answered for 32 of 64" in str(states["n064"].error)
    for body in (b'{"status": []}', b'{"status": null}', b"{}"):
        peer.override["/v1/power-status"] = (200, body)
        states = run(machines(peer), poll)
        assert {observed.state for observed in states.values()} == {PowerState.UNKNOWN}
        assert "answered for 0 of 64" in str(states["n001"].error)


def test_two_answers_for_one_node_are_none(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    row = '{"xname": "%s", "powerState": "%s", "managementState": "available"}'
    rows = ", ".join(row % (XNAMES[0], state) for state in ("on", "off"))
    peer.override["/v1/power-status"] = (200, f'{{"status": [{rows}]}}'.encode())
    assert run(machines(peer), poll)["n001"].state is PowerState.UNKNOWN


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"status": ' + b"[" * 100_000])
def test_garbage_is_no_state(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]], body: bytes
) -> None:
    peer.override["/v1/power-status"] = (200, body)
    observed = run(machines(peer), poll)["n001"]
    assert (observed.state, type(observed.error)) == (PowerState.UNKNOWN, BadAnswer)
    assert "no JSON object" in str(observed.error)


def test_a_new_token_in_the_file_is_used_at_once(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]], tmp_path: Path
) -> None:
    async def act(drivers: dict[str, PowerDriver]) -> list[PowerObservation]:
        seen = [(await poll(drivers))["n001"]]
        peer.token = "second"
        seen.append((await poll(drivers))["n001"])
        (tmp_path / "token").unlink()
        seen.append((await poll(drivers))["n001"])
        (tmp_path / "token").touch(0o600)
        (tmp_path / "token").write_text("second\n")
        return [*seen, (await poll(drivers))["n001"]]

    first, expired, without, renewed = run(machines(peer), act)
    assert [each.state for each in (first, expired, without, renewed)] == ["on", "unknown", "unknown", "on"]
    assert isinstance(expired.error, AccessRefused)
    assert "refuses POST /power-status (HTTP 401)" in str(expired.error)
    assert "renew the token in" in expired.error.hint
    assert "no token" in str(without.error)


def test_a_slow_service_ends_with_its_time_out(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.delay_s = 300.0
    states = run(machines(peer), poll, timeout_s=0.5)
    assert {type(observed.error) for observed in states.values()} == {NoAnswer}
    assert "no answer within 0.5 s" in str(states["n001"].error)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of the service end within 1.2 s, while each of its answers may take its time."""
    monkeypatch.setattr(power_control, "TASK_TIMEOUTS", 0.01)


@pytest.mark.usefixtures("hasty")
def test_a_transition_that_does_not_end_is_aborted(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.is_stuck = True
    problems = send(machines(peer), NodeOrder.SOFT_OFF, "n001", "n002")
    assert {str(problem) for problem in problems} == {
        f"power-control service {peer.url[7:-3]}: Soft-Off of 2 nodes has not ended within 1.2 s"
    }
    assert [task["transitionStatus"] for task in peer.tasks.values()] == ["abort-signaled"]
    assert [method for method, _ in peer.requests].count("DELETE") == 1


def test_a_transition_whose_number_is_lost_is_aborted_and_no_other_one(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.is_stuck = True
    nodes = machines(peer)
    others = [(NodeOrder.SOFT_OFF, ("n001",)), (NodeOrder.HARD_OFF, ("n001", "n002"))]
    for order, names in others:
        peer.reply("POST", "/v1/transitions", "Bearer first", {"operation": order_name(order), "location": at(*names)})
    peer.loses.add("/v1/transitions")
    problems = send(nodes, NodeOrder.SOFT_OFF, "n001", "n002", timeout_s=0.3)
    assert {type(problem) for problem in problems} == {NoAnswer}
    assert [task["transitionStatus"] for task in peer.tasks.values()] == [
        "in-progress",
        "in-progress",
        "abort-signaled",
    ]


def test_no_wake_is_aborted_that_may_be_of_another_head_node(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.is_stuck, peer.power = True, dict.fromkeys(peer.power, "off")
    nodes = machines(peer)
    peer.reply("POST", "/v1/transitions", "Bearer first", {"operation": "On", "location": at("n001", "n002")})
    peer.loses.add("/v1/transitions")
    assert {type(problem) for problem in send(nodes, NodeOrder.ON, "n001", "n002", timeout_s=0.3)} == {NoAnswer}
    assert [task["transitionStatus"] for task in peer.tasks.values()] == ["in-progress", "in-progress"]


def test_a_transition_is_aborted_when_the_agent_ends(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.is_stuck = True

    async def act(drivers: dict[str, PowerDriver]) -> None:
        order = asyncio.create_task(drivers["n001"].send(NodeOrder.SOFT_OFF))
        while not peer.tasks:
            await asyncio.sleep(0.01)
        order.cancel()

    run(machines(peer), act)
    assert [task["transitionStatus"] for task in peer.tasks.values()] == ["abort-signaled"]


def order_name(order: NodeOrder) -> str:
    return {NodeOrder.SOFT_OFF: "Soft-Off", NodeOrder.HARD_OFF: "Force-Off"}[order]


def at(*nodes: str) -> list[dict[str, str]]:
    return [{"xname": BY_NODE[node]} for node in nodes]


def test_a_node_that_the_service_cannot_switch_is_named_with_the_reason(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.refused[BY_NODE["n001"]] = "Unable to reserve component"
    problem, done = send(machines(peer), NodeOrder.SOFT_OFF, "n001", "n002")
    assert done is None
    assert "its task is failed: Failed to achieve transition: Unable to reserve component" in str(problem)


def test_an_order_without_a_transition_is_an_error(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    peer.override["/v1/transitions"] = (200, b"{}")
    (problem,) = send(machines(peer), NodeOrder.SOFT_OFF, "n001")
    assert "names no transitionID" in str(problem)
    peer.override["/v1/transitions"] = (500, b'{"detail": "the storage is away"}')
    (problem,) = send(machines(peer), NodeOrder.SOFT_OFF, "n001")
    assert "HTTP 500 to POST /transitions: the storage is away" in str(problem)


def test_an_operation_that_the_node_lacks_is_not_sent(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    row = f'{{"xname": "{XNAMES[0]}", "powerState": "on", "managementState": "available"'
    peer.override["/v1/power-status"] = (
        200,
        f'{{"status": [{row}, "supportedPowerTransitions": ["On", "Force-Off"]}}]}}'.encode(),
    )
    (problem,) = send(machines(peer), NodeOrder.SOFT_OFF, "n001")
    assert isinstance(problem, NotSupported)
    assert "it supports: hard_off, on" in problem.hint
    (problem,) = send(machines(peer), NodeOrder.STANDBY, "n001")
    assert isinstance(problem, NotSupported)


def test_the_certificate_is_checked(machines: Callable[..., dict[str, InventoryNode]], tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "service.pem", "127.0.0.1")
    with power_control_peer(XNAMES, certificate) as peer:
        error = run(machines(peer), poll)["n001"].error
        assert isinstance(error, WrongDevice)
        assert "its certificate is not trusted" in str(error)
        trusting = machines(peer, more=f'verify = "{certificate}"')
        assert run(trusting, poll)["n001"].state is PowerState.ON
        plain = machines(replace(peer, url=peer.url.replace("https", "http")))
        assert run(plain, poll, timeout_s=1.0)["n001"].state is PowerState.UNKNOWN


def test_a_service_that_is_away_is_unknown(machines: Callable[..., dict[str, InventoryNode]]) -> None:
    with power_control_peer([]) as gone:
        pass
    error = run(machines(gone), poll)["n001"].error
    assert isinstance(error, NoAnswer)
    assert "cannot be reached" in str(error)


def test_an_inventory_without_a_url_or_xname_is_refused(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    machine = machines(peer)["n001"]
    with pytest.raises(BadInventory, match="has no url of its power-control service"):
        driver_of(replace(machine, hardware=replace(machine.hardware, url=None)), Transport())
    with pytest.raises(BadInventory, match="has no xname"):
        driver_of(replace(machine, bmc=None), Transport())


def test_check_names_what_is_wrong(peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]) -> None:
    machine = machines(peer)["n001"]

    def findings(machine: InventoryNode) -> list[tuple[CheckVerdict, str]]:
        found = asyncio.run(check_bmc(machine, Transport()))
        return [(finding.verdict, finding.message) for finding in found]

    assert (CheckVerdict.DOUBTFUL, "answers, but is not enrolled") in findings(machine)
    assert (CheckVerdict.DOUBTFUL, "is queried by http: its password travels unencrypted") in findings(machine)
    enrolled = replace(machine, enrolled=Enrolment(XNAMES[0], (), "2026-11-27"))
    hardware = replace(machine.hardware, url=peer.url)
    assert findings(replace(enrolled, hardware=hardware)) == [
        (CheckVerdict.DOUBTFUL, "is queried by http: its password travels unencrypted")
    ]
    peer.unlisted = {XNAMES[0]}
    ((verdict, message),) = findings(enrolled)
    assert (verdict, "reports nothing of it" in message) == (CheckVerdict.BAD, True)


def test_caps_of_many_nodes_are_one_request_each_way(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    nodes = machines(peer)
    peer.caps_w[BY_NODE["n001"]] = 600

    async def act() -> None:
        wire = Transport()
        caps = {node: cap_driver_of(machine, wire) for node, machine in nodes.items()}
        assert isinstance(caps["n001"], PowerControlCap)
        before = dict(zip(caps, await asyncio.gather(*(cap.read_cap() for cap in caps.values())), strict=True))
        assert (before["n001"].limit_w, before["n002"].limit_w) == (600.0, None)
        assert (before["n002"].least_w, before["n002"].most_w) == (350.0, 900.0)

        def refuses() -> None:
            raise OrderTooLate("the lease has ended")

        with pytest.raises(OrderTooLate):
            await caps["n002"].set_cap(500, before["n002"], 900, refuses)
        await asyncio.gather(*(cap.set_cap(500, before[node], 900, passes) for node, cap in caps.items()))
        assert set(peer.caps_w.values()) == {500}
        assert (await caps["n002"].read_cap()).limit_w == 500.0
        await asyncio.gather(*(cap.restore_cap(before[node], passes) for node, cap in caps.items()))
        assert (peer.caps_w[BY_NODE["n001"]], peer.caps_w[BY_NODE["n002"]]) == (600, 0)
        with pytest.raises(BadAnswer, match="is less than minimum"):
            await caps["n003"].set_cap(100, before["n003"], 900, passes)
        await wire.close()

    asyncio.run(act())
    sent = [request for request in peer.requests if request[0] != "GET"]
    assert sent == [
        ("POST", "/v1/power-cap/snapshot"),
        ("PATCH", "/v1/power-cap"),
        ("POST", "/v1/power-cap/snapshot"),
        ("PATCH", "/v1/power-cap"),
        ("PATCH", "/v1/power-cap"),
    ]


@pytest.mark.usefixtures("hasty")
def test_a_node_without_a_limit_is_not_capped(
    peer: PowerControlPeer, machines: Callable[..., dict[str, InventoryNode]]
) -> None:
    del peer.power[BY_NODE["n001"]]
    nodes = machines(peer)

    async def act() -> None:
        wire = Transport(timeout_s=120.0)
        with pytest.raises(BadAnswer, match="Xname not found"):
            await cap_driver_of(nodes["n001"], wire).read_cap()
        peer.is_stuck = True
        with pytest.raises(NoAnswer, match=r"its task of caps has not ended within 1\.2 s"):
            await cap_driver_of(nodes["n002"], wire).read_cap()
        await wire.close()

    asyncio.run(act())
