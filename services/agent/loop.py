"""What every loop of the agent is made of: the loop itself, its log of problems, and its filter of decisions.

An error in one round of a loop is logged, and the next round takes place all the same. The log gets a line when
something changes, not one for each cycle. The ledger gets the decisions that differ from those written of the same
subject before.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from offpeak.errors import OffpeakError
from offpeak.ledger.rows import DecisionRecord
from power.drivers.poll import ReportedProblem, limit_repeats

LOG = logging.getLogger("offpeak")


class ProblemLog:
    """Logs the problem of each subject once, again after a minute and then ever more rarely, and logs its end."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._reported: dict[str, ReportedProblem | None] = {}
        self._clock = clock

    def report(self, about: str, problem: str | None, fault: BaseException | None = None) -> None:
        """Report the present problem of a subject, None if it has none; a `fault` is logged with its traceback."""
        self._reported[about], line = limit_repeats(self._reported.get(about), problem, at_unix_s=self._clock())
        if line:
            level = logging.ERROR if fault is not None else logging.WARNING if problem else logging.INFO
            LOG.log(level, "%s: %s", about, line, exc_info=fault)

    @property
    def summary(self) -> str:
        """All problems in one line."""
        return "; ".join(self.problems) or "all is well"

    @property
    def problems(self) -> tuple[str, ...]:
        """The present problems, each with its subject."""
        return tuple(f"{about}: {reported.trouble}" for about, reported in self._reported.items() if reported)


LEAST_PAUSE_S = 0.05
STUCK_S = 600.0
"""A round that takes longer than this, and ten cycles, hangs."""


class Loop:
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
        problem_log: ProblemLog,
        *,
        fetches: bool = False,
    ) -> None:
        self.name, self._round, self.every_s, self._problem_log, self.fetches = (
            name,
            round_,
            every_s,
            problem_log,
            fetches,
        )
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
            self._problem_log.report(self.name, f"{problem}; {problem.hint}")
        except Exception as problem:
            text = f"a fault in the program: {type(problem).__name__}: {problem}"
            self._problem_log.report(self.name, text, fault=problem)
        else:
            self._problem_log.report(self.name, None)
        self.ended_s = time.monotonic()
        self.took_s = self.ended_s - begun_s
        self.count += 1

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            return


TIME_INPUTS = ("begin_s", "planned_start_s")
"""Inputs that say for when something is decided. A forecast moves them a little in each cycle."""
SAME_TIME_S = 900
"""A time that moves by less makes no new decision."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class _Essence:
    """What a decision is without its grounds: prices, draws and other moving figures."""

    decided: str
    beside: float | str | None
    time_s: float | None
    reason: str


class DecisionFilter:
    """Remembers what was written last of each subject: `latest`, by subject.

    What is decided again, differently, is written after `again_after_s` at the earliest.
    """

    def __init__(self, *, again_after_s: float = 0.0) -> None:
        self.latest: dict[str, DecisionRecord] = {}
        self._again_after_s = again_after_s
        self._known: dict[str, tuple[DecisionRecord, ...]] = {}

    def of(self, decisions: Iterable[DecisionRecord], alive: Collection[str]) -> tuple[DecisionRecord, ...]:
        """Return the decisions that are new; subjects that are not `alive` any more are forgotten.

        A subject may have several decisions in one cycle: each is compared with all of the cycle before.
        """
        new: list[DecisionRecord] = []
        known: dict[str, tuple[DecisionRecord, ...]] = {}
        for each in decisions:
            before = next((one for one in self._known.get(each.subject, ()) if self._is_same(one, each)), None)
            if before is None:
                new.append(each)
            known[each.subject] = (*known.get(each.subject, ()), before or each)
        self._known = _keep_alive(self._known | known, alive)
        self.latest = _keep_alive(self.latest | {each.subject: each for each in new}, alive)
        return tuple(new)

    def _is_same(self, before: DecisionRecord, now: DecisionRecord) -> bool:
        if before.decided == now.decided and now.at_unix_s - before.at_unix_s < self._again_after_s:
            return True
        was, essence = _essence(before), _essence(now)
        if was.time_s is None or essence.time_s is None or was.decided != essence.decided:
            return was == essence
        return was.beside == essence.beside and abs(was.time_s - essence.time_s) < SAME_TIME_S


def _essence(decision: DecisionRecord) -> _Essence:
    inputs = dict(decision.inputs)
    time_s = next((value for name in TIME_INPUTS if isinstance(value := inputs.get(name), float)), None)
    beside = inputs.get("beside")
    # Behind the semicolon stands until when, which moves on with the clock.
    reason = decision.reason.partition(";")[0] if time_s is None and beside is None else ""
    return _Essence(decision.decided, beside, time_s, reason)


def _keep_alive(by_subject: dict[str, Item], alive: Collection[str]) -> dict[str, Item]:
    return {subject: each for subject, each in by_subject.items() if subject in alive}
