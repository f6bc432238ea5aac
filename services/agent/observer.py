"""The state of the scheduler, read once for all loops that need it at the same moment."""

import asyncio
import time
from collections.abc import Callable

from offpeak.errors import SchedulerError
from plugin.scheduler.port import Scheduler, SchedulerTraits, SchedulerView
from services.agent.loop import ProblemLog

TRAITS_LAST_S = 600.0
"""How a scheduler is configured changes rarely."""
SCHEDULER = "scheduler"
"""What the log calls it."""


class Observer:
    """Asks a scheduler. `latest` is its last answer, None before there was one; `traits` are known with it.

    `problem` says why it could not be read the last time, and what to do; None where it could.
    """

    def __init__(
        self, scheduler: Scheduler, problem_log: ProblemLog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._scheduler, self._problem_log, self._clock = scheduler, problem_log, clock
        self._turn = asyncio.Lock()
        self._asked_s = self._changed_s = float("-inf")
        self._partitions: dict[str, tuple[str, ...]] = {}
        self._traits_asked_s = float("-inf")
        self.latest: SchedulerView | None = None
        self.traits: SchedulerTraits | None = None
        self.problem: str | None = None

    async def view(self, *, at_most_s: float) -> SchedulerView | None:
        """Return an answer that was begun at most so long ago, None if there is none: said in the log on change."""
        async with self._turn:
            fresh = self._clock() - self._asked_s <= at_most_s and self._asked_s > self._changed_s
            if self.latest is not None and fresh:
                return self.latest
            asked_s = self._clock()
            try:
                await self._ask_traits()
                self.latest = await asyncio.to_thread(self._scheduler.view)
            except SchedulerError as problem:
                self.problem = f"{problem}; {problem.hint}"
                self._problem_log.report(SCHEDULER, self.problem)
                return None
            self.problem = None
            self._problem_log.report(SCHEDULER, None)
            self._asked_s = asked_s
            self._partitions = {node.name: node.partitions for node in self.latest.nodes}
            return self.latest

    def forget(self) -> None:
        """Ask anew the next time, however soon: something was changed there. An answer on its way is too old."""
        self._changed_s = self._clock()

    async def _ask_traits(self) -> None:
        if self._clock() - self._traits_asked_s > TRAITS_LAST_S:
            self.traits = await asyncio.to_thread(self._scheduler.traits)
            self._traits_asked_s = self._clock()
            problems = "; ".join(f"{what}; {hint}" for what, hint in self.traits.problems)
            self._problem_log.report("scheduler's settings", problems or None)

    @property
    def status(self) -> str:
        """How the agent is, in one line: nothing is well before the scheduler has been read."""
        others = [each for each in self._problem_log.problems if not each.startswith(f"{SCHEDULER}: ")]
        if self.problem is not None:
            return "; ".join([f"cannot read the scheduler: {self.problem}", *others])
        if self.latest is None:
            return "; ".join(["starting: nothing read yet", *others])
        return self._problem_log.summary

    def partitions_of_node(self, node: str) -> tuple[str, ...]:
        """Return the partitions of a node by the latest answer; none of one that is not known."""
        return self._partitions.get(node, ())
