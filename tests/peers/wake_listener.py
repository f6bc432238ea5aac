"""A network card that sleeps: it takes UDP packets at an address of this machine and keeps them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class WakeListener:
    """Where packets are to be sent, as `wol_via` says it, and what came."""

    via: str
    socket: socket.socket

    def packet(self) -> bytes:
        """Return the next packet; TimeoutError if none comes within minutes."""
        return self.socket.recv(65_536)


@contextmanager
def wake_listener(address: str = "127.0.0.1") -> Iterator[WakeListener]:
    """Listen at a free port of that address, which may be the loopback's broadcast address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 0))
        listener.settimeout(300)
        yield WakeListener(f"{address}:{listener.getsockname()[1]}", listener)
