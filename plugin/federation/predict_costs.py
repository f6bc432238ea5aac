"""From waits and prices to matrices: when each job would start at each site, what it would draw, cost and emit there.

Sources: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets" (run times: section 4.5.2,
power: 4.5.1, cost: eq. 5, data: eq. 7); Majanen et al., "Energy and Carbon Aware Scheduling in Supercomputing" (energy:
eq. 7, emissions: eq. 5, application ranks: section III-B).
"""

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series
from plugin.federation.compatible import fit_of
from plugin.federation.cycle import Cycle
from plugin.federation.grid import Grid
from plugin.federation.integral import Integral, integral
from plugin.federation.jobs import GridJobs
from plugin.federation.predictions import Predictions

J_PER_KWH = 3.6e6
J_PER_MWH = 3.6e9


def predict_costs(cycle: Cycle) -> Predictions:
    """Return what the cycle's jobs would take at its sites, waiting as `cycle.wait_s` says."""
    return CostModel(cycle).predict(cycle.wait_s)


class CostModel:
    """What of a cycle's predictions does not depend on the waits, so that other waits are soon answered.

    BadPrices unless all prices are in one currency and every series knows something.
    """

    def __init__(self, cycle: Cycle) -> None:
        self._now_s, self._pue = cycle.now_s, cycle.pue
        self._units = units_of(cycle.jobs, cycle.grid)
        self._runtime_s = runtime_s(cycle.jobs, cycle.grid)
        self._data_s = transfer_s(cycle.jobs, cycle.grid)
        self._watts = self._units * cycle.grid.unit_w * self._pue * cycle.jobs.power_factor[:, None]
        self._compatible = fit_of(cycle, self._units, self._runtime_s).compatible
        self._price = _integrals(cycle.states.price)
        self._carbon = _integrals(cycle.states.carbon)

    def predict(self, wait_s: Float64) -> Predictions:
        """Return what the jobs would take if they waited so long [s], float64[n, m]."""
        delay_s = np.maximum(np.where(np.isfinite(wait_s), wait_s, 0.0), self._data_s)
        from_s = self._now_s + delay_s
        until_s = from_s + self._runtime_s
        return Predictions(
            self._units,
            delay_s,
            self._runtime_s,
            self._watts * self._runtime_s,
            self._watts * _between(self._price, from_s, until_s) / J_PER_MWH,
            self._watts * _between(self._carbon, from_s, until_s) / J_PER_KWH,
            self._compatible,
        )


def units_of(jobs: GridJobs, grid: Grid) -> Int64:
    """Return how many units each job takes at each site, int64[n, m]: whole ones."""
    return -(-jobs.cores[:, None] // grid.cores_per_unit)


def runtime_s(jobs: GridJobs, grid: Grid) -> Float64:
    """Return the estimates at each site [s], float64[n, m].

    By the ranks of the job's application where both its home and the site have one, else by the speed of a core:
    ERT x ppc(home) / ppc(site).
    """
    by_core = grid.core_gflops[jobs.home][:, None] / grid.core_gflops
    if not len(grid.applications):
        return np.asarray(jobs.estimate_s[:, None] * by_core)
    ranks = np.vstack([grid.ranks, np.full(len(grid), np.nan)])[jobs.application]
    by_rank = np.take_along_axis(ranks, jobs.home[:, None], axis=1) / ranks
    return np.asarray(jobs.estimate_s[:, None] * np.where(np.isnan(by_rank), by_core, by_rank))


def transfer_s(jobs: GridJobs, grid: Grid) -> Float64:
    """Return how long each job's data are on their way from its home [s], float64[n, m]; 0 for what has no data."""
    way_s = grid.latency_s[jobs.home] + jobs.data_mb[:, None] / grid.bandwidth_mb_per_s[jobs.home]
    return np.where(jobs.data_mb[:, None] > 0, way_s, 0.0)


def _integrals(series: tuple[Series, ...]) -> tuple[Integral, ...]:
    units = {each.unit for each in series}
    if len(units) > 1:
        raise BadPrices(f"the sites' series are in {' and '.join(sorted(units))}", hint="convert them to one unit")
    # Many sites may share a series: each is added up once.
    made = {number: integral(each) for number, each in {id(each): each for each in series}.items()}
    return tuple(made[id(each)] for each in series)


def _between(integrals: tuple[Integral, ...], from_s: Float64, until_s: Float64) -> Float64:
    columns = [each.between(from_s[:, site], until_s[:, site]) for site, each in enumerate(integrals)]
    return np.stack(columns, axis=1)
