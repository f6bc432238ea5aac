"""Prices as a policy sees them that knows only dear and cheap hours: TWOPRICE of the day-ahead paper, section 5."""

from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.local_time import DAY_S
from offpeak.model.step_series import Series, merge, split
from offpeak.prices.peak import ClockHours
from plugin.federation.cycle import Cycle

OFF_AND_ON_PERCENT = (10, 90)
NOON_S = DAY_S // 2


def two_price_curves(cycle: Cycle) -> tuple[Series, ...]:
    """Return each site's prices as two: noon to midnight on its clock at the 90th percentile, else at the 10th."""
    return tuple(
        two_price_curve(price, ClockHours(NOON_S, DAY_S, zone=site.zone))
        for price, site in zip(cycle.states.price, cycle.grid.sites, strict=True)
    )


def two_price_curve(price: Series, dear: ClockHours) -> Series:
    """Return the series at its 90th percentile within the dear hours, at its 10th in all others, gaps included."""
    off, on = np.percentile(price.value[price.known], OFF_AND_ON_PERCENT)
    edges: Int64 = dear.edges_s(int(price.start_s[0]), price.end_s)
    cut = split(price, edges)
    return merge(replace(cut, value=np.where(dear.on_peak(cut), on, off)))
