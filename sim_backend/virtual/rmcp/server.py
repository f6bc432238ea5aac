"""A virtual BMC at its address: it answers each datagram with at most one."""

import asyncio
import time
from dataclasses import replace
from typing import cast

from sim_backend.virtual.bmc import VirtualBmc
from sim_backend.virtual.rmcp.commands import IpmiCall, answer
from sim_backend.virtual.rmcp.framing import (
    IPMI,
    OPEN_REQUEST,
    OPEN_RESPONSE,
    RAKP1,
    RAKP2,
    RAKP3,
    RAKP4,
    Malformed,
    Packet,
    pong,
    read_packet,
    read_request,
    write_answer,
    write_packet,
)
from sim_backend.virtual.rmcp.login import LoginDesk, open_session, rakp_1, rakp_3
from sim_backend.virtual.rmcp.sessions import BmcSession, SessionTable, opened, sealed

Address = tuple[str, int]

LOGIN_STEPS = {
    OPEN_REQUEST: (open_session, OPEN_RESPONSE),
    RAKP1: (rakp_1, RAKP2),
    RAKP3: (rakp_3, RAKP4),
}
"""The function that handles each message of a login, and the type of its reply."""


def reply_to(desk: LoginDesk, datagram: bytes, now_s: float) -> bytes | None:
    """Return the reply to a datagram, None for no reply; `now_s` is the time on the clock of the sessions."""
    try:
        return pong(datagram) or _reply(desk, datagram, now_s)
    except Malformed:
        return None


class BmcServer(asyncio.DatagramProtocol):
    """Serves one virtual BMC."""

    def __init__(self, bmc: VirtualBmc) -> None:
        self.desk = LoginDesk(bmc, SessionTable())
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
    packet = read_packet(datagram)
    if packet.session_id:
        return _in_session(desk, datagram, packet, now_s)
    if packet.protection:
        raise Malformed("protected outside of a session")
    if packet.payload_type in LOGIN_STEPS:
        step, kind = LOGIN_STEPS[packet.payload_type]
        payload = step(desk, packet.payload, now_s)
        return None if payload is None else write_packet(Packet(kind, 0, 0, payload))
    if packet.payload_type != IPMI:
        raise Malformed("no payload for a BMC")
    return write_packet(replace(packet, sequence=0, payload=_answered(desk, None, packet.payload)))


def _in_session(desk: LoginDesk, datagram: bytes, packet: Packet, now_s: float) -> bytes:
    session = desk.sessions.find(packet.session_id, now_s)
    if session is None or session.keys is None:
        raise Malformed("no such session")
    message = opened(session, session.keys, datagram, packet)
    session.received_s = now_s
    return sealed(session, session.keys, _answered(desk, session, message))


def _answered(desk: LoginDesk, session: BmcSession | None, message: bytes) -> bytes:
    request = read_request(message)
    call = IpmiCall(desk.bmc, desk.sessions, session, request.data)
    return write_answer(request, answer(call, request.function, request.command))
