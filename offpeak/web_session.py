"""HTTP exchanges that end in time as a whole: a server that sends a byte now and then does not keep its client waiting.

The time-outs of requests bound each wait for a part of an answer, never the answer.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import PoolManager

from offpeak.tcp_delivery import bound_delivery


class _Sockets(WeakSet[socket.socket]):
    """The sockets of a session's connections; `broken_off`: none may be used any more."""

    broken_off = False
    guard: Callable[[], object] | None = None

    def check(self) -> None:
        if self.broken_off:
            raise ConnectionAbortedError("broken off")


class WebSession(requests.Session):
    """A session of requests whose exchanges can be broken off from another thread."""

    def __init__(self) -> None:
        super().__init__()
        self._sockets = _Sockets()
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(self._sockets))

    def before_sending(self, guard: Callable[[], object] | None) -> None:
        """Call the guard directly before each part of a request, over the open connection; if it raises, none is sent.

        Such a request arrives soon, or not at all.
        """
        self._sockets.guard = guard

    def break_off(self) -> None:
        """Let every exchange under way fail, and every later one of this session."""
        self._sockets.broken_off = True
        for each in list(self._sockets):
            # The socket's own: that of TLS would say goodbye first, and wait for that.
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Bound all exchanges of the block together; requests.ReadTimeout where they take longer."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self.break_off()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (requests.RequestException, OSError, ValueError):
            if not late.is_set():
                raise
        finally:
            timer.cancel()
        if late.is_set():
            # Without a length the end of a connection looks like the end of an answer.
            raise requests.ReadTimeout(f"not complete after {seconds:g} s")


def read_body(response: requests.Response, *, most_bytes: int) -> bytes | None:
    """Return the body of an answer, None if it is longer than that."""
    body = bytearray()
    for chunk in response.iter_content(65_536):
        body += chunk
        if len(body) > most_bytes:
            return None
    return bytes(body)


class _Adapter(HTTPAdapter):
    """Keeps a weak reference to the socket of each connection, from its first moment on."""

    def __init__(self, sockets: _Sockets) -> None:
        self._pools = {"http": _pool(HTTPConnectionPool, HTTPConnection, sockets)}
        self._pools["https"] = _pool(HTTPSConnectionPool, HTTPSConnection, sockets)
        super().__init__()

    def init_poolmanager(self, *sizes: Any, **options: Any) -> None:
        super().init_poolmanager(*sizes, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **options: Any) -> PoolManager:
        manager: PoolManager = super().proxy_manager_for(proxy, **options)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = self._pools
        return manager


def _pool(pool: Any, connection: Any, sockets: _Sockets) -> type:
    class Connection(connection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            sockets.check()
            made: socket.socket = super()._new_conn()
            sockets.add(made)
            if sockets.broken_off:
                made.close()
            sockets.check()
            return made

        def _tunnel(self) -> None:
            super()._tunnel()
            # A proxy's answer that was broken off looks like a whole one.
            sockets.check()

        def connect(self) -> None:
            super().connect()
            # With TLS it is another one by now.
            if isinstance(self.sock, socket.socket):
                sockets.add(self.sock)

        def send(self, data: Any) -> None:
            if self.sock is None:
                self.connect()
            if sockets.guard is not None:
                bound_delivery(self.sock)
                sockets.guard()
            super().send(data)

    class Pool(pool):  # type: ignore[misc]
        ConnectionCls = Connection

    return Pool
