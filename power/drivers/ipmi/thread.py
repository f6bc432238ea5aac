"""The one thread in which pyghmi runs, and how an event loop asks it for something.

pyghmi keeps its state in its modules and stalls when it is called from several threads, so a process has one such
thread. It lives until the process ends; with no session open it sleeps.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

from power.drivers.ipmi.pyghmi_session import any_alive, work

TURN_S = 0.02
"""While something is awaited: a wake-up that pyghmi loses, or a new call, waits at most this long."""
IDLE_TURN_S = 0.5
"""While sessions are only kept alive."""

Settle = Callable[[object], None]
"""Takes the result of a call, or the error; only the first counts."""
Job = Callable[[Settle], bool]
"""Begins something that settles later. False: it cannot begin yet, and is tried again."""


class PyghmiThread:
    """Runs jobs one after the other; between them, pyghmi's own work."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], bool]] = SimpleQueue()
        self._unanswered: set[object] = set()
        threading.Thread(target=self._run, name="pyghmi", daemon=True).start()

    async def call(self, job: Job) -> Any:
        """Return what the job settles with, or raise it."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[object] = loop.create_future()

        def settle(value: object) -> None:
            self._unanswered.discard(result)
            # The loop may have ended before the answer came.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_put, result, value)

        self._jobs.put(lambda: result.cancelled() or self._begun(job, result, settle))
        try:
            return await result
        except asyncio.CancelledError:
            self.soon(lambda: self._unanswered.discard(result))
            raise

    def soon(self, job: Callable[[], None]) -> None:
        """Run the job without waiting for it, or for what becomes of it."""

        def done() -> bool:
            with suppress(Exception):
                job()
            return True

        self._jobs.put(done)

    def _begun(self, job: Job, result: object, settle: Settle) -> bool:
        self._unanswered.add(result)
        try:
            begun = job(settle)
        except Exception as problem:
            settle(problem)
            return True
        if not begun:
            self._unanswered.discard(result)
        return begun

    def _run(self) -> None:
        postponed: list[Callable[[], bool]] = []
        while True:
            busy = bool(self._unanswered or postponed)
            wait_s = 0.0 if busy else IDLE_TURN_S if any_alive() else None
            postponed = [job for job in (*postponed, *self._arrived(wait_s)) if not job()]
            # A malformed packet of one BMC must not end the thread for all: whoever awaits its answer gives up in time.
            with suppress(Exception):
                work(TURN_S if self._unanswered or postponed else 0.0)

    def _arrived(self, wait_s: float | None) -> Iterator[Callable[[], bool]]:
        with suppress(Empty):
            yield self._jobs.get(block=wait_s != 0.0, timeout=wait_s)
            while True:
                yield self._jobs.get_nowait()


@cache
def pyghmi_thread() -> PyghmiThread:
    """Return the thread of this process; the first call starts it."""
    return PyghmiThread()


def _put(result: asyncio.Future[object], value: object) -> None:
    if result.done():
        return
    if isinstance(value, Exception):
        result.set_exception(value)
    else:
        result.set_result(value)
