"""Places the jobs of a cycle one after the other, each where it costs least behind those before it."""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from plugin.federation.cycle import Cycle
from plugin.federation.decision import NOBODY
from plugin.federation.predictions import Predictions


def placed_in_turn(cycle: Cycle, predicted: Predictions, cost: Float64, per_second: Float64) -> Int64:
    """Return the site of each job, NOBODY where all are full; int64[n].

    `cost` float64[n, m] is what a job would cost alone, inf where it may not go, and `per_second` float64[n] what each
    second of waiting adds to it.
    """
    units, work_unit_s = predicted.units, predicted.units * predicted.runtime_s
    taken, ahead_unit_s = np.zeros(len(cycle.grid), np.int64), np.zeros(len(cycle.grid))
    places = cycle.grid.max_per_cycle.copy()
    idle_units = np.where(cycle.states.queued == 0, cycle.states.idle_units, -1)
    site = np.full(len(cost), NOBODY, np.int64)
    for job in range(len(cost)):
        behind_s = np.where(taken + units[job] <= idle_units, 0.0, ahead_unit_s / cycle.grid.units)
        place = _least(np.where(places > 0, cost[job] + per_second[job] * behind_s, np.inf))
        if place == NOBODY:
            continue
        site[job] = place
        places[place] -= 1
        taken[place] += units[job, place]
        ahead_unit_s[place] += work_unit_s[job, place]
    return site


def _least(score: Float64) -> int:
    place = int(np.argmin(score))
    return place if np.isfinite(score[place]) else NOBODY
