"""A virtual BMC at its address: it answers each datagram with at most one.

Its commands and the privilege that each needs (appendix G). App: identity, login and session (chapters 20 and 22).
Chassis: power state and control (chapter 28). DCMI v1.5: power reading and limit (6.1 and 6.6).
"""

import asyncio
import math
import struct
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, asleep
from offpeak.sim_backend.virtual.node import ADMINISTRATOR, NAMESPACE, OPERATOR, USER, LiveNode, PowerLimit, VirtualBmc
from offpeak.sim_backend.virtual.rmcp import sessions as rmcp
from offpeak.sim_backend.virtual.rmcp.login import LoginDesk, guid_bytes, open_session, rakp_1, rakp_3

INVALID_COMMAND, WRONG_LENGTH, WRONG_FIELD, NO_PRIVILEGE, WRONG_STATE = 0xC1, 0xC7, 0xCC, 0xD4, 0xD5
"""Completion codes of table 5-2."""


class CompletionError(Exception):
    """The BMC replies with this completion code, mostly alone."""

    def __init__(self, code: int, data: bytes = b"") -> None:
        super().__init__(f"{code:#04x}")
        self.code, self.data = code, data


@dataclass(frozen=True)
class IpmiCall:
    """A command's data, the BMC that received it, and its session; None before login."""

    bmc: VirtualBmc
    sessions: rmcp.SessionTable
    session: rmcp.BmcSession | None
    data: bytes

    def byte(self, index: int) -> int:
        """Return a byte of the data; Refused if there are fewer."""
        if index >= len(self.data):
            raise CompletionError(WRONG_LENGTH)
        return self.data[index]


SYSTEM_NAME, FIRST_BYTES, BLOCK = 0x02, 14, 16
LAN_CHANNEL, THIS_CHANNEL = 1, 0x0E
PRIVILEGE_EXCEEDED, NO_SUCH_SESSION = 0x81, 0x87

S0, S3, S5, UNKNOWN = 0x00, 0x03, 0x05, 0x2A
"""System power states of section 20.7."""


def device_id(_: IpmiCall) -> bytes:
    """Get Device ID, section 20.1: an unspecified maker's chassis device, firmware 1.00, IPMI 2.0."""
    return bytes([0x20, 0x01, 0x01, 0x00, 0x02, 0x80]) + bytes(3) + bytes(2)


def device_guid(call: IpmiCall) -> bytes:
    """Get Device GUID, section 20.8: of the BMC, which is not that of the system."""
    return uuid.uuid5(NAMESPACE, str(call.bmc.guid)).bytes[::-1]


def system_info(call: IpmiCall) -> bytes:
    """Get System Info Parameters, section 22.14a: the name of the system, in ASCII."""
    if call.byte(1) != SYSTEM_NAME:
        raise CompletionError(WRONG_FIELD)
    name, block = (call.bmc.faults.host_name or call.bmc.node.name).encode(), call.byte(2)
    first = bytes([0, len(name)]) if block == 0 else b""
    begin = 0 if block == 0 else FIRST_BYTES + (block - 1) * BLOCK
    return bytes([0x11, block]) + first + name[begin : begin + BLOCK - len(first)].ljust(BLOCK - len(first), b"\0")


def acpi_power_state(call: IpmiCall) -> bytes:
    """Get ACPI Power State, section 20.7: of the system and of the device; unknown on the way from one to another."""
    known = {ACTIVE: (S0, 0), FAILED: (UNKNOWN, UNKNOWN), asleep(STANDBY): (S3, 3), asleep(OFF): (S5, 3)}
    return bytes(known.get(call.bmc.node.now().state, (UNKNOWN, UNKNOWN)))


def authentication_capabilities(call: IpmiCall) -> bytes:
    """Get Channel Authentication Capabilities, section 22.13: sessions of IPMI 2.0, by user name."""
    _check_channel(call)
    wants_rmcp_plus = call.byte(0) & 0x80
    call.byte(1)
    return bytes([LAN_CHANNEL, wants_rmcp_plus, 0x04, 0x02 if wants_rmcp_plus else 0]) + bytes(4)


def cipher_suites(call: IpmiCall) -> bytes:
    """Get Channel Cipher Suites, section 22.15: sixteen bytes of the list, from the requested index."""
    _check_channel(call)
    start = (call.byte(2) & 0x3F) * 16
    records = b""
    for suite in rmcp.SUITES:
        authentication, integrity, confidentiality = suite.algorithms
        records += bytes([0xC0, suite.number, authentication, 0x40 | integrity, 0x80 | confidentiality])
    return bytes([LAN_CHANNEL]) + records[start : start + 16]


def set_privilege(call: IpmiCall) -> bytes:
    """Set Session Privilege Level, section 22.18; 0 queries the present level."""
    session, level = _own(call), call.byte(0) & 0x0F
    if level > ADMINISTRATOR or level == 1:
        raise CompletionError(WRONG_FIELD)
    if level > session.limit:
        raise CompletionError(PRIVILEGE_EXCEEDED)
    session.privilege = level or session.privilege
    return bytes([session.privilege])


def close_session(call: IpmiCall) -> bytes:
    """Close Session, section 22.19: the own one, or any for an administrator."""
    session, managed_id = _own(call), int.from_bytes(call.data[:4], "little")
    call.byte(3)
    if managed_id != session.managed_id and session.privilege < ADMINISTRATOR:
        raise CompletionError(NO_PRIVILEGE)
    if not call.sessions.close(managed_id):
        raise CompletionError(NO_SUCH_SESSION)
    return b""


def _check_channel(call: IpmiCall) -> None:
    if call.byte(0) & 0x0F not in (LAN_CHANNEL, THIS_CHANNEL):
        raise CompletionError(WRONG_FIELD)


def _own(call: IpmiCall) -> rmcp.BmcSession:
    if call.session is None:
        raise CompletionError(NO_PRIVILEGE)
    return call.session


HARD_OFF, ON, CYCLE, RESET, SOFT_OFF = 0, 1, 2, 3, 5
"""Chassis Control, section 28.3."""

ON_BY_COMMAND = 0x10
"""Bit of the last power event: it was switched on by a command."""

POLICIES, KEEP_POLICY = (0, 1, 2), 3


def chassis_status(call: IpmiCall) -> bytes:
    """Get Chassis Status, section 28.2."""
    bmc = call.bmc
    power = bmc.restore_policy << 5 | bmc.node.powered
    # The light can blink, and does so or not.
    return bytes([power, bmc.last_event, 0x40 | bmc.identify << 4])


def chassis_control(call: IpmiCall) -> bytes:
    """Chassis Control, section 28.3: accepted at once, done as fast as the node can."""
    order, bmc = call.byte(0) & 0x0F, call.bmc
    if order not in ORDERS:
        raise CompletionError(WRONG_FIELD)
    bmc.orders.append(order)
    if order in (CYCLE, RESET) and not bmc.node.powered:
        raise CompletionError(WRONG_STATE)
    if not bmc.faults.drops_commands:
        ORDERS[order](bmc.node)
        bmc.last_event = ON_BY_COMMAND if order in (ON, CYCLE) else 0
    return b""


def chassis_identify(call: IpmiCall) -> bytes:
    """Chassis Identify, section 28.5: without data for a while, 0 seconds end it, the second byte forces it on."""
    forced = len(call.data) > 1 and call.data[1] & 1
    call.bmc.identify = 2 if forced else int(not call.data or call.data[0] > 0)
    return b""


def set_restore_policy(call: IpmiCall) -> bytes:
    """Set Power Restore Policy, section 28.8: returns which there are; 3 changes nothing."""
    policy = call.byte(0) & 0x07
    if policy in POLICIES:
        call.bmc.restore_policy = policy
    elif policy != KEEP_POLICY:
        raise CompletionError(WRONG_FIELD)
    return b"\x07"


ORDERS: dict[int, Callable[[LiveNode], None]] = {
    HARD_OFF: LiveNode.hard_off,
    ON: LiveNode.on,
    CYCLE: LiveNode.reset,
    RESET: LiveNode.reset,
    SOFT_OFF: LiveNode.soft_off,
}

DCMI = 0xDC
SYSTEM_STATISTICS = 0x01
MEASURING = 0x40
VERSION = b"\x01\x05\x02"
"""DCMI 1.5, second revision of the parameters."""

CAPABILITIES = {
    1: b"\x00\x01\x00",  # power management; no further ways in
    2: b"\x00\x00\x00\x00\x00",
    3: b"\x00\x00",
    4: b"\xff\xff\xff",
    5: b"\x01\x41",  # one rolling average, over a minute
}
"""Table 6-3, by parameter."""


def dcmi_capabilities(call: IpmiCall) -> bytes:
    """Get DCMI Capabilities Info, table 6-2."""
    parameter = _body(call, 1)
    if parameter not in CAPABILITIES:
        raise CompletionError(WRONG_FIELD)
    return bytes([DCMI]) + VERSION + CAPABILITIES[parameter]


def power_reading(call: IpmiCall) -> bytes:
    """Get Power Reading, table 6-16: now, lowest, highest and mean [W] since the node was made."""
    if _body(call, 1) != SYSTEM_STATISTICS:
        raise CompletionError(WRONG_FIELD)
    live, at_s = call.bmc.node, call.bmc.node.clock()
    node = live.now()
    now_w = node.power_w
    mean_w = live.energy_j / at_s if at_s > 0 else now_w
    watts = (round(value) for value in (now_w, min(node.least_w, now_w), max(node.most_w, now_w), mean_w))
    period_ms = min(round(at_s * 1000), 0xFFFFFFFF)
    return bytes([DCMI]) + struct.pack("<4HIIB", *watts, round(at_s) & 0xFFFFFFFF, period_ms, MEASURING)


NO_LIMIT, OUT_OF_RANGE = 0x80, 0x84


def get_power_limit(call: IpmiCall) -> bytes:
    """Get Power Limit, table 6-17: with a code of its own where none is in force."""
    _body(call, 2)
    limit = bytes([DCMI, 0, 0]) + call.bmc.power_limit.settings
    if not call.bmc.power_limit.active:
        raise CompletionError(NO_LIMIT, limit)
    return limit


def set_power_limit(call: IpmiCall) -> bytes:
    """Set Power Limit, table 6-18: it is in force only once it is activated, unless one is already."""
    _body(call, 14)
    bmc = call.bmc
    limit = replace(bmc.power_limit, settings=call.data[4:15])
    if not limit.least_w <= limit.limit_w <= limit.most_w:
        raise CompletionError(OUT_OF_RANGE)
    return _apply_limit(bmc, limit)


def activate_power_limit(call: IpmiCall) -> bytes:
    """Activate/Deactivate Power Limit, table 6-19."""
    return _apply_limit(call.bmc, replace(call.bmc.power_limit, active=bool(_body(call, 1) & 1)))


def _apply_limit(bmc: VirtualBmc, limit: PowerLimit) -> bytes:
    bmc.power_limit = limit
    bmc.node.limit(limit.limit_w if limit.active and not bmc.faults.ignores_limit else math.inf)
    return bytes([DCMI])


def _body(call: IpmiCall, index: int) -> int:
    if call.byte(0) != DCMI:
        raise CompletionError(INVALID_COMMAND)
    return call.byte(index)


CHASSIS, APP, GROUP = 0x00, 0x06, 0x2C
"""Network functions of table 5-1."""

BEFORE_LOGIN = 0
GARBAGE = b"\x00\xa5\x5a"
"""A success with fewer bytes than any command returns."""


@dataclass(frozen=True)
class Command:
    """The function that handles a command, and the privilege that it needs."""

    answer: Callable[[IpmiCall], bytes]
    privilege: int
    of_session: bool = False


COMMANDS = {
    (APP, 0x01): Command(device_id, USER),
    (APP, 0x07): Command(acpi_power_state, USER),
    (APP, 0x08): Command(device_guid, USER),
    (APP, 0x37): Command(lambda call: guid_bytes(call.bmc), BEFORE_LOGIN),
    (APP, 0x38): Command(authentication_capabilities, BEFORE_LOGIN, of_session=True),
    (APP, 0x3B): Command(set_privilege, USER, of_session=True),
    (APP, 0x3C): Command(close_session, USER, of_session=True),
    (APP, 0x59): Command(system_info, USER),
    (APP, 0x54): Command(cipher_suites, BEFORE_LOGIN, of_session=True),
    (CHASSIS, 0x01): Command(chassis_status, USER),
    (CHASSIS, 0x02): Command(chassis_control, OPERATOR),
    (CHASSIS, 0x04): Command(chassis_identify, OPERATOR),
    (CHASSIS, 0x06): Command(set_restore_policy, OPERATOR),
    (GROUP, 0x01): Command(dcmi_capabilities, USER),
    (GROUP, 0x02): Command(power_reading, USER),
    (GROUP, 0x03): Command(get_power_limit, USER),
    (GROUP, 0x04): Command(set_power_limit, OPERATOR),
    (GROUP, 0x05): Command(activate_power_limit, OPERATOR),
}
"""By network function and number. Those `of_session` answer rightly even where the BMC otherwise talks nonsense."""


def answer(call: IpmiCall, function: int, number: int) -> bytes:
    """Return completion code and data of a command."""
    command = COMMANDS.get((function, number))
    if command is None:
        return bytes([INVALID_COMMAND])
    if command.privilege > (call.session.privilege if call.session else BEFORE_LOGIN):
        return bytes([NO_PRIVILEGE])
    if call.bmc.faults.garbage and not command.of_session:
        return GARBAGE
    try:
        return b"\x00" + command.answer(call)
    except CompletionError as refused:
        return bytes([refused.code]) + refused.data


Address = tuple[str, int]

LOGIN_STEPS = {
    rmcp.OPEN_REQUEST: (open_session, rmcp.OPEN_RESPONSE),
    rmcp.RAKP1: (rakp_1, rmcp.RAKP2),
    rmcp.RAKP3: (rakp_3, rmcp.RAKP4),
}
"""The function that handles each message of a login, and the type of its reply."""


def reply_to(desk: LoginDesk, datagram: bytes, now_s: float) -> bytes | None:
    """Return the reply to a datagram, None for no reply; `now_s` is the time on the clock of the sessions."""
    try:
        return rmcp.pong(datagram) or _reply(desk, datagram, now_s)
    except rmcp.Malformed:
        return None


class BmcServer(asyncio.DatagramProtocol):
    """Serves one virtual BMC."""

    def __init__(self, bmc: VirtualBmc) -> None:
        self.desk = LoginDesk(bmc, rmcp.SessionTable())
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for replies."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        """Reply, unless a fault of the BMC prevents it."""
        faults = self.desk.bmc.faults
        if faults.silent:
            return
        reply = reply_to(self.desk, data, time.monotonic())
        if reply is not None:
            asyncio.get_running_loop().call_later(faults.delay_s, self._send, reply, addr)

    def _send(self, reply: bytes, addr: Address) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(reply, addr)


async def serve(bmc: VirtualBmc, host: str, port: int) -> asyncio.DatagramTransport:
    """Serve a BMC until the transport that is returned is closed; OSError if the address cannot be had."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: BmcServer(bmc), local_addr=(host, port))
    return transport


def _reply(desk: LoginDesk, datagram: bytes, now_s: float) -> bytes | None:
    packet = rmcp.read_packet(datagram)
    if packet.session_id:
        session = desk.sessions.find(packet.session_id, now_s)
        if session is None or session.keys is None:
            raise rmcp.Malformed("no such session")
        message = rmcp.opened(session, session.keys, datagram, packet)
        session.received_s = now_s
        return rmcp.sealed(session, session.keys, _answered(desk, session, message))
    if packet.protection:
        raise rmcp.Malformed("protected outside of a session")
    if packet.payload_type in LOGIN_STEPS:
        step, kind = LOGIN_STEPS[packet.payload_type]
        payload = step(desk, packet.payload, now_s)
        return None if payload is None else rmcp.write_packet(rmcp.Packet(kind, 0, 0, payload))
    if packet.payload_type != rmcp.IPMI:
        raise rmcp.Malformed("no payload for a BMC")
    return rmcp.write_packet(replace(packet, sequence=0, payload=_answered(desk, None, packet.payload)))


def _answered(desk: LoginDesk, session: rmcp.BmcSession | None, message: bytes) -> bytes:
    request = rmcp.read_request(message)
    call = IpmiCall(desk.bmc, desk.sessions, session, request.data)
    return rmcp.write_answer(request, answer(call, request.function, request.command))
