"""The expected waits that the agent reports to brokers and subtracts from permitted delays.

They are simulated in another process. Nothing waits for a simulation for long: until it ends, the result before it
counts.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping

from offpeak.errors import OffpeakError
from offpeak.model.constants import MINUTE_S, WEEK_S
from plugin.federation.site_report import NO_WAITS, PartitionTerms
from plugin.federation.site_waits import wait_on_pools
from plugin.scheduler.job import Job
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from power.live.wait_process import simulate_apart
from services.agent.loop import LOG

EVERY_S = 10 * MINUTE_S
"""The least time between two simulations for the queue, which takes waits up to three times as old."""


class WaitForecast:
    """Keeps the `latest` expected waits, simulated from the scheduler's view at `at_s`, -1 before the first.

    After a simulation that failed no wait is known.
    """

    def __init__(self) -> None:
        self.latest, self.at_s = NO_WAITS, -1
        self._terms: tuple[PartitionTerms, ...] = ()
        self._simulation: asyncio.Task[None] | None = None

    def begin(self, view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> None:
        """Begin a simulation of a new view, unless one is running."""
        if self._simulation is None and self.at_s != view.at_s:
            self._simulation = asyncio.create_task(self._simulate(view, traits, run_s))

    async def finish(self, *, patience_s: float) -> None:
        """Wait for the running simulation for that time at most."""
        if self._simulation is not None:
            await asyncio.wait({self._simulation}, timeout=patience_s)

    async def _simulate(self, view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> None:
        try:
            self.latest = await simulate_apart(view, traits, run_s)
            self._terms = partition_terms(traits)
        except OffpeakError as problem:
            self.latest = NO_WAITS
            LOG.warning("waits are not known: %s", problem)
        finally:
            self.at_s, self._simulation = view.at_s, None

    def is_due(self, now_s: int) -> bool:
        """Whether the queue needs a new simulation."""
        return now_s - self.at_s >= EVERY_S

    def of_jobs(self, jobs: Iterable[Job], now_s: int) -> dict[str, int]:
        """Return the expected wait of each job, by its own request; none without recent waits or if it fits no node."""
        if now_s - self.at_s > 3 * EVERY_S or not self.latest.pools:
            return {}
        found = {}
        for job in jobs:
            if job.request is None:
                continue
            wait_s = wait_on_pools(self.latest.pools, self._terms, job.request, job.limit_s or WEEK_S).wait_s
            if math.isfinite(wait_s):
                found[job.job_id] = int(wait_s)
        return found


def partition_terms(traits: SchedulerTraits) -> tuple[PartitionTerms, ...]:
    """Return what the partitions admit, as the report to brokers has it."""
    return tuple(
        PartitionTerms(each.name, each.is_default, each.most_nodes, each.limit_s) for each in traits.partitions
    )
