"""A server whose clients are answered each in a thread of its own, so many at once and no more.

A request has to arrive within some seconds as a whole, however its bytes come. Where all places are taken, the client
that has been sending its request for longest makes room, of the address with most of them.
"""

import io
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingMixIn
from typing import Any

MOST_CLIENTS = 32
MAKE_ROOM_S = 1.0


class FewThreads(ThreadingMixIn):
    """Hangs up on clients that are too many. Mixed into a server of socketserver."""

    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        self._lock = threading.Lock()
        self._sending: dict[socket.socket, str] = {}
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or hang up where all clients are being answered."""
        if not self._places.acquire(blocking=False):
            self._hang_up_on_one()
            if not self._places.acquire(timeout=MAKE_ROOM_S):
                self.shutdown_request(request)  # type: ignore[attr-defined]
                return
        with self._lock:
            self._sending[request] = str(client_address[0]) if client_address else ""
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place to the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_arrived(request)
            self._places.release()

    def has_arrived(self, request: socket.socket) -> None:
        """Take note that a client has sent its whole request: it is answered, and makes room for no other."""
        with self._lock:
            self._sending.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""

    def _hang_up_on_one(self) -> None:
        with self._lock:
            most = Counter(self._sending.values()).most_common(1)
            oldest = next((each for each, address in self._sending.items() if most and address == most[0][0]), None)
            if oldest is not None:
                del self._sending[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)


class PatientHandler(StreamRequestHandler):
    """Reads a request that arrives within `timeout` seconds as a whole; TimeoutError otherwise. A handler sets it."""

    def setup(self) -> None:
        """Begin to count."""
        super().setup()
        assert self.timeout is not None
        self.rfile.close()
        self.rfile = io.BufferedReader(_UntilDeadline(self.connection, time.monotonic() + self.timeout))

    def request_has_arrived(self) -> None:
        """Keep the place until the request is answered; each part of the answer has `timeout` seconds again."""
        self.connection.settimeout(self.timeout)
        self.server.has_arrived(self.request)  # type: ignore[attr-defined]


class _UntilDeadline(io.RawIOBase):
    def __init__(self, connection: socket.socket, until_s: float) -> None:
        self._connection, self._until_s = connection, until_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)
