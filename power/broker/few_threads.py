"""A server whose clients are answered each in a thread of its own, so many at once and no more."""

import threading
from socketserver import ThreadingMixIn
from typing import Any

MOST_CLIENTS = 32


class FewThreads(ThreadingMixIn):
    """Hangs up on who is too many. Mixed into a server of socketserver."""

    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or hang up where there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)  # type: ignore[attr-defined]

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place to the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""
