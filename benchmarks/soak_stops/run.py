"""Runs a soak of stops: the service starts, something happens to it, it ends, and again, until all cycles are done."""

import asyncio
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

from benchmarks.peers import peer
from benchmarks.soak_stops.faults import Faults
from benchmarks.soak_stops.site import (
    JobBursts,
    Programs,
    SiteScheduler,
    StopsPlan,
    enrol,
    settings_of,
)
from benchmarks.soak_stops.witness import Rules, Witness
from offpeak.ledger.ledger import Ledger
from offpeak.model.clock import FastClock
from offpeak.services.agent import accounting_loops as meter_loop
from offpeak.services.agent import power_loop, service
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.service import Service
from offpeak.services.agent.site_context import SiteContext, make_site_context
from offpeak.settings.table import Settings
from offpeak.sim_backend.virtual.machine_room import MachineRoom, machine_room
from offpeak.sim_backend.virtual.room_plan import room_logins, write_inventory

LOOK_S = 0.05
PAUSE_S, DEAD_S = (0.5, 4.0), (0.0, 2.0)
"""Real seconds between two disturbances, and from a stop to the next start."""
LAST_ROUNDS_S = 1.5
"""The service waits so long for rounds under way instead of ten seconds: many stops have to cut one off."""
ENDS_S = 45.0
METERS_S, ON_THEIR_WAY_S = 20.0, 15.0
"""Meters are read rarely, and nodes on their way looked at less often: so fast a clock leaves no time for more."""
MODES = ("active", "active", "active", "shadow", "advise")
CALM_S = 7200.0
"""Time of the site in which all comes to rest."""


@dataclass
class Found:
    """What a soak has found."""

    plan: StopsPlan
    broken: list[str] = field(default_factory=list)
    cycles: int = 0
    orders: dict[str, int] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    resumes: int = 0
    most_wakes: int = 0
    longest_wait_s: float = 0.0
    slowest_stop_s: float = 0.0
    left_closed: list[str] = field(default_factory=list)
    took_s: float = 0.0


def soaked(plan: StopsPlan) -> Found:
    """Soak until all cycles are completed, or the time is over."""
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-soak-", ignore_cleanup_errors=True) as name,
        # The source of prices answers all the time, and never ends its answer.
        peer("dripping_server").dripping_proxy("head"),
        mock.patch.object(service, "LAST_ROUNDS_S", LAST_ROUNDS_S),
        mock.patch.object(meter_loop, "LEAST_METER_PERIOD_S", METERS_S),
        mock.patch.object(power_loop, "ON_THEIR_WAY_S", ON_THEIR_WAY_S),
    ):
        return asyncio.run(_soaked(plan, Path(name)))


async def _soaked(plan: StopsPlan, folder: Path) -> Found:
    begun_s = time.monotonic()
    room_plan = plan.room()
    (folder / "agent").mkdir()
    write_inventory(folder, room_plan, node_class="server", made_by="a soak of stops")
    async with machine_room(room_plan, room_logins(folder)) as room:
        enrol(folder, room)
        clock = FastClock(plan.factor, time.time())
        clock.start()
        soak = _Soak(plan, folder, room, clock)
        async with soak.following():
            while soak.scheduler.cycles < plan.cycles and time.monotonic() - begun_s < plan.most_real_s:
                await soak.run_once()
            await soak.calm_down()
        soak.finish()
    soak.found.took_s = time.monotonic() - begun_s
    return soak.found


class _Soak:
    def __init__(self, plan: StopsPlan, folder: Path, room: MachineRoom, clock: FastClock) -> None:
        self._plan, self._folder, self._clock = plan, folder, clock
        self._chance = random.Random(plan.seed)
        paths = {
            "OFFPEAK_SOCKET": folder / "agent.sock",
            "OFFPEAK_STATE_FOLDER": folder / "agent",
            "OFFPEAK_SLURM_LOG": folder / "programs.log",
        }
        environment = dict(os.environ) | {name: str(path) for name, path in paths.items()}
        environment["OFFPEAK_TIME_SCALE"] = str(1 / plan.factor)
        self._programs = Programs(folder, environment)
        self.scheduler = SiteScheduler(room, clock.unix_s, self._programs.resume)
        self._rules = Rules()
        self.witness = Witness(self.scheduler, self._rules, clock.unix_s, time.monotonic)
        self.witness.watch(room)
        self._faults = Faults(
            self.scheduler, folder / "ledger.sqlite", folder / "agent.sock", self._rules, self._chance
        )
        self._bursts = JobBursts(plan, self.scheduler, random.Random(plan.seed))
        self._settings = settings_of(plan, folder)
        self._submits = True
        self.found = Found(plan)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Let the cluster live, and look at it, until the block ends."""
        task = asyncio.create_task(self._follow())
        try:
            # What a reload makes its parts with.
            with mock.patch.object(service, "make_site_context", self.make_site_context):
                yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def run_once(self) -> None:
        """Start the agent, disturb it, and stop it at a moment of no special kind."""
        self._ask_mode("active")
        async with self._serving() as running:
            left_s = self._chance.uniform(*self._plan.run_s)
            while left_s > 0 and not running.done():
                pause_s = self._chance.uniform(*PAUSE_S)
                await asyncio.sleep(pause_s)
                left_s -= pause_s
                self._disturb()
            self.found.events["SIGTERM"] += 1
        await asyncio.sleep(self._chance.uniform(*DEAD_S))

    async def calm_down(self) -> None:
        """End all faults, then the agent once no node is on its way down; without it a job needs all nodes.

        A node that is on its way down when the agent ends for good stays closed until `agent --restore`.
        """
        self._submits = False
        self._ask_mode("active")
        async with self._serving():
            await self._faults.end()
            await self._wait(lambda: not self.scheduler.unstarted(), "jobs wait although no fault is left")
            await self._wait(self._rests, "nodes are closed although no fault is left")
        self.scheduler.submit(self._plan.nodes, 60.0)
        await self._wait(lambda: not self.scheduler.unstarted(), "a job does not start after the agent has ended")
        self.found.left_closed = self.scheduler.closed()

    def _rests(self) -> bool:
        """Tell whether all nodes sleep, but for the one that must stay on, and are open to jobs."""
        dark = sum(not node.powered for node in self.scheduler.room.nodes.values())
        return not self.scheduler.closed() and dark >= self._plan.nodes - 1

    async def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        until_s = self._clock.unix_s() + CALM_S
        while not condition():
            if self._clock.unix_s() > until_s:
                states = Counter(str(node.power) for node in self.scheduler.cluster.nodes.values())
                closed = self.scheduler.closed()
                self.witness.broken.append(f"{otherwise}: {dict(states)}, closed {closed}")
                return
            await asyncio.sleep(LOOK_S)

    def finish(self) -> None:
        """Put together what was found."""
        self._programs.close()
        witness, found = self.witness, self.found
        found.broken, found.orders, found.cycles = witness.broken, witness.orders, self.scheduler.cycles
        found.faults, found.resumes = self._faults.counts, self._programs.calls
        found.most_wakes, found.longest_wait_s = witness.most_wakes, witness.longest_wait_s

    async def _follow(self) -> None:
        while True:
            if self._submits:
                self._bursts.go_on(self._clock.unix_s())
            self.scheduler.follow()
            self.witness.look()
            await asyncio.sleep(LOOK_S)

    @asynccontextmanager
    async def _serving(self) -> "AsyncIterator[asyncio.Task[None]]":
        ledger = Ledger(self._settings.ledger, clock=self._clock.unix_s, patience_s=1.0)
        served = SiteAgent(self.make_site_context(self._settings), ledger, ProblemLog(self._clock.unix_s))
        running = asyncio.create_task(Service(served, lambda: self._settings).run())
        try:
            await asyncio.sleep(0.1)
            yield running
        finally:
            begun_s = time.monotonic()
            os.kill(os.getpid(), signal.SIGTERM)
            await running
            took_s = time.monotonic() - begun_s
            self.found.slowest_stop_s = max(self.found.slowest_stop_s, took_s)
            await served.close()

    def _disturb(self) -> None:
        if self._chance.random() < 0.6:
            self._faults.begin_one()
            return
        if self._chance.random() < 0.5:
            self._ask_mode(self._chance.choice(MODES))
        else:
            some = self._chance.sample(self._plan.names, self._plan.nodes * 3 // 4)
            nodes = self._chance.choice((some, list(self._plan.names)))
            self._settings = settings_of(self._plan, self._folder, mode=self._rules.mode, nodes=nodes)
        self.found.events["SIGHUP"] += 1
        os.kill(os.getpid(), signal.SIGHUP)

    def _ask_mode(self, mode: str) -> None:
        self._settings = settings_of(self._plan, self._folder, mode=mode)
        if mode != self._rules.mode:
            self._rules.mode, self._rules.mode_since_s = mode, time.monotonic()

    def make_site_context(self, settings: Settings, *_: object) -> SiteContext:
        """Return the parts of these settings, on the clock of the site and with its scheduler."""
        return replace(make_site_context(settings, self._clock.clock), scheduler=self.scheduler)
