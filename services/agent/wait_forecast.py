"""The expected waits that the agent reports to brokers and subtracts from permitted delays, and their recent errors.

Waits are simulated in another process. Nothing waits for a simulation for long: until it ends, the result before it
counts. From the jobs that start the agent learns how far the waits were off.
"""

import asyncio
import json
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.model.constants import MINUTE_S, WEEK_S
from offpeak.model.request import Request
from offpeak.plugin.federation.site_report import NO_WAITS, PartitionTerms, wait_on_pools
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import SchedulerTraits, SchedulerView
from offpeak.power.engine_process import simulate_apart
from offpeak.predictors.waits.questions import wait_errors
from offpeak.services.accounts.ended_jobs import RUNS, has_run
from offpeak.services.agent.loop import LOG

ASKED_EVERY_S = MINUTE_S
"""The least time between two simulations for users who ask about their jobs."""
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

    def known_starts(self, now_s: int) -> Mapping[str, int]:
        """Return the expected starts of waiting jobs by the latest simulation [Unix s], none by an old one."""
        return self.latest.starts_s if self.is_known(now_s) else {}

    def is_known(self, now_s: int) -> bool:
        """Whether there is a result that still counts."""
        return now_s - self.at_s <= 3 * EVERY_S and bool(self.latest.total.wait_s)

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
        except (OffpeakError, OSError) as problem:
            self.latest = NO_WAITS
            LOG.warning("waits are not known: %s", problem)
        finally:
            self.at_s, self._simulation = view.at_s, None

    def is_due(self, now_s: int, every_s: int = EVERY_S) -> bool:
        """Whether the queue needs a new simulation."""
        return now_s - self.at_s >= every_s

    def of_jobs(self, jobs: Iterable[Job], now_s: int) -> dict[str, int]:
        """Return the expected wait of each job, by its own request; none without recent waits or if it fits no node."""
        if now_s - self.at_s > 3 * EVERY_S or not self.latest.pools:
            return {}
        found: dict[str, int] = {}
        # Thousands of jobs have few different requests, and a wait takes up to a millisecond.
        alike: dict[tuple[Request, int], float] = {}
        for job in jobs:
            if job.request is None:
                continue
            key = job.request, job.limit_s or WEEK_S
            if key not in alike:
                alike[key] = wait_on_pools(self.latest.pools, self._terms, *key).wait_s
            if math.isfinite(alike[key]):
                found[job.job_id] = int(alike[key])
        return found


def partition_terms(traits: SchedulerTraits) -> tuple[PartitionTerms, ...]:
    """Return what the partitions admit, as the report to brokers has it."""
    return tuple(
        PartitionTerms(each.name, each.is_default, each.most_nodes, each.limit_s) for each in traits.partitions
    )


class Progress(NamedTuple):
    """The jobs and arrays of a view by their numbers: the first runs, those that lack only nodes, and all others."""

    at_s: int
    started: dict[str, Job]
    waiting: dict[str, Job]
    blocked: set[str]


def find_progress(jobs: Iterable[Job], at_s: int) -> Progress:
    """Return the progress of the jobs. An array may have several."""
    found = Progress(at_s, {}, {}, set())
    for job in jobs:
        key = job.array_id or job.job_id
        if job.reason == "BeginTime" and job.begin_s and job.begin_s <= at_s:
            # Slurm keeps the reason until it looks at the job again, and may start it then.
            job = job._replace(reason="")
        if has_run(job) and (job.state in RUNS or job.state is JobState.ENDED):
            found.started[key] = min(found.started.get(key, job), job, key=lambda each: each.start_s or 0)
        elif job.state is JobState.STARTS or job.is_waiting(at_s):
            found.waiting[key] = job
        else:
            found.blocked.add(key)
    return found


MEMORY_NAME = "errors of expected waits"
"""The name of the errors in the ledger."""
SAVE_EVERY_S = 15.0 * MINUTE_S
LONGEST_GAP_S = 10 * MINUTE_S
"""After a longer time without a view the waits of the jobs in the queue are not known."""


class WaitHistory:
    """Compares the expected wait of each job when it becomes able to start with its start, and keeps the errors.

    A job that is held, delayed or limited in between counts from the moment at which it can start again.
    """

    def __init__(self, forecast: WaitForecast, ledger: Ledger) -> None:
        self.forecast, self._ledger = forecast, ledger
        self._errors = wait_errors()
        self._before: Progress | None = None
        self._open: dict[str, tuple[int, int]] = {}
        self._saved_s = time.monotonic()

    def quantile_s(self, expected_s: int, percent: int) -> int:
        """Return the wait that this percentage of jobs with the expected wait do not exceed, by recent errors."""
        return max(0, math.ceil(self._errors.quantile(expected_s, percent / 100)))

    def observe(self, jobs: Iterable[Job], at_s: int) -> None:
        """Learn from the jobs that have started since the last call, and note the expected waits of those that came."""
        before, now = self._before, find_progress(jobs, at_s)
        is_recent = before is not None and 0 <= at_s - before.at_s <= LONGEST_GAP_S
        known = self._open | self._expect(before, now) if before and is_recent else {}
        for key in known.keys() & now.started.keys():
            since_s, expected_s = known[key]
            self._errors.add(expected_s, max(0, (now.started[key].start_s or 0) - since_s))
        self._before = now
        self._open = {key: known[key] for key in known.keys() & (now.waiting.keys() - now.started.keys())}
        if time.monotonic() - self._saved_s >= SAVE_EVERY_S:
            self.save()

    def _expect(self, before: Progress, now: Progress) -> dict[str, tuple[int, int]]:
        """Return since when more jobs could start, and their waits, if the simulation is too old to count them."""
        came: dict[str, tuple[int, Job]] = {}
        for key, job in (now.waiting | now.started).items():
            since_s = max(job.submit_s, job.begin_s or 0)
            if since_s < before.at_s and key in before.blocked and key not in now.started:
                since_s = now.at_s
            is_new = key not in before.waiting and key not in before.started
            if is_new and since_s >= before.at_s and since_s > self.forecast.at_s:
                came[key] = since_s, job
        wait_s = self.forecast.of_jobs((job for _, job in came.values()), now.at_s)
        return {key: (since_s, wait_s[job.job_id]) for key, (since_s, job) in came.items() if job.job_id in wait_s}

    def load(self) -> None:
        """Take over the errors of an earlier run before the first view; those of another version do not count.

        It waits for the ledger. Raises CannotWrite or BadLedger.
        """
        if self._before is not None:
            return
        text, errors = self._ledger.remembered(MEMORY_NAME), wait_errors()
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            errors.restore({name: np.array(values) for name, values in json.loads(text or "{}").items()})
            self._errors = errors

    def save(self) -> None:
        """Write the errors to the ledger, once they were loaded and a view has come."""
        self._saved_s = time.monotonic()
        if self._before is not None:
            state = {name: np.round(values, 4).tolist() for name, values in self._errors.state().items()}
            self._ledger.remember(MEMORY_NAME, json.dumps(state, separators=(",", ":")))
