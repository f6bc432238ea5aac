"""Nodes switched by Redfish: an emulator whose systems change slowly, and a service with every fault."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dripping_server import dripping_server
from own_certificate import write_certificate
from redfish_peer import RESET, SESSIONS, SYSTEM, UUID, RedfishPeer, redfish_peer
from sushy_server import sushy, uuid

from benchmarks.local_slurm.processes import reserved_ports
from offpeak.errors import AccessRefused, BadAnswer, BadInventory, DeviceError, NoAnswer, NotSupported, WrongDevice
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Enrolment, Hardware, InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.logins import Logins
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.drivers.redfish import RedfishDriver, base_url


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with sushy(tmp_path_factory.mktemp("sushy"), on=2, off=2) as url:
        yield url


@pytest.fixture
def peer() -> Iterator[RedfishPeer]:
    with redfish_peer() as peer:
        yield peer


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., InventoryNode]:
    def of(bmc: str, node: str = "n001", password: str = "secret", **more: Any) -> InventoryNode:
        file = tmp_path / "password"
        file.write_text(password)
        file.chmod(0o600)
        hardware = Hardware("compute", "redfish", Credential("bmc", "admin", file), verify=more.pop("verify", True))
        return InventoryNode(node, hardware, bmc=bmc, **more)

    return of


def driver_of(machine: InventoryNode, logins: Logins | None = None) -> RedfishDriver:
    return RedfishDriver(machine, logins=logins or Logins(), timeout_s=120.0)


def done(machine: InventoryNode, act: Callable[[RedfishDriver], Awaitable[Any]], timeout_s: float = 120.0) -> Any:
    async def run() -> Any:
        driver = RedfishDriver(machine, logins=Logins(), timeout_s=timeout_s)
        try:
            return await act(driver)
        finally:
            await driver.close()

    return asyncio.run(run())


def error_of(machine: InventoryNode, timeout_s: float = 120.0) -> DeviceError:
    observed = done(machine, RedfishDriver.query, timeout_s)
    assert observed.state is PowerState.UNKNOWN
    return observed.error


def test_an_emulated_system_goes_on_and_another_off_some_seconds_later(
    emulator: str, machine: Callable[..., InventoryNode]
) -> None:
    async def becomes(node: str, order: NodeOrder, goal: PowerState) -> bool:
        driver = driver_of(machine(emulator, node))
        await driver.send(order)
        for _ in range(1200):
            await asyncio.sleep(0.25)
            if (await driver.query()).state is goal:
                return True
        return False

    async def both() -> list[bool]:
        # One after the other: the emulator's own database is locked now and then when it is asked twice at once.
        off = await becomes("n001", NodeOrder.SOFT_OFF, PowerState.OFF)
        return [off, await becomes("n004", NodeOrder.ON, PowerState.ON)]

    assert asyncio.run(both()) == [True, True]


@pytest.mark.quick
def test_an_emulated_system_is_found_by_name_and_by_enrolled_uuid(
    emulator: str, machine: Callable[..., InventoryNode]
) -> None:
    assert done(machine(emulator, "n002"), RedfishDriver.identity) == uuid(2)
    enrolled = Enrolment(uuid(3), (), "2026-11-21")
    assert done(machine(emulator, "renamed", enrolled=enrolled), RedfishDriver.identity) == uuid(3)


@pytest.mark.quick
def test_no_order_is_sent_if_no_system_is_the_node(emulator: str, machine: Callable[..., InventoryNode]) -> None:
    with pytest.raises(BadAnswer, match="0 of its 4 systems are named n99"):
        done(machine(emulator, "n99"), lambda driver: driver.send(NodeOrder.HARD_OFF))
    with pytest.raises(WrongDevice, match="none of its 4 systems is the enrolled one"):
        done(machine(emulator, enrolled=Enrolment("other", (), "2026-11-21")), RedfishDriver.identity)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("state", "order", "sent"),
    [
        ("On", NodeOrder.ON, []),
        ("Off", NodeOrder.SOFT_OFF, []),
        ("Off", NodeOrder.HARD_OFF, []),
        ("Off", NodeOrder.ON, ["On"]),
        ("On", NodeOrder.SOFT_OFF, ["GracefulShutdown"]),
        ("On", NodeOrder.HARD_OFF, ["ForceOff"]),
    ],
)
def test_an_order_is_sent_only_where_the_node_is_not_there(
    peer: RedfishPeer, machine: Callable[..., InventoryNode], state: str, order: NodeOrder, sent: list[str]
) -> None:
    peer.resources[SYSTEM]["PowerState"] = state
    done(machine(peer.url), lambda driver: driver.send(order))
    assert peer.resets == sent


@pytest.mark.quick
@pytest.mark.parametrize("state", ["PoweringOn", "PoweringOff", "Paused", None, 7, ["On"]])
@pytest.mark.parametrize("order", [NodeOrder.ON, NodeOrder.HARD_OFF])
def test_no_order_is_sent_while_the_state_is_unknown(
    peer: RedfishPeer, machine: Callable[..., InventoryNode], state: object, order: NodeOrder
) -> None:
    peer.resources[SYSTEM]["PowerState"] = state
    assert "its power state is" in str(error_of(machine(peer.url)))
    with pytest.raises(BadAnswer):
        done(machine(peer.url), lambda driver: driver.send(order))
    assert peer.resets == []


@pytest.mark.quick
def test_driver_offers_only_supported_orders(peer: RedfishPeer, machine: Callable[..., InventoryNode]) -> None:
    action = peer.resources[SYSTEM]["Actions"]["#ComputerSystem.Reset"]
    action["ResetType@Redfish.AllowableValues"] = ["On", "ForceOff", "ForceRestart"]

    async def requested(driver: RedfishDriver) -> frozenset[NodeOrder]:
        await driver.query()
        return driver.orders

    assert done(machine(peer.url), requested) == {NodeOrder.ON, NodeOrder.HARD_OFF}
    with pytest.raises(NotSupported, match=r"does not support soft_off$") as caught:
        done(machine(peer.url), lambda driver: driver.send(NodeOrder.SOFT_OFF))
    assert caught.value.hint == "it supports: hard_off, on"
    with pytest.raises(NotSupported):
        done(machine(peer.url), lambda driver: driver.send(NodeOrder.STANDBY))
    del peer.resources[SYSTEM]["Actions"]
    assert done(machine(peer.url), requested) == frozenset()
    assert peer.resets == []


@pytest.mark.quick
def test_resets_may_be_listed_elsewhere_or_nowhere(peer: RedfishPeer, machine: Callable[..., InventoryNode]) -> None:
    async def requested(driver: RedfishDriver) -> frozenset[NodeOrder]:
        await driver.query()
        return driver.orders

    action = {"target": RESET, "@Redfish.ActionInfo": f"{SYSTEM}/ResetActionInfo"}
    peer.resources[SYSTEM]["Actions"]["#ComputerSystem.Reset"] = action
    parameters = [{"Name": "Other", "AllowableValues": ["ForceOff"]}, {"Name": "ResetType", "AllowableValues": ["On"]}]
    peer.resources[f"{SYSTEM}/ResetActionInfo"] = {"Parameters": parameters}
    assert done(machine(peer.url), requested) == {NodeOrder.ON}
    del action["@Redfish.ActionInfo"]
    assert done(machine(peer.url), requested) == {NodeOrder.ON, NodeOrder.SOFT_OFF, NodeOrder.HARD_OFF}


@pytest.mark.quick
def test_the_identity_is_the_uuid(peer: RedfishPeer, machine: Callable[..., InventoryNode]) -> None:
    assert done(machine(peer.url), RedfishDriver.identity) == UUID
    peer.resources[SYSTEM]["UUID"] = None
    assert done(machine(peer.url), RedfishDriver.identity) is None


@pytest.mark.quick
def test_a_refused_password_is_tried_once(peer: RedfishPeer, machine: Callable[..., InventoryNode]) -> None:
    async def thrice() -> list[DeviceError | None]:
        driver = driver_of(machine(peer.url, password="wrong"))
        observed = [await driver.query() for _ in range(3)]
        await driver.close()
        return [observation.error for observation in observed]

    problems = asyncio.run(thrice())
    assert all(isinstance(error, AccessRefused) for error in problems)
    assert peer.requested.count("GET /redfish/v1/Systems") == 1
    assert f"POST {SESSIONS}" not in peer.requested
    assert not any("wrong" in f"{error} {error.hint}" for error in problems if error)


def test_a_service_that_refuses_basic_authentication_gets_one_session(
    peer: RedfishPeer, machine: Callable[..., InventoryNode]
) -> None:
    peer.sessions_only = True

    async def order(driver: RedfishDriver) -> PowerState:
        await driver.query()
        await driver.send(NodeOrder.HARD_OFF)
        return (await driver.query()).state

    assert done(machine(peer.url), order) is PowerState.OFF
    assert peer.resets == ["ForceOff"]
    assert peer.requested.count(f"POST {SESSIONS}") == 1
    assert peer.sessions == {}


def test_a_wrong_password_opens_no_session_and_is_not_tried_elsewhere(
    peer: RedfishPeer, machine: Callable[..., InventoryNode]
) -> None:
    peer.sessions_only = True

    async def twice() -> list[DeviceError | None]:
        logins = Logins()
        with redfish_peer() as other:
            drivers = [driver_of(machine(url, password="wrong"), logins) for url in (peer.url, peer.url, other.url)]
            errors = [(await driver.query()).error for driver in drivers]
            assert "GET /redfish/v1/Systems" not in other.requested
            for driver in drivers:
                await driver.close()
        return errors

    errors = asyncio.run(twice())
    assert {type(error) for error in errors} == {AccessRefused}
    assert "refuses a session and Basic authentication (HTTP 401" in str(errors[0])
    assert peer.requested.count(f"POST {SESSIONS}") == 1


def test_an_ended_session_is_renewed_for_reads_and_repeats_no_order(
    peer: RedfishPeer, machine: Callable[..., InventoryNode]
) -> None:
    peer.sessions_only = True

    def end_session(method: str, path: str) -> None:
        if (method, path) == ("POST", RESET):
            peer.sessions.clear()

    async def order(driver: RedfishDriver) -> None:
        await driver.query()
        peer.sessions.clear()
        assert (await driver.query()).state is PowerState.ON
        peer.before_reply = end_session
        with pytest.raises(BadAnswer, match="the session ended before POST"):
            await driver.send(NodeOrder.HARD_OFF)
        assert peer.requested.count(f"POST {RESET}") == 1
        peer.before_reply = lambda _method, _path: None
        # The password was not refused: the next order logs in again.
        await driver.send(NodeOrder.HARD_OFF)

    done(machine(peer.url), order)
    assert peer.resets == ["ForceOff"]
    assert peer.requested.count(f"POST {SESSIONS}") == 3


@pytest.mark.quick
@pytest.mark.parametrize("status", [401, 403])
def test_read_only_login_is_not_tried_again(
    peer: RedfishPeer, machine: Callable[..., InventoryNode], status: int
) -> None:
    peer.resources[SYSTEM] = status
    error = error_of(machine(peer.url))
    assert isinstance(error, AccessRefused)
    assert str(error).endswith(f"refuses GET {SYSTEM} (HTTP {status})")


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (500, BadAnswer, "HTTP 500 to GET /redfish/v1/: The service says no."),
        (302, BadAnswer, "HTTP 302 to GET /redfish/v1/"),
        (404, NotSupported, "HTTP 404 to GET /redfish/v1/"),
        (b"<!DOCTYPE html>", BadAnswer, "no JSON object at /redfish/v1/"),
        (b"[1]", BadAnswer, "no JSON object at /redfish/v1/"),
        (b"\xff\xfe", BadAnswer, "no JSON object at /redfish/v1/"),
        (b"{" + b" " * 5_000_000, BadAnswer, "RequestException"),
        ({}, BadAnswer, "lists no systems"),
        ({"Systems": {"@odata.id": "@elsewhere.example/x"}}, BadAnswer, "redirects us to"),
        ({"Systems": {"@odata.id": "https://elsewhere.example/x"}}, BadAnswer, "redirects us to"),
        ({"Systems": {"@odata.id": "//elsewhere.example/x"}}, BadAnswer, "redirects us to"),
        (None, NoAnswer, "no answer within 5 s"),
    ],
)
def test_faults_have_names(
    peer: RedfishPeer, machine: Callable[..., InventoryNode], answer: object, kind: type[DeviceError], message: str
) -> None:
    peer.resources["/redfish/v1/"] = answer
    error = error_of(machine(peer.url), timeout_s=5 if answer is None else 120)
    assert type(error) is kind
    assert message in str(error)
    assert error.hint


@pytest.mark.quick
def test_unreachable_bmc_is_unknown(machine: Callable[..., InventoryNode]) -> None:
    with reserved_ports(1) as (port,):
        error = error_of(machine(f"http://127.0.0.1:{port}"))
    assert isinstance(error, NoAnswer)
    assert str(error) == f"n001: BMC 127.0.0.1:{port}: cannot be reached"


@pytest.mark.quick
@pytest.mark.parametrize("where", ["head", "body"])
def test_a_bmc_that_drips_holds_nothing_up(machine: Callable[..., InventoryNode], where: str) -> None:
    with dripping_server(where) as server:

        async def requested() -> list[PowerObservation]:
            driver = RedfishDriver(machine(server.url), logins=Logins(), timeout_s=1)
            found = [await driver.query(), await driver.query()]
            await driver.close()
            return found

        assert all(isinstance(observation.error, NoAnswer) for observation in asyncio.run(requested()))
        server.wait_until_left()


def test_bmcs_that_hang_do_not_hold_the_others(peer: RedfishPeer, machine: Callable[..., InventoryNode]) -> None:
    peer.resources["/redfish/v1/"] = None

    async def together() -> list[PowerState]:
        logins = Logins()
        with redfish_peer() as good:
            first, second = (driver_of(machine(good.url), logins) for _ in range(2))
            await first.query()
            hanging = [RedfishDriver(machine(peer.url), logins=logins, timeout_s=5) for _ in range(20)]
            requested = [asyncio.ensure_future(driver.query()) for driver in hanging]
            await asyncio.sleep(0.1)
            answer = asyncio.ensure_future(second.query())
            first_done, _ = await asyncio.wait([answer, *requested], return_when=asyncio.FIRST_COMPLETED)
            assert answer in first_done
            assert (await answer).state is PowerState.ON
            states = [(await task).state for task in requested]
            for driver in (first, second, *hanging):
                await driver.close()
            return states

    assert set(asyncio.run(together())) == {PowerState.UNKNOWN}


@pytest.mark.quick
def test_neither_netrc_nor_proxies_come_between(
    peer: RedfishPeer, machine: Callable[..., InventoryNode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert done(machine(peer.url), RedfishDriver.query).state is PowerState.ON


@pytest.mark.quick
def test_a_certificate_is_checked_unless_the_inventory_says_otherwise(
    machine: Callable[..., InventoryNode], tmp_path: Path
) -> None:
    certificate = write_certificate(tmp_path / "bmc.pem", "127.0.0.1")
    with redfish_peer(certificate) as peer:
        bmc = peer.url.removeprefix("https://")
        error = error_of(machine(bmc))
        assert isinstance(error, WrongDevice)
        assert 'below [hardware.compute] set verify = "/path/to/ca.pem"' in error.hint
        assert peer.requested == []
        for verify in (certificate, False):
            assert done(machine(bmc, verify=verify), RedfishDriver.query).state is PowerState.ON
        with pytest.raises(BadInventory, match="no such file of certificates"):
            done(machine(bmc, verify=tmp_path / "none.pem"), RedfishDriver.query)


@pytest.mark.quick
def test_an_http_service_where_https_is_expected(peer: RedfishPeer, machine: Callable[..., InventoryNode]) -> None:
    error = error_of(machine(peer.url.removeprefix("http://")))
    assert type(error) is BadAnswer
    assert str(error).endswith("the TLS handshake fails")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("bmc", "port", "url"),
    [
        ("10.1.0.1", None, "https://10.1.0.1"),
        ("10.1.0.1", 8443, "https://10.1.0.1:8443"),
        ("n001-bmc:8443", None, "https://n001-bmc:8443"),
        ("fd00::1", 8443, "https://[fd00::1]:8443"),
        ("http://127.0.0.1:8000/", 8443, "http://127.0.0.1:8000"),
    ],
)
def test_addresses_of_bmcs(bmc: str, port: int | None, url: str) -> None:
    assert base_url(InventoryNode("n001", Hardware("compute", port=port), bmc=bmc)) == url


@pytest.mark.quick
def test_a_node_without_bmc_or_credential_is_reported() -> None:
    with pytest.raises(BadInventory, match="n001: has no bmc"):
        driver_of(InventoryNode("n001", Hardware("compute")))
    with pytest.raises(BadInventory, match=r"hardware\.compute: has no credential"):
        driver_of(InventoryNode("n001", Hardware("compute"), bmc="127.0.0.1"))
