"""gufo-snmp reads what pysnmp reads: of every recording, and with every cipher; pysnmp reads all else."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from needed_programs import need
from snmp_agents import User, snmpd

from offpeak.errors import AccessRefused, NoAnswer
from offpeak.machines.credentials import Credential, Secret
from offpeak.machines.inventory import Pdu
from offpeak.power.meters.snmp import client as snmp_client
from offpeak.power.meters.snmp.client import NO_SUCH_OID, SnmpClient, SnmpPatience, SnmpValues
from offpeak.power.meters.snmp.engines import SnmpEngines, SnmpLogin

pytest.importorskip("gufo.snmp", reason="pip install gufo-snmp")

PATIENT = SnmpPatience(timeout_s=10.0, retries=1)
MISSING = "1.3.6.1.2.1.1.99.0"
MOST_OIDS = 200
ADDRESS = "64"
"""The type of addresses in recordings."""
KEYS = {"key": Secret(b"auth-key-12"), "privacy_key": Secret(b"privacy-key-12")}
LOGINS = (
    SnmpLogin("3", "open"),
    SnmpLogin("3", "signed", key=KEYS["key"]),
    SnmpLogin("3", "old", **KEYS, authentication="MD5"),
    SnmpLogin("3", "usual", **KEYS),
    SnmpLogin("3", "sha224", **KEYS, authentication="SHA-224"),
    SnmpLogin("3", "sha256", **KEYS, authentication="SHA-256", privacy="AES-192"),
    SnmpLogin("3", "sha512", **KEYS, authentication="SHA-512", privacy="AES-256"),
)
OF_SNMPD = tuple(f"1.3.6.1.2.1.1.{number}.0" for number in (1, 2, 4, 5, 6, 7))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    need(["snmpd", "setpriv"], packages="snmpd")
    users = [
        User(login.user, *((login.authentication, "auth-key-12") if login.key else ()),
             *((login.privacy, "privacy-key-12") if login.privacy_key else ()))
        for login in LOGINS
    ]  # fmt: skip
    with snmpd(tmp_path_factory.mktemp("snmpd"), users) as place:
        yield place


def client_of(host: str, port: int, engines: SnmpEngines, patience: SnmpPatience = PATIENT) -> SnmpClient:
    return SnmpClient(Pdu("pdu", host, "apc", Credential("pdu"), port), engines=engines, user=host, patience=patience)


def read_twice(
    place: tuple[str, int], login: SnmpLogin, oids: tuple[str, ...], between: Callable[[], object]
) -> tuple[SnmpValues, SnmpValues]:
    """Read by pysnmp, which is always first, do something, and read again."""

    async def run() -> tuple[SnmpValues, SnmpValues]:
        engines = SnmpEngines()
        client = client_of(*place, engines)
        try:
            first = await client.get(login, oids)
            between()
            return first, await client.get(login, oids)
        finally:
            engines.release(place[0])
            await asyncio.sleep(0)

    return asyncio.run(run())


@pytest.fixture
def no_pysnmp(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """Return what lets pysnmp read nothing any more."""

    def none(*_: Any, **__: Any) -> None:
        raise AssertionError("pysnmp was used")

    return lambda: monkeypatch.setattr(snmp_client, "get_cmd", none)


def test_every_recording_is_read_alike(
    shared: Path, real: tuple[Sequence[str], int], no_pysnmp: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, port = real
    own = snmp_client.get_cmd
    for file in sorted((shared / "data" / "snmprec").glob("*.snmprec")):
        rows = [line.split("|") for line in file.read_text(errors="replace").splitlines() if line.count("|") > 1]
        # Addresses are left to pysnmp; most rows of the maker's own are at the end.
        oids = tuple(dict.fromkeys(row[0] for row in rows[::-1] if not row[1].startswith(ADDRESS)))[:MOST_OIDS]
        login = SnmpLogin("2c", community=Secret(file.stem.encode()))
        by_pysnmp, by_gufo = read_twice((hosts[0], port), login, oids, no_pysnmp)
        monkeypatch.setattr(snmp_client, "get_cmd", own)
        assert by_gufo == by_pysnmp, file.stem
        assert NO_SUCH_OID not in by_gufo.values()


def test_pysnmp_tells_why_a_value_is_missing(real: tuple[Sequence[str], int]) -> None:
    hosts, port = real
    login = SnmpLogin("2c", community=Secret(b"apc-8641"))
    _, again = read_twice((hosts[0], port), login, ("1.3.6.1.2.1.1.3.0", MISSING), lambda: None)
    assert again[MISSING] == NO_SUCH_OID


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: login.user)
def test_every_cipher_is_read_alike(agent: tuple[str, int], login: SnmpLogin, no_pysnmp: Callable[[], object]) -> None:
    by_pysnmp, by_gufo = read_twice(agent, login, OF_SNMPD, no_pysnmp)
    assert by_gufo == by_pysnmp
    assert by_gufo["1.3.6.1.2.1.1.7.0"] == by_pysnmp["1.3.6.1.2.1.1.7.0"]


class Relay(asyncio.DatagramProtocol):
    """Passes packets on to a device and back; holds answers while `holds`, until they are released."""

    def __init__(self, device: tuple[str, int]) -> None:
        self.device, self.holds, self.held = device, False, list[bytes]()
        self.requests = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        if address != self.device:
            self._client, self.requests = address, self.requests + 1
            self._transport.sendto(data, self.device)
        elif self.holds:
            self.held.append(data)
        else:
            self._transport.sendto(data, self._client)

    def release(self) -> None:
        for data in self.held:
            self._transport.sendto(data, self._client)
        self.held.clear()


@pytest.mark.parametrize("login", [SnmpLogin("2c", community=Secret(b"public")), LOGINS[3]], ids=["2c", "3"])
def test_a_late_answer_is_not_that_of_a_later_request(
    agent: tuple[str, int], login: SnmpLogin, no_pysnmp: Callable[[], object]
) -> None:
    """A read is cancelled, and its answer comes before that of the next one."""
    first, other = OF_SNMPD[:1], OF_SNMPD[4:5]

    async def main() -> None:
        transport, relay = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Relay(agent), local_addr=("127.0.0.1", 0)
        )
        client = client_of(*transport.get_extra_info("sockname"), SnmpEngines())
        engines = client._engines
        expected = await client.get(login, other)
        no_pysnmp()
        await client.get(login, other)
        for _ in range(20):
            relay.holds, before = True, relay.requests
            cancelled = asyncio.ensure_future(client.get(login, first))
            while not relay.held:
                await asyncio.sleep(0.001)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            later = asyncio.ensure_future(client.get(login, other))
            while len(relay.held) < 2:
                await asyncio.sleep(0.001)
            relay.holds = False
            relay.release()
            assert await later == expected
            assert relay.requests == before + 2, "it was sent once, to the same session"
        engines.release(client._user)
        transport.close()

    asyncio.run(main())


def test_a_read_that_is_cancelled_as_its_answer_comes_ends(
    agent: tuple[str, int], no_pysnmp: Callable[[], object]
) -> None:
    """wait_for of Python 3.11, which gufo-snmp uses, returns the answer instead."""
    login = SnmpLogin("2c", community=Secret(b"public"))

    async def main() -> None:
        loop = asyncio.get_running_loop()

        class Cancelling(Relay):
            def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
                super().datagram_received(data, address)
                if address == self.device:
                    loop.call_soon(reading.cancel)

        transport, relay = await loop.create_datagram_endpoint(lambda: Relay(agent), local_addr=("127.0.0.1", 0))
        client = client_of(*transport.get_extra_info("sockname"), SnmpEngines())
        await client.get(login, OF_SNMPD)
        no_pysnmp()
        relay.__class__ = Cancelling
        for _ in range(20):
            reading = asyncio.ensure_future(client.get(login, OF_SNMPD))
            with pytest.raises(asyncio.CancelledError):
                await reading
        client._engines.release(client._user)
        transport.close()

    asyncio.run(main())


def test_a_read_that_is_cancelled_as_the_address_comes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for a dead PDU as long as the patience says."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def lookup(*_: object, **__: object) -> list[Any]:
            loop.call_soon(reading.cancel)
            monkeypatch.undo()
            return [(socket.AF_INET, None, None, None, ("127.31.9.9", 9))]

        monkeypatch.setattr(loop, "getaddrinfo", lookup)
        client = client_of("pdu", 9, SnmpEngines(), SnmpPatience(timeout_s=0.5, retries=0))
        reading = asyncio.ensure_future(client.get(LOGINS[0], OF_SNMPD))
        with pytest.raises(asyncio.CancelledError):
            await reading
        client._engines.release(client._user)

    asyncio.run(main())


def test_a_silent_pdu_gets_one_packet_at_a_time_until_it_answers(agent: tuple[str, int]) -> None:
    login = SnmpLogin("2c", community=Secret(b"public"))

    async def main() -> None:
        transport, relay = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Relay(agent), local_addr=("127.0.0.1", 0)
        )
        engines = SnmpEngines()
        client = client_of(*transport.get_extra_info("sockname"), engines, SnmpPatience(timeout_s=0.5, retries=2))
        packets = []
        for relay.holds in (False, False, True, True, True, False, True, True):
            before = relay.requests
            with suppress(NoAnswer):
                await client.get(login, OF_SNMPD)
            packets.append(relay.requests - before)
        assert packets == [1, 1, 3, 1, 1, 1, 3, 1], "one of three is by gufo-snmp"
        engines.release(client._user)
        transport.close()

    asyncio.run(main())


def test_a_pdu_that_falls_silent_or_refuses_is_told_as_by_pysnmp(agent: tuple[str, int]) -> None:
    async def run() -> None:
        engines = SnmpEngines()
        client = client_of(*agent, engines, SnmpPatience(timeout_s=0.3, retries=0))
        try:
            for _ in range(2):
                await client.get(LOGINS[3], OF_SNMPD)
            wrong = SnmpLogin("3", "usual", key=Secret(b"another-key"), privacy_key=KEYS["privacy_key"])
            with pytest.raises((AccessRefused, NoAnswer)):
                await client.get(wrong, OF_SNMPD)
            assert (await client.get(LOGINS[3], OF_SNMPD)).keys() == set(OF_SNMPD)
            await client.get(LOGINS[3], OF_SNMPD)
            silent = client_of("127.31.9.9", agent[1], engines, SnmpPatience(timeout_s=0.3, retries=0))
            for _ in range(2):
                with pytest.raises(NoAnswer):
                    await silent.get(LOGINS[3], OF_SNMPD)
        finally:
            engines.release(agent[0])
            engines.release("127.31.9.9")
            await asyncio.sleep(0)

    asyncio.run(run())
