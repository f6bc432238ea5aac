"""Profiles: the units to offer in each price interval of the coming day, and how nodes sleep and are charged."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, FrozenColumns, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.node_class import JOB_UTILISATION, NodeClass
from offpeak.model.snapshot import Snapshot
from offpeak.model.step_integrals import StepIntegral, integrate_steps
from offpeak.plugin.capacity.policies import capacity_rules, idle_before_depth_s, used_depths
from offpeak.plugin.capacity.port import Fleet
from offpeak.plugin.capacity.rules import CapacityRules
from offpeak.power.whatif import EASY_POLICY
from offpeak.settings.capacity import CapacitySettings
from offpeak.sim_backend.engine.rules import EngineRules
from offpeak.sim_backend.replay.replay import unit_rules_of

EASY_RULES = unit_rules_of(EASY_POLICY)

HORIZON_S = 24 * HOUR_S
"""The horizon of known prices: day-ahead auctions publish tomorrow's prices at noon, 11 to 35 hours ahead."""


@dataclass(frozen=True, eq=False)
class PricesAhead(FrozenColumns):
    """Known prices, no neighbours alike: `per_mwh[i]` from `at_s[i]` to the next, the first from now, to `until_s`."""

    at_s: Int64
    per_mwh: Float64
    until_s: int

    @cached_property
    def mean(self) -> float:
        """The time-weighted mean price."""
        return float(np.average(self.per_mwh, weights=np.diff(self.at_s, append=self.until_s)))

    @cached_property
    def is_expensive(self) -> NDArray[np.bool_]:
        """Which intervals are more expensive than the mean."""
        return self.per_mwh > self.mean + 1e-9 * abs(self.mean)

    @cached_property
    def meter(self) -> StepIntegral:
        """The integral of the prices; from `until_s` on the price is the mean."""
        return integrate_steps(np.append(self.at_s, self.until_s), np.append(self.per_mwh, self.mean))

    def interval_at(self, second: int) -> int:
        """Return the index of the interval that contains a second."""
        return max(int(np.searchsorted(self.at_s, second, side="right")) - 1, 0)


@dataclass(frozen=True, eq=False)
class OfferProfile(FrozenColumns):
    """From `at_s[i]` on, `units[i]` are on offer, in whole nodes; from `until_s` on, all usable units.

    Running jobs keep their units: a node is withdrawn when its jobs end.
    """

    at_s: Int64
    units: Int64
    until_s: int


def find_prices_ahead(fleet: Fleet, now_s: int, horizon_s: int = HORIZON_S) -> PricesAhead:
    """Return the prices ahead. An unknown price is replaced by the mean of the others, 0 if all are unknown."""
    until_s = now_s + horizon_s
    first, behind = np.searchsorted(fleet.price_at_s, [now_s + 1, until_s])
    at_s = np.append(now_s, fleet.price_at_s[first:behind])
    per_mwh = np.append(fleet.price_per_mwh[first - 1] if first else np.nan, fleet.price_per_mwh[first:behind])
    known, length_s = ~np.isnan(per_mwh), np.diff(at_s, append=until_s)
    mean = float(np.average(per_mwh[known], weights=length_s[known])) if known.any() else 0.0
    per_mwh = np.where(known, per_mwh, mean)
    changes = np.append(True, per_mwh[1:] != per_mwh[:-1])
    return PricesAhead(at_s[changes], per_mwh[changes], until_s)


def offer_everything(snapshot: Snapshot, prices: PricesAhead) -> OfferProfile:
    """Return the profile that offers all usable units all the time."""
    return OfferProfile(prices.at_s, np.full(len(prices.at_s), snapshot.usable_units), prices.until_s)


def find_fewest_units(snapshot: Snapshot, prices: PricesAhead) -> Int64:
    """Return the units that running jobs still hold at each interval's start, by expected ends, in whole nodes."""
    end_s = np.maximum(snapshot.running.expected_end_s, snapshot.now_s + 1)
    held = (end_s[None, :] > prices.at_s[:, None]) @ snapshot.running.size
    per_node = snapshot.units_per_node
    return np.minimum(-(-held // per_node) * per_node, snapshot.usable_units)


@dataclass(frozen=True, eq=False)
class PowerTerms:
    """The class of the nodes, how they sleep, and the scheduling rules.

    `capacity` bounds their sleep; `after_s` [s, by depth number] is 0 for the depth that surplus nodes use.
    """

    node_class: NodeClass
    capacity: CapacityRules
    after_s: Int64
    rules: EngineRules = EASY_RULES

    @cached_property
    def job_w(self) -> float:
        """The power of a node with jobs [W]."""
        return self.node_class.running_w(JOB_UTILISATION)

    @cached_property
    def state_w(self) -> Float64:
        """The power of a node without jobs, by state [W]."""
        return self.node_class.state_w()

    @cached_property
    def longest_wake_s(self) -> int:
        """The longest wake-up time of a node."""
        return max((depth.leave.duration_s for depth in self.node_class.depths), default=0)


def make_power_terms(fleet: Fleet, settings: CapacitySettings) -> PowerTerms:
    """Return the terms for a fleet. Raises BadInput if its nodes cannot sleep as configured."""
    # A node that a reservation wakes beyond the profile would be withdrawn at once.
    rules = capacity_rules(fleet, settings, on_demand=False)._replace(ahead_s=0)
    return PowerTerms(
        fleet.node_class, rules, idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    )
