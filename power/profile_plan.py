"""What if a profile were offered? The engine whose nodes sleep, run on from a snapshot, and charged by the prices.

Jobs run as in power.what_if. While fewer units are on offer than are usable, jobs with a green SLA stand behind all
others, but for those that would then end too late.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.snapshot import Snapshot
from power.power_terms import PowerTerms
from power.price_profile import PricesAhead, Profile
from power.profile_cost import energy_and_cost
from power.profile_run import run
from power.resumed_machine import Machine, resumed_machine
from power.what_if import Plan, plan_of


@dataclass(frozen=True, eq=False)
class ProfilePlan:
    """What the engine makes of a snapshot under a profile; start and end as in power.what_if.Plan.

    `slowdown` is the mean over the jobs without a green SLA, 1 where there are none, `mean_wait_s` that over all jobs.
    `late_s` is by how much each queued job ends after its latest end. `cost` is in the prices' currency.
    """

    profile: Profile
    start_s: Int64
    end_s: Int64
    slowdown: float
    mean_wait_s: float
    late_s: Int64
    energy_j: float
    cost: float


def simulate_profile(snapshot: Snapshot, profile: Profile, prices: PricesAhead, terms: PowerTerms) -> ProfilePlan:
    """Return how the jobs of the snapshot would run under the profile, and what the machine would cost.

    BadInput where a job is wider than what is usable.
    """
    return ProfileSimulation(snapshot, prices, terms).plan(profile)


@dataclass(frozen=True, eq=False)
class ProfileSimulation:
    """Simulates profiles of one snapshot; what they have in common is prepared once."""

    snapshot: Snapshot
    prices: PricesAhead
    terms: PowerTerms

    def plan(self, profile: Profile) -> ProfilePlan:
        """Return the plan of a profile. BadInput where a job is wider than what is usable."""
        green = self.snapshot.queued.is_green
        if not green.any() or (profile.units >= self.snapshot.usable_units).all():
            return self._plan(profile, self._in_order)
        plan = self._plan(profile, self._green_behind)
        if plan.late_s.any():
            plan = self._plan(profile, self._queue(green & (plan.late_s == 0)))
        return self._plan(profile, self._in_order) if plan.late_s.any() else plan

    @cached_property
    def _in_order(self) -> "_Queue":
        return self._queue(np.zeros(len(self.snapshot.queued.size), dtype=np.bool_))

    @cached_property
    def _green_behind(self) -> "_Queue":
        return self._queue(self.snapshot.queued.is_green)

    def _queue(self, behind: NDArray[np.bool_]) -> "_Queue":
        """Return the queue in which these jobs stand behind the others, those that must start first in front."""
        queued = self.snapshot.queued
        latest_start_s = np.where(behind, queued.latest_end_s - queued.estimate_s, 0)
        order: Int64 = np.lexsort((latest_start_s, behind))
        return _Queue(order, resumed_machine(self.snapshot, order, self.terms))

    def _plan(self, profile: Profile, queue: "_Queue") -> ProfilePlan:
        snapshot = self.snapshot
        start_s, log = run(snapshot, profile, queue.machine, self.terms)
        queued_start_s = np.empty(len(queue.order), dtype=np.int64)
        queued_start_s[queue.order] = start_s
        plan = plan_of(snapshot, snapshot.usable_units, queued_start_s)
        energy_j, cost = energy_and_cost(snapshot, plan, log, self.prices, self.terms)
        return ProfilePlan(
            profile=profile,
            start_s=plan.start_s,
            end_s=plan.end_s,
            slowdown=_slowdown(snapshot, plan),
            mean_wait_s=plan.mean_wait_s,
            late_s=np.maximum(plan.end_s[len(snapshot.running.size) :] - snapshot.queued.latest_end_s, 0),
            energy_j=energy_j,
            cost=cost,
        )


@dataclass(frozen=True, eq=False)
class _Queue:
    """An order of the queued jobs, and the machine that they wait for in it."""

    order: Int64
    machine: Machine


def _slowdown(snapshot: Snapshot, plan: Plan) -> float:
    green = snapshot.queued.is_green
    if not green.any():
        return plan.slowdown
    bound = np.append(np.ones(len(snapshot.running.size), dtype=np.bool_), ~green)
    if not bound.any():
        return 1.0
    wait_s = plan.start_s - np.concatenate([snapshot.running.submit_s, snapshot.queued.submit_s])
    return float(bounded_slowdown_by_delay(wait_s, plan.end_s - plan.start_s)[bound].mean())
