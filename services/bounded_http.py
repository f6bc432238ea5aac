"""The HTTP connections of page and broker, bounded in number and in time: idle and slow ones keep no client out."""

import asyncio
import resource
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 256
SHARE_OF_FILES = 4
"""At most every fourth open file is a connection: connections that wait to be accepted or closed are files too."""
REQUEST_S = 10.0
"""The longest time for a request to arrive, and for the first one to begin."""


class BoundedProtocol(H11Protocol):
    """Disconnects clients whose requests do not arrive in time.

    A connection too many takes the place of one whose request has not arrived: the oldest one of the address with most
    of them. Without such a one it is closed. The process never runs out of files: asyncio would then log a line for
    each place in the backlog, in each second.
    """

    most_connections = MOST_CONNECTIONS
    request_s = REQUEST_S
    awaits_body = False
    """Whether the body of a request has to arrive in that time, too, and not only its head."""

    _overdue: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = soft // SHARE_OF_FILES if soft != resource.RLIM_INFINITY else self.most_connections
        if len(self.connections) >= min(self.most_connections, files) and not self._make_room():
            self._refused = True
            transport.abort()
            return
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        if not self._refused:
            super().data_received(data)
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if not self._refused:
            self._is_awaited_no_more()
            super().connection_lost(exc)

    def _await_request(self) -> None:
        is_answered = self.cycle is not None and not self.cycle.response_complete
        if is_answered and not (self.awaits_body and self.cycle.more_body):
            self._is_awaited_no_more()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(self.request_s, self.transport.abort)

    def _is_awaited_no_more(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _make_room(self) -> bool:
        waiting: list[Any] = [other for other in self.connections if getattr(other, "_overdue", None) is not None]
        if not waiting:
            return False
        hosts = Counter(other.client and other.client[0] for other in waiting)
        most = hosts.most_common(1)[0][0]
        of_host = (other for other in waiting if (other.client and other.client[0]) == most)
        oldest = min(of_host, key=lambda other: other._overdue.when())
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True
