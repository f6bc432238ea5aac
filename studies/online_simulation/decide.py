"""OLS made otherwise: it knows other run times than the scheduler, or judges the queued jobs alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.snapshot import Snapshot
from plugin.capacity.port import CapacityPolicy, CapacityTargets, TargetFunction
from power.capacity.online_simulation import list_offers
from power.whatif.simulation import WhatIfPlan, simulate_units
from studies.online_simulation.experiment import AS_SCHEDULER, QUEUED_JOBS, Setup

Asked = tuple[int, int, int]
"""Submit time [s], size and estimate [s]: how a snapshot's job is found again."""


@dataclass(frozen=True)
class KnowsOtherwise:
    """Lets `decide` see other run times [s] than the scheduler goes by.

    Jobs that were submitted in one second with one size and one estimate are taken for each other.
    """

    decide: TargetFunction
    runtime_s: Mapping[Asked, int]

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return what `decide` makes of the snapshot with these run times."""
        running, queued = snapshot.running, snapshot.queued
        expected_s = self._runtime_s(running.submit_s, running.size, running.expected_end_s - running.start_s)
        known = replace(
            snapshot,
            running=replace(running, expected_end_s=running.start_s + expected_s),
            queued=replace(queued, estimate_s=self._runtime_s(queued.submit_s, queued.size, queued.estimate_s)),
        )
        return self.decide(known)

    def _runtime_s(self, *columns: Int64) -> Int64:
        asked = zip(*(column.tolist() for column in columns), strict=True)
        return np.array([self.runtime_s[each] for each in asked], dtype=np.int64)


@dataclass(frozen=True)
class JudgesQueued:
    """OLS that keeps to the mean slowdown of the queued jobs; those that run, and waited little, do not count."""

    sla: float

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the first number of nodes tried that keeps the SLA, else all."""
        running = len(snapshot.running.size)
        tried = list_offers(snapshot)
        kept = (
            units for units in tried if self._slowdown(snapshot, simulate_units(snapshot, units), running) <= self.sla
        )
        return CapacityTargets(next(kept, tried[-1]) // snapshot.units_per_node)

    def _slowdown(self, snapshot: Snapshot, plan: WhatIfPlan, running: int) -> float:
        if not len(snapshot.queued.size):
            return 1.0
        start_s, end_s = plan.start_s[running:], plan.end_s[running:]
        return float(bounded_slowdown_by_delay(start_s - snapshot.queued.submit_s, end_s - start_s).mean())


def deciding(capacity: CapacityPolicy, setup: Setup, jobs: Jobs, sla: float) -> CapacityPolicy:
    """Return the policy with what the setup changes of its decisions; one that decides nothing stays as it is."""
    decide = capacity.decide
    if decide is None:
        return capacity
    if setup.judged == QUEUED_JOBS:
        decide = JudgesQueued(sla)
    if setup.what_if != AS_SCHEDULER:
        decide = KnowsOtherwise(decide, known_otherwise(jobs, setup))
    return replace(capacity, decide=decide)


def known_otherwise(jobs: Jobs, setup: Setup) -> dict[Asked, int]:
    """Return what OLS knows of each job's run time [s], by what the scheduler knows: users' estimates or exact ones."""
    columns = {"exact": jobs.runtime_s, "user": jobs.estimate_s}
    asked = zip(jobs.submit_s.tolist(), jobs.size.tolist(), columns[setup.estimates].tolist(), strict=True)
    return dict(zip(asked, columns[setup.what_if].tolist(), strict=True))
