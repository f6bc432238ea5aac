"""The cheapest profile, of those tried, with which jobs keep a slowdown SLA and their latest ends; and its policy.

Only intervals dearer than the mean ahead are capped. First the dearest of them, all or fewer, at the lowest of a few
levels that is good enough; then from the cheapest of these profiles down, interval by interval, a level at a time. The
policy plans anew each period and applies the present interval.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.snapshot import Snapshot
from offpeak.settings.capacity import DEFAULT_SLA, CapacitySettings
from plugin.capacity.policies import constant_schedule
from plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from power.capacity.online_simulation import DEFAULT_PERIOD, check_sla, parse_period_and_sla
from power.capacity.price_profile import (
    OfferProfile,
    PowerTerms,
    PricesAhead,
    find_fewest_units,
    find_prices_ahead,
    make_power_terms,
    offer_everything,
)
from power.capacity.profile_simulation import ProfilePlan, ProfileSimulation

MOST_PLANS = 16
CAP_LEVELS = 4
"""From what running jobs hold to everything a cap can take so many steps."""

CAPPED_SHARES = (1.0, 0.5, 0.25)
"""Of the dear intervals so many are capped at first, the dearest."""

COST_TOLERANCE = 1e-9
"""Of a plan's cost: a smaller difference is rounding."""


@dataclass(frozen=True, eq=False)
class ProfileDecision:
    """`plan` was chosen; `uncapped` has everything on offer all the time. `plans` were simulated to find it."""

    sla: float
    plan: ProfilePlan
    uncapped: ProfilePlan
    plans: int


def find_cheapest_profile(
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
    found = list(islice(search_profiles(ProfileSimulation(snapshot, prices, terms), sla), most_plans))
    return ProfileDecision(sla, found[-1], found[0], len(found))


def search_profiles(simulation: ProfileSimulation, sla: float) -> Iterator[ProfilePlan]:
    """Yield the cheapest good plan so far after each that is simulated: everything on offer first, good or not."""
    best = uncapped = simulation.plan(offer_everything(simulation.snapshot, simulation.prices))
    yield best
    if uncapped.slowdown > sla:
        return
    prices = simulation.prices
    dearest = np.argsort(-prices.per_mwh, kind="stable")[: int(prices.is_dear.sum())]
    search = _ProfileSearch(simulation, sla, uncapped, dearest, _list_cap_levels(simulation))
    for best in search.caps():
        yield best
    yield from search.lower(best)


@dataclass(frozen=True, eq=False)
class _ProfileSearch:
    """What the search starts from: the dear intervals, dearest first, and what each can be capped at, rising."""

    simulation: ProfileSimulation
    sla: float
    uncapped: ProfilePlan
    dearest: Int64
    steps: Int64

    def caps(self) -> Iterator[ProfilePlan]:
        """Cap the dearest intervals, all or fewer, at the lowest step that is good enough."""
        best = self.uncapped
        counts = {math.ceil(share * len(self.dearest)) for share in CAPPED_SHARES} - {0}
        for count in sorted(counts, reverse=True):
            for units in self.steps:
                plan = self.simulation.plan(_cap_profile(self.uncapped.profile, self.dearest[:count], units))
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
                plan = self.simulation.plan(_cap_profile(best.profile, np.array([interval]), self.steps[step]))
                best = self.better(best, plan)
                yield best

    def better(self, best: ProfilePlan, plan: ProfilePlan) -> ProfilePlan:
        """Return the cheaper of the best plan and another, if that is good."""
        is_cheaper = plan.cost < best.cost - COST_TOLERANCE * abs(best.cost)
        return plan if is_cheaper and self.is_good(plan) else best

    def is_good(self, plan: ProfilePlan) -> bool:
        """Say whether the plan keeps what has to be kept."""
        return plan.slowdown <= self.sla and bool((plan.late_s <= self.uncapped.late_s).all())


def _list_cap_levels(simulation: ProfileSimulation) -> Int64:
    """Return the units that each interval can be capped at, int64[LEVELS, intervals], rising, in whole nodes."""
    snapshot = simulation.snapshot
    fewest, per_node = find_fewest_units(snapshot, simulation.prices), snapshot.units_per_node
    nodes = (snapshot.usable_units - fewest) // per_node
    steps: Int64 = fewest + nodes * np.arange(CAP_LEVELS)[:, None] // CAP_LEVELS * per_node
    return steps


def _cap_profile(profile: OfferProfile, intervals: Int64, units: Int64) -> OfferProfile:
    """Return the profile with `units[i]` on offer in each of the intervals."""
    changed = profile.units.copy()
    changed[intervals] = units[intervals]
    return OfferProfile(profile.at_s, changed, profile.until_s)


@dataclass(frozen=True, eq=False)
class ProfilePolicy:
    """Decides by the cheapest profile of the coming day that keeps the SLA in the what-if."""

    fleet: Fleet
    terms: PowerTerms
    sla: float
    period_s: int

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the nodes that the profile offers in the interval in which the middle of the coming period lies."""
        prices = find_prices_ahead(self.fleet, snapshot.now_s)
        present = prices.interval_at(snapshot.now_s + self.period_s // 2)
        if not prices.is_dear[present]:
            return CapacityTargets(self.fleet.nodes)
        profile = find_cheapest_profile(snapshot, prices, self.terms, sla=self.sla).plan.profile
        awake = int(profile.units[present]) // snapshot.units_per_node
        why = f"{awake} nodes in a dear hour: {prices.per_mwh[present]:.0f} /MWh, {prices.mean:.0f} on average"
        return CapacityTargets(awake, why=why)


def make_profile_policy(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """Fewer nodes in dear hours, as the slowdown SLA allows in a simulation of the known jobs, planned each period.

    The argument is the period, and perhaps an SLA other than that of the settings: "1h", "1h:5". BadInput without
    prices.
    """
    if not len(fleet.price_at_s):
        raise BadInput("the capacity policy 'profile' needs prices", hint="give them with --prices or --tariff")
    period_s, sla = parse_period_and_sla("profile", argument, settings.sla)
    terms = make_power_terms(fleet, settings)
    rules = terms.capacity._replace(period_s=period_s)
    decide = ProfilePolicy(fleet, terms, sla, period_s)
    return CapacityPolicy(
        f"profile:{argument or DEFAULT_PERIOD}", rules, constant_schedule(fleet, terms.after_s), decide
    )
