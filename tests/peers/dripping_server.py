"""A server that answers without end: a byte now and then, so that no wait for a part of its answer is long."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from benchmarks.local_slurm.processes import wait_until

EVERY_S = 0.1
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STARTS = {
    "head": HEAD + b"X-Drip: ",
    "body": HEAD + b"Content-Length: 1000000\r\n\r\n[",
    "endless": HEAD + b"Connection: close\r\n\r\n[",
}


@dataclass
class DrippingServer:
    """Drips in the `where` of its answers: "head", "body", or the "endless" body of an answer without a length.

    `begun` counts the connections, `open` those that are not closed by their clients.
    """

    port: int
    where: str = "body"
    begun: int = 0
    open: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def wait_for_client(self, log: Path | None = None) -> None:
        """Return once a client waits for an answer."""
        wait_until(lambda: self.open > 0, what="a client of the dripping server", log=log)

    def wait_until_left(self) -> None:
        """Return once no client is left."""
        wait_until(lambda: self.open == 0, what="the clients of the dripping server to leave")

    def _count(self, more: int) -> None:
        with self._lock:
            self.begun += max(0, more)
            self.open += more

    def _drip(self, client: socket.socket) -> None:
        self._count(1)
        with client, suppress(OSError):
            client.recv(65_536)
            client.sendall(STARTS[self.where])
            while not self._ended.wait(EVERY_S):
                client.sendall(b" ")
        self._count(-1)


@contextmanager
def dripping_server(where: str = "body") -> Iterator[DrippingServer]:
    """Run one until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = DrippingServer(listener.getsockname()[1], where)
        threads: list[threading.Thread] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threads.append(threading.Thread(target=server._drip, args=(client,), daemon=True))
                    threads[-1].start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            server._ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


@contextmanager
def dripping_proxy(where: str = "body") -> Iterator[DrippingServer]:
    """Run one that this process takes for its proxy, and end the questions to feeds that it has kept.

    A thread that outlives the block would ask its next source without a proxy: a service on the internet.
    """
    before = set(threading.enumerate())
    with mock.patch.dict(os.environ):
        with dripping_server(where) as server:
            os.environ["https_proxy"] = server.url
            yield server
        for thread in threading.enumerate():
            if thread not in before and thread.name.startswith(("fetch", "feed ")):
                thread.join(300)
                assert not thread.is_alive(), thread.name
