"""How many units to offer in each price interval of the coming day, and how nodes sleep and are charged."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, FrozenColumns, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS
from offpeak.model.snapshot import Snapshot
from offpeak.model.step_integrals import StepIntegral, integrate_steps
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.policies import capacity_rules, idle_before_depth_s, used_depths
from plugin.capacity.port import Fleet
from plugin.capacity.rules import CapacityRules, DepthTable
from power.whatif.simulation import EASY_RULES
from sim_backend.engine.rules import SchedulingRules
from sim_backend.replay.powered import depth_table

HORIZON_S = 24 * HOUR_S
"""So far ahead prices count as known: day-ahead auctions tell tomorrow's at noon, 11 to 35 hours ahead."""


@dataclass(frozen=True, eq=False)
class PricesAhead(FrozenColumns):
    """`per_mwh[i]` holds from `at_s[i]`, the first of them now, to the next, the last until `until_s`; all are known.

    Neighbours differ.
    """

    at_s: Int64
    per_mwh: Float64
    until_s: int

    @cached_property
    def mean(self) -> float:
        """The mean price, by time."""
        return float(np.average(self.per_mwh, weights=np.diff(self.at_s, append=self.until_s)))

    @cached_property
    def is_dear(self) -> NDArray[np.bool_]:
        """Which intervals are dearer than the mean."""
        return self.per_mwh > self.mean + 1e-9 * abs(self.mean)

    @cached_property
    def meter(self) -> StepIntegral:
        """The prices to be integrated: the mean from `until_s` on."""
        return integrate_steps(np.append(self.at_s, self.until_s), np.append(self.per_mwh, self.mean))

    def interval_at(self, second: int) -> int:
        """Return the number of the interval that holds a second."""
        return max(int(np.searchsorted(self.at_s, second, side="right")) - 1, 0)


@dataclass(frozen=True, eq=False)
class OfferProfile(FrozenColumns):
    """From `at_s[i]` on `units[i]` are on offer, in whole nodes; all that are usable again from `until_s` on.

    Running jobs keep theirs in any case: nodes leave when the jobs on them end.
    """

    at_s: Int64
    units: Int64
    until_s: int


def find_prices_ahead(fleet: Fleet, now_s: int, horizon_s: int = HORIZON_S) -> PricesAhead:
    """Return the prices of the time ahead. Where none is known the mean of the others stands; 0 if none is at all."""
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
    """Return what running jobs still hold at the beginning of each interval, by their expected ends, in whole nodes."""
    end_s = np.maximum(snapshot.running.expected_end_s, snapshot.now_s + 1)
    held = (end_s[None, :] > prices.at_s[:, None]) @ snapshot.running.size
    per_node = snapshot.units_per_node
    return np.minimum(-(-held // per_node) * per_node, snapshot.usable_units)


JOB_UTILISATION = 0.75
"""Of a job's draw nothing is known ahead: each is taken to use its nodes so far, the middle of what jobs do."""


@dataclass(frozen=True, eq=False)
class PowerTerms:
    """The class of the nodes, how they sleep, and who starts.

    `capacity` bounds their sleep; `after_s` [s, by depth number] is 0 for the depth that surplus nodes go to.
    """

    node_class: NodeClass
    capacity: CapacityRules
    after_s: Int64
    rules: SchedulingRules = EASY_RULES

    @cached_property
    def job_w(self) -> float:
        """What a node draws that runs jobs [W]."""
        return self.node_class.running_w(JOB_UTILISATION)

    @cached_property
    def state_w(self) -> Float64:
        """What a node draws that runs nothing, by state [W]."""
        return self.node_class.state_w()

    @cached_property
    def longest_wake_s(self) -> int:
        """How long a node takes to come up at the most."""
        return max((depth.leave.duration_s for depth in self.node_class.depths), default=0)

    @cached_property
    def depths(self) -> DepthTable:
        """The transitions of the class, none of which fails."""
        never = np.zeros(len(DEPTHS))
        return depth_table(self.node_class, seed=0)._replace(enter_failure=never, leave_failure=never)


def make_power_terms(fleet: Fleet, settings: CapacitySettings) -> PowerTerms:
    """Return the terms for a fleet. BadInput if its nodes cannot sleep as the settings say."""
    # Nodes that a reservation has woken beyond the profile would at once leave again.
    rules = capacity_rules(fleet, settings, on_demand=False)._replace(ahead_s=0)
    return PowerTerms(
        fleet.node_class, rules, idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    )
