"""Runs a soak of cycles: sweeps with faults, a ledger that is locked, clocks set back, a crash; then all well again."""

import asyncio
import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.footprint import Footprint, footprint
from benchmarks.soak_cycles.agent import Agent, Around
from benchmarks.soak_cycles.bmcs import Bmcs, running_bmcs
from benchmarks.soak_cycles.books import DONE, unlike, without_end
from benchmarks.soak_cycles.clock import RoomClock
from benchmarks.soak_cycles.machines import machines_of
from benchmarks.soak_cycles.mortal import Killed
from benchmarks.soak_cycles.plan import STEPS_S, CyclesPlan
from benchmarks.soak_cycles.room import CyclesRoom
from benchmarks.soak_cycles.witness import Witness
from offpeak.door.effect import Outcome, Refusal
from offpeak.ledger.ledger import Ledger
from offpeak.ledger_settings import LedgerSettings
from power.drivers.port import Order
from power.interlocks.counts import DAY_S
from power.lifecycle.events import Released
from power.lifecycle.life import Word, is_goal

EVENTS = {"locked": (0.15, 0.45, 0.75), "set back": (0.25, 0.6), "crash": (0.5,)}
"""At which shares of the cycles the ledger is locked, the clock is set back, the program is killed."""
HOUR_S = 3600.0
CONVERGES_SWEEPS = 120
SHADOW_SWEEPS = 6
THREADS = 64
OPERATOR = 0.3
"""So often in a sweep the operator gives a node back that is well again."""


@dataclass
class Cycled:
    """What a soak of cycles has found out. `rss_mib` are of the sweeps after the first day, when limits count most."""

    plan: CyclesPlan
    room: CyclesRoom
    witness: Witness
    clock: RoomClock
    before: Footprint
    after: Footprint
    answers: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    rss_mib: list[float] = field(default_factory=list)
    actions: int = 0
    converged_sweeps: int = 0
    shadow_orders: int = 0
    lost_rows: int = 0
    took_s: float = 0.0


async def cycled(plan: CyclesPlan) -> Cycled:
    """Soak until all cycles are completed."""
    begin_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as name, running_bmcs(Path(name), plan.bmcs) as bmcs:
        run = _Run(plan, bmcs, Path(name))
        result = run.result
        await run.warm_up()
        result.before = footprint()
        await run.start()
        while run.room.cycles < plan.cycles and run.room.sweep < plan.most_sweeps:
            await run.sweep()
        await run.converge()
        await run.shadow()
        await run.end()
        result.after = footprint()
        run.compare()
    result.took_s = time.perf_counter() - begin_s
    return result


class _Run:
    """The sweeps, one after the other. The room's clock moves before each, and stands still while it lasts."""

    def __init__(self, plan: CyclesPlan, bmcs: Bmcs, folder: Path) -> None:
        self._plan, self._bmcs, self._file = plan, bmcs, folder / "ledger.sqlite"
        self._clock = RoomClock()
        self.room = CyclesRoom(plan, bmcs, self._clock)
        machines = machines_of(plan, bmcs, folder)
        self._around = Around(plan, machines, f"sqlite:///{self._file}", self._clock, self.room.in_use)
        self._witness = Witness(plan, self.room.nodes)
        none = footprint()
        self.result = Cycled(plan, self.room, self._witness, self._clock, none, none)
        self._words = dict[str, Word]()
        self._due = sorted((share, event) for event, shares in EVENTS.items() for share in shares)
        self._chance = random.Random(plan.seed)
        self._logged, self._unrecorded = Counter[str](), set[tuple[str, int]]()

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
        self.result.events["reconciled"] += self._agent.reconciled

    async def sweep(self) -> None:
        """Let time pass and make a round, in which something special may happen."""
        self._pass(self.room.pass_time)
        event = self._event()
        self.result.events[event] += 1
        if event == "set back":
            self._clock.set_back(HOUR_S)
        if event == "crash":
            self._agent.journal.dies_after(2)
        with self._locked(event == "locked"):
            try:
                await self._round(self.room.wishes(), locked=event == "locked")
            except BaseExceptionGroup as group:
                if group.split(Killed)[1] is not None:
                    raise
                await self._after_crash()
        self._operator()
        if self._clock.monotonic_s > DAY_S:
            self.result.rss_mib.append(footprint().rss_mib)

    async def converge(self) -> None:
        """End all faults; half of the nodes are to sleep, half to be up: after how many sweeps are they?"""
        self.room.end_of_faults()
        wishes = {name: (Order.ON, Order.SOFT_OFF)[at % 2] for at, name in enumerate(self._plan.nodes)}
        for node in self._plan.nodes:
            self._agent.happens(node, Released())
        for sweep in range(1, CONVERGES_SWEEPS + 1):
            self._pass(self.room.settle)
            await self._round(wishes)
            self._operator()
            if all(self._is_as(name, order) for name, order in wishes.items()):
                self.result.converged_sweeps = sweep
                return
        still = [name for name, order in wishes.items() if not self._is_as(name, order)]
        self._witness.broken += [f"not as wished in the end: {self._agent.lives.nodes[name]}" for name in still]

    async def shadow(self) -> None:
        """Start anew in shadow mode, with the opposite wishes: nothing may reach any BMC."""
        await self.end()
        await self.start("shadow")
        wishes = {name: (Order.SOFT_OFF, Order.ON)[at % 2] for at, name in enumerate(self._plan.nodes)}
        before = self._witness.orders
        for _ in range(SHADOW_SWEEPS):
            self._pass(self.room.settle)
            await self._round(wishes)
        self.result.shadow_orders = self._witness.orders - before

    async def end(self) -> None:
        """End the agent, politely."""
        self.result.lost_rows += await self._agent.close()

    def compare(self) -> None:
        """Compare the ledger with the BMCs' logs."""
        ledger = Ledger(LedgerSettings(url=self._around.url))
        actions = ledger.recent(0.0)
        ledger.close()
        logs = {name: node.bmc.lines("orders") for name, node in self.room.nodes.items()}
        self._witness.broken += [*unlike(logs, actions, self._unrecorded), *without_end(actions)]
        self.result.actions = len(actions)

    def _pass(self, pass_time: Callable[[float], None]) -> None:
        pass_time(self._chance.choice(STEPS_S))
        self._take(between_sweeps=True)

    async def _round(self, wishes: Mapping[str, Order | None], *, locked: bool = False) -> None:
        """Make a round by the scheduler's words of a sweep ago; then the nodes begin to follow."""
        words, self._words = self._words, self.room.words()
        answers = await self._agent.round(words, wishes)
        self.result.answers.update(word_of(answer) for _, answer in answers)
        self._settle(effect.subject for effect, answer in answers if is_doubtful(answer))
        self._take(locked=locked)

    async def _after_crash(self) -> None:
        """Start the program again after it was killed in the middle of a sweep."""
        self._settle(self._plan.nodes)
        self._take()
        await self.end()
        await self.start()

    def _settle(self, nodes: Iterable[str]) -> None:
        """Return when those BMCs have taken in what was sent to them."""
        for node in (self.room.nodes[name] for name in nodes):
            if node.fault not in ("frozen", "dead"):
                node.bmc.settle()

    def _take(self, *, between_sweeps: bool = False, locked: bool = False) -> None:
        """Take in what the BMCs have logged, and let the nodes follow it."""
        told = self.room.orders()
        if between_sweeps:
            self._witness.between_sweeps(told)
        else:
            self._witness.after_sweep(told, self._agent.seen, self._clock.monotonic_s)
        for name, orders in told.items():
            places = range(self._logged[name], self._logged[name] + len(orders))
            self._logged[name] += len(orders)
            if locked:
                self._unrecorded |= {(name, at) for at, order in zip(places, orders, strict=True) if order == "on"}
        self.room.follow(told)

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
        for name, life in self._agent.lives.nodes.items():
            if life.fault is not None and name not in ill and self._chance.random() < OPERATOR:
                self._agent.happens(name, Released())
                self.result.events["given back"] += 1

    def _is_as(self, name: str, order: Order) -> bool:
        node = self.room.nodes[name]
        return is_goal(order, self._agent.lives.nodes[name].seen.state) and node.up is (order is Order.ON)


def word_of(answer: Outcome | Refusal) -> str:
    """Return what an answer is counted as."""
    return f"refused by {answer.rule}" if isinstance(answer, Refusal) else answer.result


def is_doubtful(answer: Outcome | Refusal) -> bool:
    """Whether the order may be on its way still."""
    return isinstance(answer, Outcome) and answer.result != DONE
