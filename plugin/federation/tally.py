"""What the jobs of this cycle have taken of the sites so far, for policies that place one job after the other."""

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from plugin.federation.cycle import Cycle
from plugin.federation.predictions import Predictions


class Tally:
    """Idle units, queues, places and allocations as they are left by the jobs that were placed before."""

    def __init__(self, cycle: Cycle, predicted: Predictions) -> None:
        self._cycle, self._predicted = cycle, predicted
        self.idle_units: Int64 = cycle.states.idle_units.copy()
        self.queued: Int64 = cycle.states.queued.copy()
        self._places: Int64 = cycle.grid.max_per_cycle.copy()
        self._left_core_s: Float64 = cycle.states.left_core_s.copy()
        self._ahead_unit_s: Float64 = np.zeros(len(cycle.grid))

    def open_to(self, job: int) -> NDArray[np.bool_]:
        """Return which sites can run the job and take another one in this cycle, bool[m]."""
        left = self._left_core_s[self._cycle.jobs.project[job]]
        return np.asarray(self._predicted.compatible[job] & (self._places > 0) & (self._core_s(job) <= left))

    def starts_at_once(self, job: int) -> NDArray[np.bool_]:
        """Return where enough units are idle and nobody is in the queue, bool[m]."""
        return np.asarray((self.queued == 0) & (self._predicted.units[job] <= self.idle_units))

    def response_s(self, job: int) -> Float64:
        """Return the time to the job's end behind those placed before it [s], float64[m]."""
        return np.asarray(self.delay_s(job) + self._predicted.runtime_s[job])

    def delay_s(self, job: int) -> Float64:
        """Return the time to the job's start behind those placed before it [s], float64[m]."""
        behind_s = np.where(self.starts_at_once(job), 0.0, self._ahead_unit_s / self._cycle.grid.units)
        return np.asarray(self._predicted.delay_s[job] + behind_s)

    def place(self, job: int, site: int) -> None:
        """Give the job to the site."""
        at_once = self.starts_at_once(job)[site]
        units = int(self._predicted.units[job, site])
        self._ahead_unit_s[site] += units * self._predicted.runtime_s[job, site]
        self.idle_units[site] -= units if at_once else 0
        self.queued[site] += 0 if at_once else 1
        self._places[site] -= 1
        self._left_core_s[self._cycle.jobs.project[job], site] -= self._core_s(job)[site]

    def _core_s(self, job: int) -> Float64:
        asked = self._predicted.units[job] * self._predicted.runtime_s[job]
        return np.asarray(asked * self._cycle.grid.cores_per_unit)
