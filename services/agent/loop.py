"""The loops of the agent: their port, the runner of their rounds, the log of problems, and the filter of decisions.

If a round of a loop fails, the runner logs the error and goes on with the next round. The log gets a line when
something changes, not one for each cycle. The ledger gets only the decisions that differ from the last ones of the
same subject.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from offpeak.errors import OffpeakError
from offpeak.ledger.rows import DecisionRecord
from offpeak.model.clock import Clock
from offpeak.power.drivers.poll import ReportedProblem, limit_repeats

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
        return tuple(f"{about}: {reported.problem}" for about, reported in self._reported.items() if reported)


LEAST_PAUSE_S = 0.05
STUCK_S = 600.0
"""A round that takes longer than this, and ten periods, hangs."""


class Loop(ABC):
    """A part of the agent that does its work once in a period.

    `fetches`: a round only reads from elsewhere, so that it may be cancelled at any time. Two rounds are at least
    `least_pause_s` real seconds apart, where the clock runs faster.
    """

    name: str
    fetches = False
    least_pause_s = 0.0

    @property
    @abstractmethod
    def period_s(self) -> float:
        """The time from the begin of a round to the begin of the next one, on the site's clock."""

    @abstractmethod
    async def round(self) -> None:
        """Do the work once. Raises OffpeakError if it cannot be done now."""


class CallLoop(Loop):
    """Makes one call in each round; one that `fetches` at most once in `least_pause_s`."""

    period_s = 0.0

    def __init__(
        self, name: str, call: Callable[[], Awaitable[object]], *, period_s: float, least_pause_s: float | None = None
    ) -> None:
        self.name, self._call, self.period_s = name, call, period_s
        self.fetches, self.least_pause_s = least_pause_s is not None, least_pause_s or 0.0

    async def round(self) -> None:
        """Make the call."""
        await self._call()


class LoopRunner:
    """Runs the rounds of a loop, one each period, and sooner when `hurry` is called.

    `ended_s` is when the last round ended (monotonic), `count` is the number of rounds that have ended. A task that
    holds `turn` keeps the next round from beginning.
    """

    def __init__(self, loop: Loop, problem_log: ProblemLog, clock: Clock) -> None:
        self.loop, self._problem_log, self._clock = loop, problem_log, clock
        self._trigger = asyncio.Event()
        self._under_way: asyncio.Task[None] | None = None
        self.turn = asyncio.Lock()
        self.ended_s, self.count = time.monotonic(), 0
        # The loop itself reports problems under its name.
        self._about = f"round of {loop.name}"

    @property
    def name(self) -> str:
        """The name of the loop."""
        return self.loop.name

    @property
    def period_s(self) -> float:
        """The period of the loop in real seconds."""
        return max(self.loop.least_pause_s, self.loop.period_s / self._clock.factor)

    @property
    def left_s(self) -> float:
        """The real seconds until the present round counts as stuck; below 0 it does."""
        return (self.ended_s + STUCK_S + 10 * self.period_s) - time.monotonic()

    def trigger(self) -> None:
        """Begin the next round at once."""
        self._trigger.set()

    async def run(self) -> None:
        """Run rounds until cancelled."""
        while True:
            begun_s = time.monotonic()
            self._trigger.clear()
            await self.once()
            await self._pause(max(LEAST_PAUSE_S, begun_s + self.period_s - time.monotonic()))

    async def once(self) -> None:
        """Run one round, and log its error if it fails."""
        async with self.turn:
            self._under_way = asyncio.create_task(self._once(), name=self.name)
            try:
                await self._under_way
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # Only the round was cancelled.
                self.ended_s = time.monotonic()

    def break_off(self) -> None:
        """Cancel the present round, if there is one."""
        if self._under_way is not None:
            self._under_way.cancel()

    async def _once(self) -> None:
        try:
            await self.loop.round()
        except OffpeakError as problem:
            self._problem_log.report(self._about, f"{problem}; {problem.hint}")
        except Exception as problem:
            text = f"a fault in the program: {type(problem).__name__}: {problem}"
            self._problem_log.report(self._about, text, fault=problem)
        else:
            self._problem_log.report(self._about, None)
        self.ended_s = time.monotonic()
        self.count += 1

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._trigger.wait()
        except TimeoutError:
            return


TIME_INPUTS = ("begin_s", "planned_start_s")
"""Inputs with the time for which something is decided. A forecast moves them a little in each cycle."""
SAME_TIME_S = 900
"""A time that moves by less makes no new decision."""

Item = TypeVar("Item")


class DecisionFilter:
    """Passes the decisions that differ from the last ones of the same subject; `latest` has the last one by subject.

    A different decision on the same subject passes after `again_after_s` at the earliest.
    """

    def __init__(self, *, again_after_s: float = 0.0) -> None:
        self.latest: dict[str, DecisionRecord] = {}
        self._again_after_s = again_after_s
        self._known: dict[str, tuple[DecisionRecord, ...]] = {}

    def of(self, decisions: Iterable[DecisionRecord], alive: Collection[str]) -> tuple[DecisionRecord, ...]:
        """Return the new decisions, and forget subjects that are not in `alive`.

        A subject may have several decisions in one cycle: each is compared with all of the cycle before.
        """
        new: list[DecisionRecord] = []
        known: dict[str, tuple[DecisionRecord, ...]] = {}
        for decision in decisions:
            subject = decision.subject
            before = next((old for old in self._known.get(subject, ()) if self._is_same(old, decision)), None)
            if before is None:
                new.append(decision)
            known[subject] = (*known.get(subject, ()), before or decision)
        self._known = _keep_alive(self._known | known, alive)
        self.latest = _keep_alive(self.latest | {decision.subject: decision for decision in new}, alive)
        return tuple(new)

    def _is_same(self, before: DecisionRecord, now: DecisionRecord) -> bool:
        if before.decided == now.decided and now.at_unix_s - before.at_unix_s < self._again_after_s:
            return True
        (old_s, *old), (new_s, *new) = _content(before), _content(now)
        if old_s is not None and new_s is not None:
            is_same = old == new and abs(old_s - new_s) < SAME_TIME_S
        else:
            is_same = old_s is new_s and old == new
        return is_same and before.decided == now.decided


def _content(decision: DecisionRecord) -> tuple[float | None, float | str | None, str]:
    """Return the time for which something is decided, what stands beside it, and the reason without moving figures."""
    inputs = dict(decision.inputs)
    time_s = next((value for name in TIME_INPUTS if isinstance(value := inputs.get(name), float)), None)
    beside = inputs.get("beside")
    # The text behind the semicolon names a time that moves on with the clock.
    reason = decision.reason.partition(";")[0] if time_s is None and beside is None else ""
    return time_s, beside, reason


def _keep_alive(by_subject: dict[str, Item], alive: Collection[str]) -> dict[str, Item]:
    return {subject: item for subject, item in by_subject.items() if subject in alive}
