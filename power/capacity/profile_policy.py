"""Finds the cheapest profile, of those tried, with which jobs keep a slowdown SLA and their latest ends; and its
policy.

Only intervals with prices above the mean are capped. The search first caps the most expensive of them, all or a share,
at the lowest of a few levels that is good enough. It then lowers the cheapest of these profiles by a level at a time,
interval by interval. The policy plans each period and applies the current interval.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.snapshot import Snapshot
from offpeak.plugin.capacity.policies import constant_schedule
from offpeak.plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from offpeak.power.capacity import price_profile
from offpeak.power.capacity.online_simulation import DEFAULT_PERIOD, check_sla, parse_period_and_sla
from offpeak.power.capacity.profile_simulation import ProfilePlan, ProfileSimulation
from offpeak.settings.capacity import DEFAULT_SLA, CapacitySettings

MOST_PLANS = 16
CAP_LEVELS = 4
"""The number of cap levels between the units of running jobs and all units."""

CAPPED_SHARES = (1.0, 0.5, 0.25)
"""The shares of the expensive intervals that are capped first, most expensive first."""

COST_TOLERANCE = 1e-9
"""A smaller difference of cost, as a share, is rounding."""


@dataclass(frozen=True, eq=False)
class ProfileDecision:
    """`plan` was chosen; `uncapped` offers all units all the time; `plans` is the number of simulated plans."""

    sla: float
    plan: ProfilePlan
    uncapped: ProfilePlan
    plans: int


def find_cheapest_profile(
    snapshot: Snapshot,
    prices: price_profile.PricesAhead,
    terms: price_profile.PowerTerms,
    *,
    sla: float = DEFAULT_SLA,
    most_plans: int = MOST_PLANS,
) -> ProfileDecision:
    """Simulate up to `most_plans` profiles, first the one that offers all units, and return the cheapest good one.

    A profile is good if the mean slowdown of jobs without a green SLA is at most `sla`, and no green job ends later
    than its latest end, or than with all units on offer. Raises BadInput for an SLA below 1, or if a job is wider than
    the usable units.
    """
    check_sla(sla)
    found = list(islice(search_profiles(ProfileSimulation(snapshot, prices, terms), sla), most_plans))
    return ProfileDecision(sla, found[-1], found[0], len(found))


def search_profiles(simulation: ProfileSimulation, sla: float) -> Iterator[ProfilePlan]:
    """Yield the cheapest good plan so far after each simulation. The first one offers all units and may not be good."""
    best = uncapped = simulation.plan(price_profile.offer_everything(simulation.snapshot, simulation.prices))
    yield best
    if uncapped.slowdown > sla:
        return
    prices = simulation.prices
    most_expensive = np.argsort(-prices.per_mwh, kind="stable")[: int(prices.is_expensive.sum())]
    snapshot = simulation.snapshot
    fewest, per_node = price_profile.find_fewest_units(snapshot, simulation.prices), snapshot.units_per_node
    nodes = (snapshot.usable_units - fewest) // per_node
    steps: Int64 = fewest + nodes * np.arange(CAP_LEVELS)[:, None] // CAP_LEVELS * per_node
    search = _ProfileSearch(simulation, sla, uncapped, most_expensive, steps)
    for best in search.caps():
        yield best
    yield from search.lower(best)


@dataclass(frozen=True, eq=False)
class _ProfileSearch:
    """The start of the search: the expensive intervals, most expensive first, and the cap levels of each, ascending."""

    simulation: ProfileSimulation
    sla: float
    uncapped: ProfilePlan
    most_expensive: Int64
    steps: Int64

    def caps(self) -> Iterator[ProfilePlan]:
        """Cap the most expensive intervals, all or a share, at the lowest level that is good enough."""
        best = self.uncapped
        counts = {math.ceil(share * len(self.most_expensive)) for share in CAPPED_SHARES} - {0}
        for count in sorted(counts, reverse=True):
            for units in self.steps:
                plan = self.simulation.plan(_cap_profile(self.uncapped.profile, self.most_expensive[:count], units))
                best = self.better(best, plan)
                yield best
                if self.is_good(plan):
                    break

    def lower(self, best: ProfilePlan) -> Iterator[ProfilePlan]:
        """Lower one interval after the other by a level, the most expensive first, until nothing improves."""
        before = None
        while best is not before:
            before = best
            for interval in self.most_expensive:
                units = best.profile.units[interval]
                if units <= self.steps[0, interval]:
                    continue
                step = np.searchsorted(self.steps[:, interval], units) - 1
                plan = self.simulation.plan(_cap_profile(best.profile, np.array([interval]), self.steps[step]))
                best = self.better(best, plan)
                yield best

    def better(self, best: ProfilePlan, plan: ProfilePlan) -> ProfilePlan:
        """Return the other plan if it is good and cheaper, else the best plan."""
        is_cheaper = plan.cost < best.cost - COST_TOLERANCE * abs(best.cost)
        return plan if is_cheaper and self.is_good(plan) else best

    def is_good(self, plan: ProfilePlan) -> bool:
        """Tell whether the plan keeps the slowdown SLA and the latest ends."""
        return plan.slowdown <= self.sla and bool((plan.late_s <= self.uncapped.late_s).all())


def _cap_profile(profile: price_profile.OfferProfile, intervals: Int64, units: Int64) -> price_profile.OfferProfile:
    """Return the profile with `units[i]` on offer in each of the intervals."""
    changed = profile.units.copy()
    changed[intervals] = units[intervals]
    return price_profile.OfferProfile(profile.at_s, changed, profile.until_s)


@dataclass(frozen=True, eq=False)
class ProfilePolicy:
    """Decides by the cheapest profile of the coming day that keeps the SLA in a what-if."""

    fleet: Fleet
    terms: price_profile.PowerTerms
    sla: float
    period_s: int

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the nodes that the profile offers in the interval that contains the middle of the coming period."""
        prices = price_profile.find_prices_ahead(self.fleet, snapshot.now_s)
        present = prices.interval_at(snapshot.now_s + self.period_s // 2)
        if not prices.is_expensive[present]:
            return CapacityTargets(self.fleet.nodes)
        profile = find_cheapest_profile(snapshot, prices, self.terms, sla=self.sla).plan.profile
        awake = int(profile.units[present]) // snapshot.units_per_node
        why = f"{awake} nodes in an expensive hour: {prices.per_mwh[present]:.0f} /MWh, {prices.mean:.0f} on average"
        return CapacityTargets(awake, why=why)


def make_profile_policy(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """Make the policy that offers fewer nodes in expensive hours, as the slowdown SLA allows in a simulation of the
    known jobs.

    The argument is the period, and optionally an SLA that overrides the settings: "1h", "1h:5". Raises BadInput without
    prices.
    """
    if not len(fleet.price_at_s):
        raise BadInput("the capacity policy 'profile' needs prices", hint="give them with --prices or --tariff")
    period_s, sla = parse_period_and_sla("profile", argument, settings.sla)
    terms = price_profile.make_power_terms(fleet, settings)
    rules = terms.capacity._replace(period_s=period_s)
    decide = ProfilePolicy(fleet, terms, sla, period_s)
    return CapacityPolicy(
        f"profile:{argument or DEFAULT_PERIOD}", rules, constant_schedule(fleet, terms.after_s), decide
    )
