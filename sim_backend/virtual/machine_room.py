"""A virtual machine room on loopback: nodes of a class, a BMC each, and PDUs with the nodes on their outlets.

It runs beside other code, or in the foreground until a user presses Ctrl-C or ends the process.
"""

import asyncio
import errno
import random
import signal
import time
import uuid
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from pysnmp.carrier.asyncio.dgram.udp import DOMAIN_NAME, UdpTransport
from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413.cmdrsp import (
    BulkCommandResponder,
    GetCommandResponder,
    NextCommandResponder,
    SetCommandResponder,
)
from pysnmp.entity.rfc3413.context import SnmpContext
from pysnmp.proto.rfc1902 import Integer32, ObjectIdentifier, OctetString, TimeTicks
from pysnmp.proto.rfc1905 import endOfMibView, noSuchInstance
from pysnmp.smi.error import NotWritableError

from offpeak.errors import BadInput
from offpeak.process import separate_snmp_random_numbers
from sim_backend.virtual.node import NAMESPACE, BmcUser, Clock, LiveNode, VirtualBmc, VirtualNode, clock_of
from sim_backend.virtual.pdu import UPTIME, Oid, Rows, Value, VirtualPdu, apc_rows
from sim_backend.virtual.rmcp.server import serve
from sim_backend.virtual.room_plan import OUTLETS, PduLogins, RoomLogins, RoomPlan

V1, V2C, V3 = 1, 2, 3
EVERYTHING = (1, 3, 6)
APC_ENGINE = b"\x80\x00\x01\x3e\x05"
"""How engine identities of that maker begin (RFC 3411, section 5)."""
BOOTS_SINCE_UNIX_S = 1_700_000_000
AUTHENTICATIONS = {"SHA": config.USM_AUTH_HMAC96_SHA, "SHA-256": config.USM_AUTH_HMAC192_SHA256}


class SnmpAgent:
    """Answers for one PDU from `start` until `close`."""

    def __init__(self, pdu: VirtualPdu, logins: PduLogins) -> None:
        self._pdu = pdu
        separate_snmp_random_numbers()
        self._engine = SnmpEngine()
        _name(self._engine, pdu.name)
        _admit(self._engine, logins)
        context = SnmpContext(self._engine)
        context.unregister_context_name(b"")
        context.register_context_name(b"", _Objects(apc_rows(pdu)))
        for responder in (GetCommandResponder, NextCommandResponder, BulkCommandResponder, SetCommandResponder):
            responder(self._engine, context)

    async def start(self, host: str, port: int) -> None:
        """Listen; OSError if the address cannot be had."""
        transport = UdpTransport()
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: _Gate(self._pdu, transport), local_addr=(host, port))
        config.add_transport(self._engine, DOMAIN_NAME, transport)

    def close(self) -> None:
        """Listen no more."""
        self._engine.close_dispatcher()


class _Gate(asyncio.DatagramProtocol):
    """Passes nothing on to pysnmp while the PDU is silent."""

    def __init__(self, pdu: VirtualPdu, transport: Any) -> None:
        self._pdu = pdu
        self._behind = transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._behind.connection_made(transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self._pdu.faults.silent:
            self._behind.datagram_received(data, addr)


class _Objects:
    """Looks up objects for pysnmp's responders. `acFun` decides whether the client may read."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._oids = sorted(rows)

    def read_variables(self, *requested: Any, **context: Any) -> list[Any]:
        _check(requested, context)
        return [(name, self._value(tuple(name))) for name, _ in requested]

    def read_next_variables(self, *requested: Any, **context: Any) -> list[Any]:
        _check(requested, context)
        return [self._next(tuple(name)) for name, _ in requested]

    def write_variables(self, *requested: Any, **_: Any) -> list[Any]:
        raise NotWritableError(name=requested[0][0], idx=0)

    def _value(self, oid: Oid) -> Any:
        return _typed(oid, self._rows[oid]()) if oid in self._rows else noSuchInstance

    def _next(self, oid: Oid) -> tuple[Any, Any]:
        place = bisect_right(self._oids, oid)
        if place == len(self._oids):
            return ObjectIdentifier(oid), endOfMibView
        found = self._oids[place]
        return ObjectIdentifier(found), self._value(found)


def _check(requested: Any, context: dict[str, Any]) -> None:
    # Access is the same for all objects: one check is enough.
    context["acFun"]("read", (requested[0][0], None), idx=0, **context)


def _typed(oid: Oid, value: Value) -> Any:
    if isinstance(value, int):
        return TimeTicks(value) if oid == UPTIME else Integer32(value)
    return OctetString(value) if isinstance(value, str) else ObjectIdentifier(value)


def _admit(engine: SnmpEngine, logins: PduLogins) -> None:
    config.add_v1_system(engine, "readers", logins.community)
    for version in (V1, V2C):
        config.add_vacm_user(engine, version, "readers", "noAuthNoPriv", EVERYTHING)
    for user in logins.users:
        keys = AUTHENTICATIONS[user.authentication], user.password, config.USM_PRIV_CFB128_AES, user.privacy_password
        config.add_v3_user(engine, user.name, *keys)
        config.add_vacm_user(engine, V3, user.name, "authPriv", EVERYTHING)


def _name(engine: SnmpEngine, pdu: str) -> None:
    """Give the engine an identity of its own, and a count of its starts that rises (RFC 3414, section 2.2)."""
    # Handed to its constructor, the identity would leave files on disk.
    identity, boots = engine.get_mib_builder().import_symbols("__SNMP-FRAMEWORK-MIB", "snmpEngineID", "snmpEngineBoots")
    identity.syntax = identity.syntax.clone(APC_ENGINE + uuid.uuid5(NAMESPACE, pdu).bytes[:8])
    engine.snmpEngineID = identity.syntax
    boots.syntax = boots.syntax.clone(int(time.time()) - BOOTS_SINCE_UNIX_S)


LISTEN_HINTS = {
    errno.EACCES: "ports below 1024 are for root: choose one above",
    errno.EADDRINUSE: "another room is running there; choose another address or port",
    errno.EMFILE: "each node takes a file: `ulimit -n 4096` allows more",
}


@dataclass(frozen=True)
class MachineRoom:
    """A running room: nodes, and the BMC of each, by node; PDUs by their names, rack1, rack2 and so on."""

    plan: RoomPlan
    nodes: Mapping[str, LiveNode]
    bmcs: Mapping[str, VirtualBmc]
    pdus: Mapping[str, VirtualPdu]


@asynccontextmanager
async def machine_room(plan: RoomPlan, logins: RoomLogins) -> AsyncIterator[MachineRoom]:
    """Run a room until the block ends. Raises BadInput if an address cannot be had."""
    room = build_room(plan, logins.bmc)
    async with AsyncExitStack() as open_ends:
        for host, bmc in zip(plan.bmc_hosts, room.bmcs.values(), strict=True):
            with _listening(host, plan.bmc_port):
                open_ends.callback((await serve(bmc, host, plan.bmc_port)).close)
        for host, pdu in zip(plan.pdu_hosts, room.pdus.values(), strict=True):
            agent = SnmpAgent(pdu, logins.pdu)
            open_ends.callback(agent.close)
            with _listening(host, plan.pdu_port):
                await agent.start(host, plan.pdu_port)
        yield room


def build_room(plan: RoomPlan, users: Mapping[bytes, BmcUser]) -> MachineRoom:
    """Return a room that does not listen anywhere yet."""
    clock, chance = clock_of(plan.clock_factor), random.Random(plan.seed)
    nodes = {name: LiveNode(name, clock, chance, VirtualNode(plan.node_class)) for name in plan.nodes}
    bmcs = {name: VirtualBmc(node, users) for name, node in nodes.items()}
    pdus = {f"rack{number}": _pdu(plan, number, nodes, clock) for number in range(1, len(plan.racks) + 1)}
    return MachineRoom(plan, nodes, bmcs, pdus)


def _pdu(plan: RoomPlan, number: int, nodes: Mapping[str, LiveNode], clock: Clock) -> VirtualPdu:
    rack = dict(enumerate(plan.racks[number - 1], 1))
    outlets = {outlet: nodes[rack[outlet]] if outlet in rack else None for outlet in range(1, OUTLETS + 1)}
    return VirtualPdu(f"rack{number}", clock, outlets, plan.loss_factor)


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        hint = LISTEN_HINTS.get(problem.errno or 0, "choose another address or port")
        raise BadInput(f"{host} port {port}: cannot listen: {problem.strerror}", hint=hint) from None


Beside = Callable[[MachineRoom], AbstractAsyncContextManager[object]]
"""A task that runs as long as the room."""


def run_room(plan: RoomPlan, logins: RoomLogins, *, ready: Callable[[], None], beside: Beside | None = None) -> None:
    """Run the room, and call `ready` once all devices listen. Raises BadInput like `machine_room`."""
    asyncio.run(_run(plan, logins, ready, beside))


async def _run(plan: RoomPlan, logins: RoomLogins, ready: Callable[[], None], beside: Beside | None) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with machine_room(plan, logins) as room, beside(room) if beside else nullcontext():
        ready()
        await ended.wait()
