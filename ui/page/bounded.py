"""HTTP connections of the page, bounded in number and in time: idle and dripping ones keep no browser out."""

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 256
SHARE_OF_FILES = 4
"""At most every fourth open file is a connection: those that wait to be accepted or to be closed are files too."""
REQUEST_S = 10.0
"""So long a request may take to arrive, and the first one to begin."""


class BoundedProtocol(H11Protocol):
    """Hangs up on requests that do not arrive in time.

    A connection too many takes the place of the oldest one without a request, else it is hung up on. The process never
    runs out of files: asyncio would then log a line for each place in the backlog, in each second.
    """

    _overdue: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection."""
        if len(self.connections) >= most_connections() and not self._make_room():
            self._refused = True
            transport.abort()
            return
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        if not self._refused:
            super().data_received(data)
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if not self._refused:
            self._is_awaited_no_more()
            super().connection_lost(exc)

    def _await_request(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._is_awaited_no_more()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _is_awaited_no_more(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _make_room(self) -> bool:
        waiting: list[Any] = [each for each in self.connections if getattr(each, "_overdue", None) is not None]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: each._overdue.when())
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True


def most_connections() -> int:
    """Return how many connections there may be with the process's present limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // SHARE_OF_FILES)
