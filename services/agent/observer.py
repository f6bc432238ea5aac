"""The observation of the cluster: scheduler, nodes and prices, for the loops of the agent and for single commands.

The agent reads the scheduler once for all loops that need it at the same moment.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from offpeak.errors import SchedulerError
from plugin.scheduler.port import Scheduler, SchedulerTraits, SchedulerView
from predictors.price_curve import PriceCurve
from services.agent.feed_loops import PriceSection, read_prices
from services.agent.loop import ProblemLog

TRAITS_LAST_S = 600.0
"""The configuration of a scheduler changes rarely."""
SCHEDULER = "scheduler"
"""The subject of its problems in the log."""
SAME_MOMENT_S = 1.0
"""Loops that read the scheduler within this time get the same view."""


@dataclass(frozen=True)
class ClusterObservation:
    """The cluster at one moment: jobs and nodes of the scheduler, its traits, and the prices, None if not known."""

    view: SchedulerView
    traits: SchedulerTraits
    prices: PriceCurve | None


def observe_cluster(scheduler: Scheduler, prices: PriceSection) -> ClusterObservation:
    """Observe the cluster once, without an agent. SchedulerError. It waits for the scheduler and for the prices."""
    traits, view = scheduler.traits(), scheduler.view()
    return ClusterObservation(view, traits, read_prices(prices, now_s=view.at_s))


class Observer:
    """Reads a scheduler. `latest` is its last view, None before the first one; `traits` are known with it.

    `problem` says why the last reading failed, and what to do; None if it succeeded.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        problem_log: ProblemLog,
        clock: Callable[[], float] = time.monotonic,
        *,
        prices: Callable[[], PriceCurve | None] = lambda: None,
    ) -> None:
        self._problem_log, self._clock, self._prices = problem_log, clock, prices
        self._turn = asyncio.Lock()
        self.use(scheduler)

    def use(self, scheduler: Scheduler) -> None:
        """Read another scheduler from now on, and forget the one before."""
        self._scheduler = scheduler
        self._requested_s = self._changed_s = self._traits_requested_s = float("-inf")
        self._partitions: dict[str, tuple[str, ...]] = {}
        self.latest: SchedulerView | None = None
        self.traits: SchedulerTraits | None = None
        self.problem: str | None = None

    async def observe(self, *, at_most_s: float = SAME_MOMENT_S) -> ClusterObservation | None:
        """Return the cluster with a view of at most that age, None if the scheduler cannot be read."""
        view = await self.view(at_most_s=at_most_s)
        return None if view is None or self.traits is None else ClusterObservation(view, self.traits, self._prices())

    async def view(self, *, at_most_s: float) -> SchedulerView | None:
        """Return a view that was requested at most so long ago, None if the scheduler cannot be read."""
        async with self._turn:
            fresh = self._clock() - self._requested_s <= at_most_s and self._requested_s > self._changed_s
            if self.latest is not None and fresh:
                return self.latest
            requested_s = self._clock()
            try:
                await self._read_traits()
                self.latest = await asyncio.to_thread(self._scheduler.view)
            except SchedulerError as problem:
                self.problem = f"{problem}; {problem.hint}"
                self._problem_log.report(SCHEDULER, self.problem)
                return None
            self.problem = None
            self._problem_log.report(SCHEDULER, None)
            self._requested_s = requested_s
            self._partitions = {node.name: node.partitions for node in self.latest.nodes}
            return self.latest

    def forget(self) -> None:
        """Read the scheduler anew the next time, because it was changed. A view that is being read is too old."""
        self._changed_s = self._clock()

    async def _read_traits(self) -> None:
        if self._clock() - self._traits_requested_s > TRAITS_LAST_S:
            self.traits = await asyncio.to_thread(self._scheduler.traits)
            self._traits_requested_s = self._clock()
            problems = "; ".join(f"{what}; {hint}" for what, hint in self.traits.problems)
            self._problem_log.report("scheduler's settings", problems or None)

    @property
    def status(self) -> str:
        """The state of the agent in one line; it is not well before the scheduler has been read."""
        others = [problem for problem in self._problem_log.problems if not problem.startswith(f"{SCHEDULER}: ")]
        if self.problem is not None:
            return "; ".join([f"cannot read the scheduler: {self.problem}", *others])
        if self.latest is None:
            return "; ".join(["starting: nothing read yet", *others])
        return self._problem_log.summary

    def partitions_of_node(self, node: str) -> tuple[str, ...]:
        """Return the partitions of a node in the latest view; none if the node is not known."""
        return self._partitions.get(node, ())
