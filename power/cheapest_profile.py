"""The cheapest profile, of those tried, under which the known jobs keep a slowdown SLA and their latest ends.

Only intervals dearer than the mean ahead are capped. First the dearest of them, all or fewer, at the lowest of a few
levels that is good enough; then from the cheapest of these profiles down, interval by interval, a level at a time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.snapshot import Snapshot
from offpeak.settings.capacity import DEFAULT_SLA
from power.online_simulation import check_sla
from power.power_terms import PowerTerms
from power.price_profile import PricesAhead, Profile, everything, fewest_units
from power.profile_plan import ProfilePlan, ProfileSimulation

MOST_PLANS = 16
LEVELS = 4
"""From what running jobs hold to everything a cap can take so many steps."""

SHARES = (1.0, 0.5, 0.25)
"""Of the dear intervals so many are capped at first, the dearest."""

SAME_COST = 1e-9
"""Of a plan's cost: a smaller difference is rounding."""


@dataclass(frozen=True, eq=False)
class ProfileDecision:
    """`plan` was chosen; `uncapped` has everything on offer all the time. `plans` were simulated to find it."""

    sla: float
    plan: ProfilePlan
    uncapped: ProfilePlan
    plans: int


def cheapest_profile(
    snapshot: Snapshot,
    prices: PricesAhead,
    terms: PowerTerms,
    *,
    sla: float = DEFAULT_SLA,
    most_plans: int = MOST_PLANS,
) -> ProfileDecision:
    """Return the cheapest good profile of up to `most_plans` that are simulated, everything on offer the first.

    Good is a mean slowdown of at most `sla`, of the jobs without a green SLA, and no green job later than its latest
    end or than with everything on offer. BadInput for an SLA below 1, and where a job is wider than what is usable.
    """
    check_sla(sla)
    found = list(islice(best_so_far(ProfileSimulation(snapshot, prices, terms), sla), most_plans))
    return ProfileDecision(sla, found[-1], found[0], len(found))


def best_so_far(simulation: ProfileSimulation, sla: float) -> Iterator[ProfilePlan]:
    """Yield the cheapest good plan so far after each that is simulated: everything on offer first, good or not."""
    best = uncapped = simulation.plan(everything(simulation.snapshot, simulation.prices))
    yield best
    if uncapped.slowdown > sla:
        return
    prices = simulation.prices
    dearest = np.argsort(-prices.per_mwh, kind="stable")[: int(prices.is_dear.sum())]
    search = _Search(simulation, sla, uncapped, dearest, _steps(simulation))
    for best in search.caps():
        yield best
    yield from search.lower(best)


@dataclass(frozen=True, eq=False)
class _Search:
    """What the search starts from: the dear intervals, dearest first, and what each can be capped at, rising."""

    simulation: ProfileSimulation
    sla: float
    uncapped: ProfilePlan
    dearest: Int64
    steps: Int64

    def caps(self) -> Iterator[ProfilePlan]:
        """Cap the dearest intervals, all or fewer, at the lowest step that is good enough."""
        best = self.uncapped
        counts = {math.ceil(share * len(self.dearest)) for share in SHARES} - {0}
        for count in sorted(counts, reverse=True):
            for units in self.steps:
                plan = self.simulation.plan(_capped(self.uncapped.profile, self.dearest[:count], units))
                best = self.better(best, plan)
                yield best
                if self.is_good(plan):
                    break

    def lower(self, best: ProfilePlan) -> Iterator[ProfilePlan]:
        """Lower one interval after the other by a step, the dearest first, until that helps nowhere."""
        before = None
        while best is not before:
            before = best
            for interval in self.dearest:
                units = best.profile.units[interval]
                if units <= self.steps[0, interval]:
                    continue
                step = np.searchsorted(self.steps[:, interval], units) - 1
                plan = self.simulation.plan(_capped(best.profile, np.array([interval]), self.steps[step]))
                best = self.better(best, plan)
                yield best

    def better(self, best: ProfilePlan, plan: ProfilePlan) -> ProfilePlan:
        """Return the cheaper of the best plan and another, if that is good."""
        is_cheaper = plan.cost < best.cost - SAME_COST * abs(best.cost)
        return plan if is_cheaper and self.is_good(plan) else best

    def is_good(self, plan: ProfilePlan) -> bool:
        """Say whether the plan keeps what has to be kept."""
        return plan.slowdown <= self.sla and bool((plan.late_s <= self.uncapped.late_s).all())


def _steps(simulation: ProfileSimulation) -> Int64:
    """Return the units that each interval can be capped at, int64[LEVELS, intervals], rising, in whole nodes."""
    snapshot = simulation.snapshot
    fewest, per_node = fewest_units(snapshot, simulation.prices), snapshot.units_per_node
    nodes = (snapshot.usable_units - fewest) // per_node
    steps: Int64 = fewest + nodes * np.arange(LEVELS)[:, None] // LEVELS * per_node
    return steps


def _capped(profile: Profile, intervals: Int64, units: Int64) -> Profile:
    """Return the profile with `units[i]` on offer in each of the intervals."""
    changed = profile.units.copy()
    changed[intervals] = units[intervals]
    return Profile(profile.at_s, changed, profile.until_s)
