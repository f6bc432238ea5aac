"""A tap between a client and a BMC: it passes packets on, notes the kinds that the client sends, swallows or delays."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

RMCP_PLUS, RAKP_1, RAKP_2, RAKP_4, MESSAGE = 6, 0x12, 0x13, 0x15, 0x00
"""Authentication type of IPMI 2.0, and its kinds of payload (IPMI v2.0, tables 13-8 and 13-16)."""
IPMI_1_5 = -1


@dataclass
class Tap:
    """Where the client has to go, and the kinds of the packets it sent; those in `swallowed` go nowhere.

    With `late_rakp_2`, the BMC's first RAKP message 2 comes only together with its second. What it sends of the
    kinds in `lost` never comes, once for each, and nothing comes while `is_mute`. Answers wait until `holds_until_s` by
    the monotonic clock.
    """

    port: int
    seen: list[int] = field(default_factory=list)
    swallowed: set[int] = field(default_factory=set)
    late_rakp_2: bool = False
    late: list[bytes] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    is_mute: Callable[[], bool] = bool
    holds_until_s: float = 0.0

    def passes(self, packet: bytes) -> bool:
        """Note a packet of the client and tell whether it goes on."""
        kind = _kind(packet)
        self.seen.append(kind)
        return kind not in self.swallowed

    def due(self, packet: bytes) -> list[bytes]:
        """Return what goes to the client now that the BMC has sent this packet."""
        if self.is_mute():
            return []
        if _kind(packet) in self.lost:
            self.lost.remove(_kind(packet))
            return []
        if not self.late_rakp_2 or _kind(packet) != RAKP_2:
            return [packet]
        self.late.append(packet)
        return self.late if len(self.late) == 2 else []


def _kind(packet: bytes) -> int:
    return packet[5] & 0x3F if packet[4] == RMCP_PLUS else IPMI_1_5


@contextmanager
def tap(host: str, port: int) -> Iterator[Tap]:
    """Listen at a free port of 127.0.0.1 and pass on to the BMC and back until the block ends."""
    with socket.socket(type=socket.SOCK_DGRAM) as front, socket.socket(type=socket.SOCK_DGRAM) as ender:
        front.bind(("127.0.0.1", 0))
        ender.bind(("127.0.0.1", 0))
        made = Tap(front.getsockname()[1])
        thread = threading.Thread(target=_pass_on, args=(made, front, ender, (host, port)))
        thread.start()
        try:
            yield made
        finally:
            ender.sendto(b"end", ender.getsockname())
            thread.join()


def _pass_on(made: Tap, front: socket.socket, ender: socket.socket, bmc: tuple[str, int]) -> None:
    to_bmc: dict[tuple[str, int], socket.socket] = {}
    while True:
        ready, _, _ = select.select([front, ender, *to_bmc.values()], [], [])
        if ender in ready:
            break
        time.sleep(max(0.0, made.holds_until_s - time.monotonic()))
        for client, back in to_bmc.items():
            if back in ready:
                with suppress(OSError):
                    for packet in made.due(back.recv(2000)):
                        front.sendto(packet, client)
        if front in ready:
            packet, client = front.recvfrom(2000)
            if client not in to_bmc:
                to_bmc[client] = socket.socket(type=socket.SOCK_DGRAM)
                to_bmc[client].connect(bmc)
            if made.passes(packet):
                to_bmc[client].send(packet)
    for back in to_bmc.values():
        back.close()
