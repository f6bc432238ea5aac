"""Keeps projects within their allocations where many jobs are placed at once: a flow knows no sums of core-hours."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from plugin.federation.cycle import Cycle
from plugin.federation.decision import NOBODY
from plugin.federation.predictions import Predictions

MOST_ROUNDS = 8


def within_allocations(
    cycle: Cycle, predicted: Predictions, allowed: NDArray[np.bool_], solve: Callable[[NDArray[np.bool_]], Int64]
) -> Int64:
    """Return the site of each job, such that no project exceeds what it has left at a site.

    What `solve` answers is tried; jobs beyond an allocation, the later ones first, may not go there and it is solved
    again. After eight rounds those still beyond get nobody in this cycle.
    """
    allowed = allowed.copy()
    for _ in range(MOST_ROUNDS):
        site = solve(allowed)
        beyond = _beyond(cycle, predicted, site)
        if not len(beyond):
            return site
        allowed[beyond, site[beyond]] = False
    site[beyond] = NOBODY
    return site


def _beyond(cycle: Cycle, predicted: Predictions, site: Int64) -> Int64:
    """Return the jobs that a project can no longer pay for, its jobs taken in their order."""
    left_core_s = cycle.states.left_core_s
    bounded = np.isfinite(left_core_s)[cycle.jobs.project, site] & (site != NOBODY)
    left = left_core_s.copy()
    beyond = []
    for job in np.flatnonzero(bounded):
        project, to = cycle.jobs.project[job], site[job]
        asked = predicted.units[job, to] * cycle.grid.cores_per_unit[to] * predicted.runtime_s[job, to]
        if asked > left[project, to]:
            beyond.append(job)
        else:
            left[project, to] -= asked
    return np.array(beyond, np.int64)
