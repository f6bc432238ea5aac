"""Rounds that are made again and again: what goes wrong in one is said, and the next one is made all the same."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from offpeak.errors import OffpeakError
from power.agent.voice import LOG, Voice

LEAST_PAUSE_S = 0.05
STUCK_S = 600.0
"""A round that takes longer than this, and ten cycles, hangs."""


class Rounds:
    """Makes rounds every `every_s()` seconds, and sooner when `hurry` is called.

    `ended_s` is when the last one ended, `took_s` how long it took, `count` how many have ended. A round that `fetches`
    only reads from elsewhere, so that it may be broken off at any time.

    Who holds `turn` keeps the next round from beginning.
    """

    def __init__(
        self,
        name: str,
        round_: Callable[[], Awaitable[None]],
        every_s: Callable[[], float],
        voice: Voice,
        *,
        fetches: bool = False,
    ) -> None:
        self.name, self._round, self.every_s, self._voice, self.fetches = name, round_, every_s, voice, fetches
        self._hurry = asyncio.Event()
        self._under_way: asyncio.Task[None] | None = None
        self.turn = asyncio.Lock()
        self.ended_s, self.took_s, self.count = time.monotonic(), 0.0, 0

    @property
    def stuck_s(self) -> float:
        """When the round under way, or the next one, counts as one that hangs, on the clock of `ended_s`."""
        return self.ended_s + STUCK_S + 10 * self.every_s()

    def hurry(self) -> None:
        """Make the next round at once."""
        self._hurry.set()

    async def run(self) -> None:
        """Make rounds until cancelled."""
        while True:
            begun_s = time.monotonic()
            self._hurry.clear()
            await self.once()
            await self._pause(max(LEAST_PAUSE_S, begun_s + self.every_s() - time.monotonic()))

    async def once(self) -> None:
        """Make one round; no error leaves it."""
        async with self.turn:
            self._under_way = asyncio.create_task(self._once(), name=self.name)
            try:
                await self._under_way
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # Only the round was broken off.
                self.ended_s = time.monotonic()

    def break_off(self) -> None:
        """End the round under way, if there is one; what it fetches is not waited for."""
        if self._under_way is not None:
            self._under_way.cancel()

    async def _once(self) -> None:
        begun_s = time.monotonic()
        try:
            await self._round()
        except OffpeakError as problem:
            self._voice.trouble(self.name, f"{problem}; {problem.hint}")
        except Exception as problem:
            self._voice.trouble(self.name, f"a fault in the program: {type(problem).__name__}: {problem}")
            LOG.log(logging.DEBUG, "%s", self.name, exc_info=problem)
        else:
            self._voice.trouble(self.name, None)
        self.ended_s = time.monotonic()
        self.took_s = self.ended_s - begun_s
        self.count += 1

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            return
