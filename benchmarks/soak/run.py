"""One soak, from its first sweep to its last log-out."""

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.checks import lacking, wrong
from benchmarks.soak.faults import Faults, faults_of
from benchmarks.soak.footprint import Footprint, footprint
from benchmarks.soak.ledger import EnergyLedger
from benchmarks.soak.orders import Orders
from benchmarks.soak.plan import SoakPlan
from benchmarks.soak.room_process import Room, running_room
from benchmarks.soak.seen import Seen
from benchmarks.soak.site import site_of
from benchmarks.soak.truth import Truth
from offpeak.machines.inventory import Enrolment

NO_FAULT: Faults = {}
WORKING = 0.5
"""In so many sweeps a node begins to work more or less."""
FROZEN = (1 / 3, 2 / 3)
"""Where in the run all BMCs hang at once."""
FIRST_LOOKS = 10
"""After so many looks at devices that are all well, each of them is known."""
CLOSED_S = 2.0
"""So soon after the last log-out no BMC has a session."""


@dataclass(frozen=True)
class Soaked:
    """A soak that has ended: what was seen, the orders, what was held before and after, sessions still open, time."""

    plan: SoakPlan
    seen: Seen
    orders: Orders
    before: Footprint
    after: Footprint
    left_open: int
    took_s: float


async def soaked(plan: SoakPlan, *, speed: float = float("inf")) -> Soaked:
    """Run a soak, at most `speed` times as fast as the room's time."""
    begin_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as name, running_room(Path(name), plan) as room:
        run = _Run(plan, room, Path(name))
        await run.warm_up()
        before = footprint()
        await run.begin()
        for sweep, faults in enumerate(faults_of(plan), 1):
            until_s = time.perf_counter() + plan.step_s / speed
            await run.sweep(faults)
            if sweep in (int(share * plan.sweeps) for share in FROZEN):
                await run.hang()
            await asyncio.sleep(until_s - time.perf_counter())
        left_open = await run.end()
        after = footprint()
    return Soaked(plan, run.seen, run.orders, before, after, left_open, time.perf_counter() - begin_s)


class _Run:
    """The sweeps, one after the other. The room's time goes on before each."""

    def __init__(self, plan: SoakPlan, room: Room, folder: Path) -> None:
        self._plan, self._room, self._at_s = plan, room, 0.0
        self._site = site_of(plan, folder, lambda: self._at_s)
        self._chance = random.Random(plan.seed)
        self.orders = Orders({}, self._chance)
        self.seen = Seen(EnergyLedger(plan.step_s))

    async def warm_up(self) -> None:
        """Look, let all BMCs hang once, and log out: what is loaded and opened for good is there then.

        It is also known who is who. Sixty logins at once after a hang take the most memory that is ever needed.
        """
        await self.begin()
        identities = {node: await driver.identity() for node, driver in self._site.drivers.items()}
        self.orders = Orders({node: Enrolment(str(who), (), "") for node, who in identities.items()}, self._chance)
        await self.hang()
        await self._closed()

    async def begin(self) -> None:
        """Look until everything is known: all logins and rows at once may take longer than a sweep."""
        still: list[str] = []
        for _ in range(FIRST_LOOKS):
            truth = self._pass()
            look = await self._site.look()
            self.seen.wrong += wrong(look, truth, NO_FAULT)
            still = list(lacking(look, truth, NO_FAULT))
            if not still:
                break
        self.seen.lacking += still

    async def sweep(self, faults: Faults) -> None:
        """Let a step pass, fall ill who is due, look, and perhaps give an order."""
        truth = self._pass(faults)
        look = await self._site.look()
        self.seen.after_sweep(look, truth, faults, self._at_s)
        self.seen.wrong += [error] if (error := await self.orders.perhaps_give(self._site, look, faults)) else []
        self.seen.footprints.append(footprint())

    async def hang(self) -> None:
        """Let all BMCs hang for a while, and look meanwhile and after: nothing is known of them, then all is again."""
        truth = self._pass()
        self._room.freeze_bmcs()
        try:
            until_s = time.monotonic() + self._plan.frozen_s
            while time.monotonic() < until_s:
                self.seen.wrong += wrong(await self._site.look(), truth, dict.fromkeys(self._plan.bmc_hosts, "silent"))
        finally:
            self._room.thaw_bmcs()
        await self.begin()

    async def end(self) -> int:
        """Look once more with all devices well, log out, and return how many sessions are open then."""
        await self.sweep(NO_FAULT)
        self.seen.wrong += self.orders.surplus_orders(self._advance_room(NO_FAULT, {}))
        return await self._closed()

    async def _closed(self) -> int:
        await self._site.close()
        until_s = time.monotonic() + CLOSED_S
        while (still := self._open()) and time.monotonic() < until_s:
            await asyncio.sleep(0.05)
        return still

    def _open(self) -> int:
        return sum(node.sessions for node in self._advance_room(NO_FAULT, {}).nodes.values())

    def _pass(self, faults: Faults = NO_FAULT) -> Truth:
        """Let a step pass in the room, with those faults; a node may begin to work more or less."""
        self._at_s += self._plan.step_s
        works = self._chance.random() < WORKING
        use = {self._chance.choice(list(self._plan.bmc_hosts)): self._chance.random()} if works else {}
        truth = self._advance_room(faults, use)
        self.seen.before_sweep(truth)
        return truth

    def _advance_room(self, faults: Faults, use: dict[str, float]) -> Truth:
        return self._room.tell(self._at_s, faults, use)
