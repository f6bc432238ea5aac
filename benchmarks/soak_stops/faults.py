"""What happens in a soak of stops, each for a while: ill BMCs, scheduler and ledger, and nodes that an admin holds."""

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak_stops.site import SiteScheduler
from benchmarks.soak_stops.witness import Rules
from offpeak.errors import OffpeakError
from offpeak.services.agent.requests import END_HOLD, HOLD, format_hold
from offpeak.services.agent.status import exchange
from offpeak.sim_backend.virtual.node import BmcFaults

LASTS_S, RETRY_S, PATIENCE_S = (0.3, 4.0), 0.5, 40.0
"""Real seconds."""
BMC_FAULTS = {
    "BMC silent": BmcFaults(silent=True),
    "BMC slow": BmcFaults(delay_s=0.6),
    "BMC garbage": BmcFaults(garbage=True),
    "BMC drops orders": BmcFaults(drops_commands=True),
}
MOST_ILL = 8
"""One BMC in so many is faulty at a time."""


@dataclass
class Faults:
    """`counts` are of those so far. Each is over by itself; `end` waits for the last one."""

    scheduler: SiteScheduler
    ledger: Path
    socket: Path
    rules: Rules
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    _running: "set[asyncio.Task[None]]" = field(default_factory=set)

    def begin_one(self) -> None:
        """Let something go wrong for a while."""
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "scheduler silent": self._scheduler_fails,
            "scheduler slow": self._scheduler_is_slow,
            "scheduler hides jobs": self._scheduler_hides_jobs,
            "ledger locked": self._ledger_is_locked,
            "node held": self._node_is_held,
        }
        name = self.chance.choice((*kinds, *BMC_FAULTS))
        self.counts[name] += 1
        task = asyncio.ensure_future(kinds[name]() if name in kinds else self._bmcs_are_ill(BMC_FAULTS[name]))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """Return when nothing is wrong any more."""
        await asyncio.gather(*self._running)

    async def _scheduler_fails(self) -> None:
        self.scheduler.error = "slurm_load_jobs error: Unable to contact slurm controller"
        await self._pause()
        self.scheduler.error = ""

    async def _scheduler_is_slow(self) -> None:
        self.scheduler.slow_s = self.chance.uniform(0.2, 2.0)
        await self._pause()
        self.scheduler.slow_s = 0.0

    async def _scheduler_hides_jobs(self) -> None:
        self.scheduler.hides_jobs = True
        await self._pause()
        self.scheduler.hides_jobs = False

    async def _ledger_is_locked(self) -> None:
        with closing(sqlite3.connect(self.ledger, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return
            await self._pause()

    async def _node_is_held(self) -> None:
        """Hold a node, which counts once the agent confirms it, and release it as soon as an agent hears of that."""
        node = self.chance.choice(sorted(self.scheduler.room.bmcs))
        try:
            await self._ask_agent(HOLD, node)
        except OffpeakError:
            # Written or not: it is released all the same.
            pass
        else:
            self.rules.held.add(node)
            await self._pause()
            self.rules.held.discard(node)
        while True:
            try:
                await self._ask_agent(END_HOLD, node)
                return
            except OffpeakError:
                await asyncio.sleep(RETRY_S)

    async def _ask_agent(self, what: str, node: str) -> None:
        request = {"tell": what, "nodes": node, "text": format_hold("a soak", None, take_over=False)}
        await asyncio.to_thread(exchange, self.socket, request, patience_s=PATIENCE_S)

    async def _bmcs_are_ill(self, fault: BmcFaults) -> None:
        bmcs = self.scheduler.room.bmcs
        ill = self.chance.sample(sorted(bmcs), max(1, len(bmcs) // MOST_ILL))
        for name in ill:
            bmcs[name].faults = fault
        await self._pause()
        for name in ill:
            bmcs[name].faults = BmcFaults()

    async def _pause(self) -> None:
        await asyncio.sleep(self.chance.uniform(*LASTS_S))
