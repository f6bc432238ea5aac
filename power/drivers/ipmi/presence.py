"""Is there a BMC at all? Asked without a login, so that a dead one costs no attempt and holds nobody up."""

import asyncio
import ipaddress
import socket

from offpeak.errors import NoAnswer
from power.drivers.ipmi.address import BmcAddress
from power.drivers.ipmi.troubles import no_such_name, silent

QUESTION = bytes.fromhex("0600ff07 00 00000000 00000000 09 20 18 c8 81 00 38 8e 04 b5")
"""Get Channel Authentication Capabilities, which every BMC answers outside a session (IPMI v2.0, section 22.13).

RMCP header, no authentication, sequence and session 0, 9 bytes: to 20h, App; from 81h: 38h for this channel and admin.
"""
REPEAT_S = (0.0, 0.3, 0.7, 1.0, 1.0, 2.0)
"""Waited before each question; UDP loses packets, and BMCs sleep on duty."""


async def present(bmc: BmcAddress, timeout_s: float, *, at_once: asyncio.Semaphore) -> str:
    """Return the BMC's numeric address once it has answered; NoAnswer if nobody has in time, or the name is unknown.

    `at_once` bounds how many are looked for at the same time, and with it the open files.
    """
    try:
        async with at_once, asyncio.timeout(timeout_s):
            address = await _numeric(bmc)
            await _answered(bmc, address)
    except TimeoutError:
        raise silent(bmc, timeout_s) from None
    return address


async def _numeric(bmc: BmcAddress) -> str:
    try:
        return str(ipaddress.ip_address(bmc.host))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(bmc.host, bmc.port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as problem:
        raise no_such_name(bmc, f"its name cannot be looked up: {getattr(problem, 'strerror', problem)}") from None
    return str(found[0][4][0])


async def _answered(bmc: BmcAddress, address: str) -> None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[None] = loop.create_future()
    try:
        transport, _ = await loop.create_datagram_endpoint(lambda: _Ear(heard), remote_addr=(address, bmc.port))
    except OSError as problem:
        raise NoAnswer(f"{bmc}: {problem.strerror}", hint=f"is there a route? try: ip route get {address}") from None
    try:
        for wait_s in REPEAT_S:
            await asyncio.wait({heard}, timeout=wait_s)
            if heard.done():
                break
            transport.sendto(QUESTION)
        await heard
    finally:
        transport.close()


class _Ear(asyncio.DatagramProtocol):
    """Hears that something came. A port that is closed counts as silence: the BMC may be starting."""

    def __init__(self, heard: asyncio.Future[None]) -> None:
        self._heard = heard

    def datagram_received(self, *_: object) -> None:
        if not self._heard.done():
            self._heard.set_result(None)
