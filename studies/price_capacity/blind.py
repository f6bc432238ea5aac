"""A cap without a what-if: half of the nodes in the dearest six hours of each day, whatever waits."""

import numpy as np

from offpeak.model.local_time import DAY_S
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.policies import FROM_THE_BEGINNING
from plugin.capacity.port import CapacityPolicy, Fleet
from plugin.capacity.rules import CapacitySchedule
from power.capacity.price_profile import make_power_terms
from studies.price_capacity.experiment import BLIND

DEAR_S = 6 * 3600
SHARE = 0.5


def blind(fleet: Fleet, settings: CapacitySettings) -> CapacityPolicy:
    """Return the policy for a fleet whose prices are known for all time."""
    at_s, terms = fleet.price_at_s.copy(), make_power_terms(fleet, settings)
    day = (at_s - at_s[0]) // DAY_S
    order = np.lexsort((-np.nan_to_num(fleet.price_per_mwh), day))
    length_s = np.diff(at_s, append=at_s[-1])[order]
    before_s = np.cumsum(length_s) - length_s
    first_of_day = np.searchsorted(day[order], day[order])
    is_dear = np.empty(len(at_s), dtype=np.bool_)
    is_dear[order] = before_s - before_s[first_of_day] < DEAR_S
    target = np.where(is_dear, int(SHARE * fleet.nodes), fleet.nodes)
    at_s[0] = FROM_THE_BEGINNING
    course = CapacitySchedule(at_s, target, np.zeros_like(target), np.tile(terms.after_s, (len(at_s), 1)))
    return CapacityPolicy(BLIND, terms.capacity, course)
