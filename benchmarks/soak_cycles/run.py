"""Runs a soak of cycles: sweeps with faults, a ledger that is locked, clocks set back, a crash; then all well again."""

import asyncio
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.soak.footprint import Footprint, footprint
from benchmarks.soak_cycles.agent import Agent, Around
from benchmarks.soak_cycles.bmc_logs import BmcLogs
from benchmarks.soak_cycles.bmcs import Bmcs, running_bmcs
from benchmarks.soak_cycles.books import DONE
from benchmarks.soak_cycles.clock import RoomClock
from benchmarks.soak_cycles.found import Found
from benchmarks.soak_cycles.machines import machines_of
from benchmarks.soak_cycles.mortal import Killed
from benchmarks.soak_cycles.plan import STEPS_S, CyclesPlan
from benchmarks.soak_cycles.room import CyclesRoom
from benchmarks.soak_cycles.witness import Witness
from offpeak.door.effect import Outcome, Refusal
from offpeak.ledger.ledger import Ledger
from offpeak.model.constants import DAY_S
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.lifecycle.node_record import Release, is_goal
from offpeak.settings.ledger import LedgerSettings

EVENTS = {"locked": (0.15, 0.45, 0.75), "set back": (0.2, 0.6), "crash": (0.3,)}
"""At which shares of the cycles the ledger is locked, the clock is set back, the program is killed."""
HOUR_S = 3600.0
CONVERGES_SWEEPS = 120
SHADOW_SWEEPS = 6
THREADS, LEAVES_S = 64, 0.1
LOOKS = 10
"""So often files are counted at the end: one that stays open is open each time."""
OPERATOR = 0.3
"""So often in a sweep the operator gives a node back that is well again."""


async def cycled(plan: CyclesPlan) -> Found:
    """Soak until all cycles are completed."""
    begin_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as name, running_bmcs(Path(name), plan.bmcs) as bmcs:
        run = _Run(plan, bmcs, Path(name))
        found = run.found
        await run.warm_up()
        found.before = run.footprint()
        await run.start()
        while run.room.cycles < plan.cycles and run.room.sweep < plan.most_sweeps:
            await run.sweep()
        await run.converge()
        await run.shadow()
        await run.end()
        for _ in range(LOOKS):
            found.after = run.footprint()
            if found.after.files <= found.before.files:
                break
            # A wire's thread opens or closes a socket while they are counted.
            await asyncio.sleep(0.5)
        run.compare()
    found.took_s = time.perf_counter() - begin_s
    return found


class _Run:
    """The sweeps, one after the other. The room's clock moves before each, and stands still while it lasts."""

    def __init__(self, plan: CyclesPlan, bmcs: Bmcs, folder: Path) -> None:
        self._plan, self._bmcs, self._file = plan, bmcs, folder / "ledger.sqlite"
        self._clock = RoomClock()
        self.room = CyclesRoom(plan, bmcs, self._clock)
        machines = machines_of(plan, bmcs, folder)
        self._around = Around(plan, machines, f"sqlite:///{self._file}", self._clock, self.room.find_uses)
        self._witness = Witness(plan, self.room.nodes)
        none = footprint()
        self.found = Found(plan, self.room, self._witness, self._clock, none, none)
        self._states = dict[str, SchedulerState]()
        self._due = sorted((share, event) for event, shares in EVENTS.items() for share in shares)
        self._chance = random.Random(plan.seed)
        self._logs = BmcLogs(self.room, self._witness, bmcs.wires, random.Random(plan.seed))

    def footprint(self) -> Footprint:
        """Return the footprint of this process without what the wires hold."""
        whole, wires = footprint(), self._bmcs.wires
        files, threads = (sum(getattr(wire, held) for wire in wires) for held in ("sockets", "threads"))
        return replace(whole, files=whole.files - files, threads=whole.threads - threads)

    async def warm_up(self) -> None:
        """Look in shadow mode and end again: what is loaded and opened for good is there then."""
        await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.02) for _ in range(THREADS)))
        await self.start("shadow")
        await self._round({})
        await self.end()

    async def start(self, mode: str = "active") -> None:
        """Start the agent, which first looks what a run before has left."""
        self._agent = Agent(self._around, mode)
        await self._agent.start()
        self.found.events["reconciled"] += self._agent.reconciled

    async def sweep(self) -> None:
        """Let time pass and make a round, in which something special may happen."""
        self._pass(self.room.pass_time)
        event = self._event()
        self.found.events[event] += 1
        if event == "set back":
            self._clock.set_back(HOUR_S)
        if event == "crash":
            self._agent.journal.dies_after(2)
        with self._locked(event == "locked"):
            try:
                await self._round(self.room.desired_orders(), locked=event == "locked")
            except BaseExceptionGroup as group:
                if group.split(Killed)[1] is not None:
                    raise
                await self._after_crash()
        if event == "locked":
            self._agent.wait_for_ledger()
        self._operator()
        if self._clock.monotonic_s > DAY_S:
            self.found.rss_mib.append(footprint().rss_mib)

    async def converge(self) -> None:
        """End all faults; half of the nodes are to sleep, half to be up: after how many sweeps are they?"""
        self.room.end_of_faults()
        desired = {name: (NodeOrder.ON, NodeOrder.SOFT_OFF)[at % 2] for at, name in enumerate(self._plan.nodes)}
        for node in self._plan.nodes:
            self._agent.happens(node, Release())
        for sweep in range(1, CONVERGES_SWEEPS + 1):
            self._pass(self.room.settle)
            await self._round(desired)
            self._operator()
            if all(self._is_as(name, order) for name, order in desired.items()):
                self.found.converged_sweeps = sweep
                return
        still = [name for name, order in desired.items() if not self._is_as(name, order)]
        self._witness.broken += [f"not as wished in the end: {self._agent.records.nodes[name]}" for name in still]

    async def shadow(self) -> None:
        """Start anew in shadow mode, with the opposite wishes: nothing may reach any BMC."""
        await self.end()
        await self.start("shadow")
        desired = {name: (NodeOrder.SOFT_OFF, NodeOrder.ON)[at % 2] for at, name in enumerate(self._plan.nodes)}
        before = self._witness.orders
        for _ in range(SHADOW_SWEEPS):
            self._pass(self.room.settle)
            await self._round(desired)
        self.found.shadow_orders = self._witness.orders - before

    async def end(self) -> None:
        """End the agent, politely; threads that have ended leave the process a moment later."""
        self.found.lost_rows += await self._agent.close()
        await asyncio.sleep(LEAVES_S)

    def compare(self) -> None:
        """Compare the ledger with the BMCs' logs, when everything has ended."""
        self._logs.settle(self._plan.nodes)
        self.found.open_sessions = self._logs.open_sessions()
        ledger = Ledger(LedgerSettings(url=self._around.url))
        actions = ledger.recent(0.0)
        ledger.close()
        self._witness.broken += self._logs.unlike(actions)
        self.found.actions, self.found.passed = len(actions), self._logs.passed

    def _pass(self, pass_time: Callable[[float], None]) -> None:
        pass_time(self._chance.choice(STEPS_S))
        self._logs.between_sweeps()

    async def _round(self, desired: Mapping[str, NodeOrder | None], *, locked: bool = False) -> None:
        """Make a round by the scheduler's words of a sweep ago; then the nodes begin to follow."""
        states, self._states = self._states, self.room.scheduler_states()
        answers = await self._agent.round(states, desired)
        self.found.hear(answers)
        self._logs.settle(effect.subject for effect, answer in answers if is_doubtful(answer))
        self._logs.after_sweep(self._agent.seen, self._clock.monotonic_s, locked=locked)

    async def _after_crash(self) -> None:
        """Start the program again after it was killed in the middle of a sweep."""
        self._logs.settle(self._plan.nodes)
        self._logs.after_sweep(self._agent.seen, self._clock.monotonic_s, locked=False)
        await self.end()
        await self.start()
        # A program that starts anew has its memory anew, this process has not.
        self.found.rss_mib.clear()

    def _event(self) -> str:
        if not self._due or self.room.cycles < self._due[0][0] * self._plan.cycles:
            return ""
        return self._due.pop(0)[1]

    @contextmanager
    def _locked(self, locked: bool) -> Iterator[None]:
        """Keep everybody else from writing to the ledger, as a program that hangs does."""
        with ExitStack() as end:
            if locked:
                other = end.enter_context(closing(sqlite3.connect(self._file, isolation_level=None)))
                other.execute("BEGIN IMMEDIATE")
            yield

    def _operator(self) -> None:
        """Give nodes back whose fault is over."""
        ill = self.room.ill()
        for name, record in self._agent.records.nodes.items():
            if record.fault is not None and name not in ill and self._chance.random() < OPERATOR:
                self._agent.happens(name, Release())
                self.found.events["given back"] += 1

    def _is_as(self, name: str, order: NodeOrder) -> bool:
        node = self.room.nodes[name]
        return is_goal(order, self._agent.records.nodes[name].observed.state) and node.up is (order is NodeOrder.ON)


def is_doubtful(answer: Outcome | Refusal) -> bool:
    """Whether the order may be on its way still."""
    return isinstance(answer, Outcome) and answer.result != DONE
