"""A tap between a client and a BMC: it passes packets on, notes what kinds the client sends, and can swallow them."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

RMCP_PLUS, RAKP_1, RAKP_3, MESSAGE = 6, 0x12, 0x14, 0x00
"""Authentication type of IPMI 2.0, and its kinds of payload (IPMI v2.0, tables 13-8 and 13-16)."""
IPMI_1_5 = -1


@dataclass
class Tap:
    """Where the client has to go, and the kinds of the packets it sent; those in `swallowed` go nowhere."""

    port: int
    seen: list[int] = field(default_factory=list)
    swallowed: set[int] = field(default_factory=set)

    def passes(self, packet: bytes) -> bool:
        """Note a packet of the client and tell whether it goes on."""
        kind = packet[5] & 0x3F if packet[4] == RMCP_PLUS else IPMI_1_5
        self.seen.append(kind)
        return kind not in self.swallowed


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
        for client, back in to_bmc.items():
            if back in ready:
                with suppress(OSError):
                    front.sendto(back.recv(2000), client)
        if front in ready:
            packet, client = front.recvfrom(2000)
            if client not in to_bmc:
                to_bmc[client] = socket.socket(type=socket.SOCK_DGRAM)
                to_bmc[client].connect(bmc)
            if made.passes(packet):
                to_bmc[client].send(packet)
    for back in to_bmc.values():
        back.close()
