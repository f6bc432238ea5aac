"""A virtual machine room on loopback: nodes of a class, a BMC each, and PDUs with the nodes on their outlets.

It runs beside other code, or in the foreground until a user presses Ctrl-C or ends the process. The objects of a PDU
for SNMP are those of an APC rack PDU of the second generation: PowerNet-MIB, rPDU2, as far as power goes. Each object
is a function, so that a request for one outlet does not read all the others.
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
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

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
from offpeak.sim_backend.virtual.node import NAMESPACE, BmcUser, Clock, LiveNode, VirtualBmc, VirtualNode, clock_of
from offpeak.sim_backend.virtual.rmcp.server import serve
from offpeak.sim_backend.virtual.room_plan import OUTLETS, PduLogins, RoomLogins, RoomPlan

Oid = tuple[int, ...]
Value = int | str | Oid
Rows = dict[Oid, Callable[[], Value]]

SYSTEM = (1, 3, 6, 1, 2, 1, 1)
APC = (1, 3, 6, 1, 4, 1, 318)
UPTIME = (*SYSTEM, 3, 0)
MASTER_SWITCHED = (*APC, 1, 3, 4, 6)
"""The sysObjectID of such PDUs."""
IDENT = (*APC, 1, 1, 12, 1)
RPDU2 = (*APC, 1, 1, 26)

NOT_AVAILABLE = -1
VOLTAGE_V = 230
TENTH_OF_KWH_J = 360_000
NORMAL_LOAD = 2

V1, V2C, V3 = 1, 2, 3
EVERYTHING = (1, 3, 6)
APC_ENGINE = b"\x80\x00\x01\x3e\x05"
"""How engine identities of that maker begin (RFC 3411, section 5)."""
BOOTS_SINCE_UNIX_S = 1_700_000_000
AUTHENTICATIONS = {"SHA": config.USM_AUTH_HMAC96_SHA, "SHA-256": config.USM_AUTH_HMAC192_SHA256}

LISTEN_HINTS = {
    errno.EACCES: "ports below 1024 are for root: choose one above",
    errno.EADDRINUSE: "another room is running there; choose another address or port",
    errno.EMFILE: "each node takes a file: `ulimit -n 4096` allows more",
}

Beside = Callable[["MachineRoom"], AbstractAsyncContextManager[object]]
"""A task that runs as long as the room."""


def run_room(plan: RoomPlan, logins: RoomLogins, *, ready: Callable[[], None], beside: Beside | None = None) -> None:
    """Run the room, and call `ready` once all devices listen. Raises BadInput like `machine_room`."""

    async def run() -> None:
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        async with machine_room(plan, logins) as room, beside(room) if beside else nullcontext():
            ready()
            await ended.wait()

    asyncio.run(run())


@dataclass(frozen=True)
class MachineRoom:
    """A running room: nodes, and the BMC of each, by node; PDUs by their names, rack1, rack2 and so on."""

    plan: RoomPlan
    nodes: Mapping[str, LiveNode]
    bmcs: Mapping[str, VirtualBmc]
    pdus: Mapping[str, "VirtualPdu"]


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
    pdus = {}
    for number, rack in enumerate(plan.racks, 1):
        outlets = dict.fromkeys(range(1, OUTLETS + 1)) | {outlet: nodes[name] for outlet, name in enumerate(rack, 1)}
        pdus[f"rack{number}"] = VirtualPdu(f"rack{number}", clock, outlets, plan.loss_factor)
    return MachineRoom(plan, nodes, bmcs, pdus)


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        hint = LISTEN_HINTS.get(problem.errno or 0, "choose another address or port")
        raise BadInput(f"{host} port {port}: cannot listen: {problem.strerror}", hint=hint) from None


@dataclass(frozen=True)
class PduFaults:
    """The faults of a PDU: no reply, or -1 for every measured value."""

    silent: bool = False
    sentinel: bool = False


class MeteredLoad(Protocol):
    """The load of an outlet: a virtual node, or a node of a real scheduler with simulated power."""

    @property
    def power_w(self) -> float:
        """The present power [W]."""

    @property
    def energy_j(self) -> float:
        """The energy used since the load was made [J]."""


@dataclass
class VirtualPdu:
    """A PDU by its name. `outlets` are numbered from 1; an outlet without a node draws nothing.

    An outlet delivers `loss_factor` times the power of its node: 1 if a node's figures hold for the wall plug.
    """

    name: str
    clock: Clock
    outlets: Mapping[int, MeteredLoad | None]
    loss_factor: float = 1.0
    faults: PduFaults = PduFaults()
    _forgotten_j: dict[int, float] = field(default_factory=dict, init=False)
    _started_s: float = field(default=0.0, init=False)
    _shift: int = field(default=0, init=False)

    @property
    def uptime_s(self) -> float:
        """Seconds since the PDU started, by the clock of the room."""
        return self.clock() - self._started_s

    @property
    def power_w(self) -> float:
        """The power of all outlets [W]."""
        return sum(self.outlet_w(outlet) for outlet in self.outlets)

    @property
    def energy_j(self) -> float:
        """The sum of all energy counters [J]."""
        return sum(self.outlet_j(outlet) for outlet in self.outlets)

    def outlet_w(self, outlet: int) -> float:
        """Return the power of an outlet [W]."""
        node = self.outlets[outlet]
        return self.loss_factor * node.power_w if node else 0.0

    def outlet_j(self, outlet: int) -> float:
        """Return the reading of an outlet's counter: its energy since the counter was reset [J]."""
        return self._delivered_j(outlet) - self._forgotten_j.get(outlet, 0.0)

    def outlet_in(self, row: int) -> int:
        """Return the outlet in a row of the tables: that of the same number, until a reboot changes the rows."""
        return (row - 1 + self._shift) % len(self.outlets) + 1

    def reset_counters(self) -> None:
        """Reset all energy counters to 0."""
        self._forgotten_j = {outlet: self._delivered_j(outlet) for outlet in self.outlets}

    def reboot(self) -> None:
        """Reset the uptime to 0 and give every outlet another row, as SNMP allows after a reboot."""
        self._started_s = self.clock()
        self._shift += 1

    def _delivered_j(self, outlet: int) -> float:
        node = self.outlets[outlet]
        return self.loss_factor * node.energy_j if node else 0.0


def apc_rows(pdu: VirtualPdu) -> Rows:
    """Return all objects of a PDU by their OIDs; uptime in hundredths of a second."""
    device, phase, outlets = (*RPDU2, 4, 3, 1), (*RPDU2, 6, 3, 1), (*RPDU2, 9, 4, 3, 1)
    rows: Rows = {
        (*SYSTEM, 1, 0): lambda: "APC Web/SNMP Management Card (offpeak's virtual PDU MN:AP8641)",
        (*SYSTEM, 2, 0): lambda: MASTER_SWITCHED,
        UPTIME: lambda: int(pdu.uptime_s * 100) & 0xFFFFFFFF,
        (*SYSTEM, 5, 0): lambda: pdu.name,
        # rPDUIdent of the first generation, which the second still fills: model, serial, outlets, power [W].
        (*IDENT, 5, 0): lambda: "AP8641",
        (*IDENT, 6, 0): lambda: f"VIRTUAL-{pdu.name}",
        (*IDENT, 8, 0): lambda: len(pdu.outlets),
        (*IDENT, 16, 0): lambda: _measured(pdu, pdu.power_w),
        # rPDU2DeviceStatus: index, module, name, load state, power [10 W], energy [0.1 kWh].
        (*device, 1, 1): lambda: 1,
        (*device, 2, 1): lambda: 1,
        (*device, 3, 1): lambda: pdu.name,
        (*device, 4, 1): lambda: NORMAL_LOAD,
        (*device, 5, 1): lambda: _measured(pdu, pdu.power_w / 10),
        (*device, 9, 1): lambda: _counted(pdu, pdu.energy_j),
        # rPDU2PhaseStatus of the only phase: index, module, number, load state, then [0.1 A], [V] and [10 W].
        **{(*phase, column, 1): lambda: 1 for column in (1, 2, 3)},
        (*phase, 4, 1): lambda: NORMAL_LOAD,
        (*phase, 5, 1): lambda: _measured(pdu, pdu.power_w / VOLTAGE_V * 10),
        (*phase, 6, 1): lambda: VOLTAGE_V,
        (*phase, 7, 1): lambda: _measured(pdu, pdu.power_w / 10),
    }
    # rPDU2OutletMeteredStatus: index, module, name, number, state, then [0.1 A], [W] and [0.1 kWh].
    columns: dict[int, Callable[[int], Value]] = {
        1: lambda row: row,
        2: lambda _: 1,
        3: lambda row: f"Outlet {pdu.outlet_in(row)}",
        4: lambda row: pdu.outlet_in(row),
        5: lambda _: NORMAL_LOAD,
        6: lambda row: _measured(pdu, pdu.outlet_w(pdu.outlet_in(row)) / VOLTAGE_V * 10),
        7: lambda row: _measured(pdu, pdu.outlet_w(pdu.outlet_in(row))),
        11: lambda row: _counted(pdu, pdu.outlet_j(pdu.outlet_in(row))),
    }
    for row in sorted(pdu.outlets):
        rows |= {(*outlets, column, row): partial(value, row) for column, value in columns.items()}
    return rows


def _measured(pdu: VirtualPdu, value: float) -> int:
    return NOT_AVAILABLE if pdu.faults.sentinel else round(value)


def _counted(pdu: VirtualPdu, energy_j: float) -> int:
    return NOT_AVAILABLE if pdu.faults.sentinel else int(energy_j // TENTH_OF_KWH_J)


class SnmpAgent:
    """Answers for one PDU from `start` until `close`."""

    def __init__(self, pdu: VirtualPdu, logins: PduLogins) -> None:
        self._pdu = pdu
        separate_snmp_random_numbers()
        engine = self._engine = SnmpEngine()
        # An identity of its own, and a count of starts that rises (RFC 3414, section 2.2). Handed to the constructor,
        # the identity would leave files on disk.
        symbols = engine.get_mib_builder().import_symbols
        identity, boots = symbols("__SNMP-FRAMEWORK-MIB", "snmpEngineID", "snmpEngineBoots")
        identity.syntax = identity.syntax.clone(APC_ENGINE + uuid.uuid5(NAMESPACE, pdu.name).bytes[:8])
        engine.snmpEngineID = identity.syntax
        boots.syntax = boots.syntax.clone(int(time.time()) - BOOTS_SINCE_UNIX_S)
        config.add_v1_system(engine, "readers", logins.community)
        for version in (V1, V2C):
            config.add_vacm_user(engine, version, "readers", "noAuthNoPriv", EVERYTHING)
        for user in logins.users:
            authentication = AUTHENTICATIONS[user.authentication], user.password
            config.add_v3_user(engine, user.name, *authentication, config.USM_PRIV_CFB128_AES, user.privacy_password)
            config.add_vacm_user(engine, V3, user.name, "authPriv", EVERYTHING)
        context = SnmpContext(engine)
        context.unregister_context_name(b"")
        context.register_context_name(b"", _Objects(apc_rows(pdu)))
        for responder in (GetCommandResponder, NextCommandResponder, BulkCommandResponder, SetCommandResponder):
            responder(engine, context)

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
        if oid not in self._rows:
            return noSuchInstance
        value = self._rows[oid]()
        if isinstance(value, int):
            return TimeTicks(value) if oid == UPTIME else Integer32(value)
        return OctetString(value) if isinstance(value, str) else ObjectIdentifier(value)

    def _next(self, oid: Oid) -> tuple[Any, Any]:
        place = bisect_right(self._oids, oid)
        if place == len(self._oids):
            return ObjectIdentifier(oid), endOfMibView
        found = self._oids[place]
        return ObjectIdentifier(found), self._value(found)


def _check(requested: Any, context: dict[str, Any]) -> None:
    # Access is the same for all objects: one check is enough.
    context["acFun"]("read", (requested[0][0], None), idx=0, **context)
