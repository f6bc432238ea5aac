"""Wake-on-LAN: one packet that the network card of a sleeping node listens for. The node sends no answer."""

import asyncio
import re
import socket
import time
from collections.abc import Callable

from offpeak.door.door import Confirm, Guard
from offpeak.errors import BadInventory, NoAnswer, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.port import PowerObservation, confirm_at_once

DISCARD_PORT = 9
_MAC = re.compile(r"([0-9a-f]{2})([:-]?)(?:[0-9a-f]{2}\2){4}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE)


def parse_mac(text: str) -> bytes:
    """Return "aa:bb:cc:dd:ee:ff", "aa-bb-...", "aabb.ccdd.eeff" or "aabbccddeeff" as 6 bytes. Raises BadInventory."""
    if not _MAC.fullmatch(text):
        raise BadInventory(
            f"{text!r} is not a MAC address", hint="write it like aa:bb:cc:dd:ee:ff, as `ip link` shows it"
        )
    return bytes.fromhex(re.sub("[:.-]", "", text))


def magic_packet(mac: bytes) -> bytes:
    """Return six times FF and sixteen times the address: 102 bytes."""
    return b"\xff" * 6 + mac * 16


class WakeOnLanDriver:
    """Sends a node's packet to the `wol_via` of its machine: "host" for port 9, or "host:port".

    The host is a directed broadcast address of the node's network, or a relay that forwards packets within the node's
    rack.
    """

    name = "wol"
    orders = frozenset({NodeOrder.ON})

    def __init__(self, machine: InventoryNode, *, timeout_s: float = 5.0, now: Callable[[], float] = time.time) -> None:
        if machine.mac is None:
            raise BadInventory(f"{machine.node}: has no mac to wake it by", hint="add mac = [...] to its [[machines]]")
        self._node = machine.node
        self._packet = magic_packet(parse_mac(machine.mac))
        self._host, self._port = _parse_host_and_port(machine.wol_via)
        self._timeout_s = timeout_s
        self._now = now

    async def query(self) -> PowerObservation:
        """Return UNKNOWN: a network card that listens for packets reports nothing."""
        return PowerObservation(
            PowerState.UNKNOWN, self._now(), NotSupported(f"{self._node}: wake-on-LAN reports no state")
        )

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Send the packet. Raises NoAnswer if the network does not accept it, NotSupported for anything but ON."""
        if order not in self.orders:
            raise NotSupported(f"{self._node}: wake-on-LAN can only wake, not {order}")
        try:
            guard = await confirm()
            async with asyncio.timeout(self._timeout_s):
                await self._send_packet(guard)
        except (OSError, TimeoutError) as problem:
            hint = "check wol_via of its [[machines]]; `ip route get ADDRESS` shows the route of the packets"
            reason = getattr(problem, "strerror", None) or "no answer from the name server in time"
            raise NoAnswer(f"{self._node}: no packet sent to {self._host}: {reason}", hint=hint) from None

    async def identity(self) -> None:
        """Return None: the node sends no answer."""

    async def close(self) -> None:
        """Do nothing: there is no login."""

    async def _send_packet(self, guard: Guard) -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)
        family, _, _, _, address = found[0]
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            guard()
            await loop.sock_sendto(sender, self._packet, address)


def _parse_host_and_port(via: str) -> tuple[str, int]:
    host, colon, port = via.rpartition(":")
    if not colon or ":" in host:
        return via, DISCARD_PORT
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BadInventory(f"{via!r} is not an address", hint="write wol_via like 10.1.255.255 or rack7-head:4009")
    return host, int(port)
