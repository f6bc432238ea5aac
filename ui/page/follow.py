"""Those who follow the page: while there are any, agent and ledger are looked at, and each is sent what has changed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from ui.page.look import Sections

LOOK_EVERY_S = 2.0
ALIVE_EVERY_S = 15.0
MOST_WAITING = 16
"""Who is so many looks behind is hung up on: the browser connects anew and is sent everything."""
MOST_FOLLOWERS = 32

ALIVE = ": alive\n\n"


class TooManyFollow(Exception):
    """There is no place for one more."""


class Followers:
    """Gives each follower everything once, and from then on what changes. `make` begins to look, for all of them."""

    def __init__(self, make: Callable[[], Callable[[], Sections]], *, every_s: float = LOOK_EVERY_S) -> None:
        self._make, self._every_s = make, every_s
        self._queues: set[asyncio.Queue[Sections]] = set()
        self._latest: Sections = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._queues)

    async def follow(self) -> AsyncIterator[str]:
        """Give server-sent events until the follower hangs up; TooManyFollow."""
        if self.count >= MOST_FOLLOWERS:
            raise TooManyFollow
        queue: asyncio.Queue[Sections] = asyncio.Queue(MOST_WAITING)
        self._queues.add(queue)
        if self._latest:
            queue.put_nowait(self._latest)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            async for text in self._told(queue):
                yield text
        finally:
            self._queues.discard(queue)

    async def _told(self, queue: "asyncio.Queue[Sections]") -> AsyncIterator[str]:
        yield ALIVE
        while queue in self._queues:
            try:
                async with asyncio.timeout(ALIVE_EVERY_S):
                    sections = await queue.get()
            except TimeoutError:
                yield ALIVE
            else:
                yield "".join(f"event: {name}\ndata: {text}\n\n" for name, text in sections.items())

    async def _look(self) -> None:
        """Look again and again as long as anybody follows, then forget everything."""
        look = self._make()
        try:
            while self._queues:
                found = await asyncio.to_thread(look)
                changed = {name: text for name, text in found.items() if self._latest.get(name) != text}
                self._latest |= changed
                if changed:
                    self._tell(changed)
                await asyncio.sleep(self._every_s)
        finally:
            self._latest, self._looking = {}, None

    def _tell(self, changed: Sections) -> None:
        for queue in tuple(self._queues):
            with suppress(asyncio.QueueFull):
                queue.put_nowait(changed)
                continue
            self._queues.discard(queue)
