"""How much longer a job waits behind the jobs that get the same site in the same cycle.

Ours: section 5.7.3 of the day-ahead paper names this as what its predictor does not know.
"""

import numpy as np

from offpeak.model.arrays import Float64
from plugin.federation.cycle import Cycle
from plugin.federation.predictions import Predictions


def behind_s(cycle: Cycle, predicted: Predictions, share: Float64) -> Float64:
    """Return each job's extra wait at each site [s], float64[n, m].

    `share` float64[n, m] is how much of each job goes to each site, 0 to 1. Jobs count in their order, so the first
    waits for none. While nobody is in the queue and what is idle is enough for a job and those before it, it waits for
    none either; else for their work, spread over all of the site.
    """
    states, grid = cycle.states, cycle.grid
    before = _sums_before(predicted.units * share)
    work_unit_s = _sums_before(predicted.units * predicted.runtime_s * share)
    at_once = (states.queued == 0) & (before + predicted.units <= states.idle_units)
    return np.where(at_once, 0.0, work_unit_s / grid.units)


def _sums_before(column: Float64) -> Float64:
    return np.asarray(np.cumsum(column, axis=0) - column)
