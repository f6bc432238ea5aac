"""Predicts from waits and prices the start, energy, cost and CO2 of each job at each site.

It also determines which jobs can run at which sites, and what is missing otherwise.

Sources: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets" (run times: section 4.5.2,
power: 4.5.1, cost: eq. 5, data: eq. 7); Majanen et al., "Energy and Carbon Aware Scheduling in Supercomputing" (energy:
eq. 7, emissions: eq. 5, application ranks: section III-B).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.display import duration_text
from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S, J_PER_KWH, J_PER_MWH
from offpeak.model.step_series import IntegralCurve, Series
from offpeak.plugin.federation.cycle import GridCycle, Predictions, SiteMismatch
from offpeak.plugin.federation.jobs import GridJobs
from offpeak.plugin.federation.sites import Grid, integrate_series


@dataclass(frozen=True, eq=False)
class SiteFit:
    """Whether jobs fit sites, by criterion, bool[n, m] each."""

    answers: NDArray[np.bool_]
    foreseen: NDArray[np.bool_]
    wide: NDArray[np.bool_]
    long: NDArray[np.bool_]
    features: NDArray[np.bool_]
    allocation: NDArray[np.bool_]

    @property
    def compatible(self) -> NDArray[np.bool_]:
        """Whether a job fits a site by all criteria."""
        return self.answers & self.foreseen & self.wide & self.long & self.features & self.allocation


def check_fit(cycle: GridCycle, units: Int64, runtime_s: Float64) -> SiteFit:
    """Return what fits, given the units int64[n, m] and the run times [s] float64[n, m] of jobs at sites.

    As in section 3.3.1 of the day-ahead paper, but a job as wide or as long as the limit there fits.
    """
    jobs, grid = cycle.jobs, cycle.grid
    wanted = jobs.features[:, None]
    job_core_s = units * grid.cores_per_unit * runtime_s
    return SiteFit(
        np.broadcast_to(~cycle.states.stale, units.shape),
        np.isfinite(cycle.wait_s),
        jobs.cores[:, None] <= grid.largest_cores,
        runtime_s <= grid.longest_s,
        (wanted & grid.feature_masks) == wanted,
        job_core_s <= cycle.states.left_core_s[jobs.project],
    )


def find_mismatches(cycle: GridCycle, fit: SiteFit, runtime_s: Float64, job: int) -> tuple[SiteMismatch, ...]:
    """Return for each site that cannot run the job what is missing there."""
    return tuple(
        SiteMismatch(
            cycle.grid.names[site],
            ", ".join(_missing(cycle, fit, float(runtime_s[job, site]), job, site)),
            passes=_passes(cycle, fit, job, site),
        )
        for site in np.flatnonzero(~fit.compatible[job]).tolist()
    )


def _passes(cycle: GridCycle, fit: SiteFit, job: int, site: int) -> bool:
    """Whether only the answer, the electricity or the wait of the site is missing, which it may report later."""
    at = job, site
    if not fit.answers[at]:
        return True
    return bool(fit.wide[at] and fit.long[at] and fit.features[at] and fit.allocation[at]) and at not in cycle.misfits


def _missing(cycle: GridCycle, fit: SiteFit, runtime_s: float, job: int, site: int) -> list[str]:
    """Return why a site that is left out is, else what the site lacks by the file of sites, else by its own report."""
    grid, jobs = cycle.grid, cycle.jobs
    reason = cycle.misfits.get((job, site), "")
    if reason and not fit.answers[job, site]:
        return [reason]
    missing = [] if fit.answers[job, site] else ["its last answer is too old"]
    if not fit.wide[job, site]:
        missing.append(f"{jobs.cores[job]:,} cores requested, {grid.largest_cores[site]:,} are the most")
    if not fit.long[job, site]:
        missing.append(f"{duration_text(runtime_s)} requested, {duration_text(grid.longest_s[site])} are the most")
    if not fit.features[job, site]:
        lacking = int(jobs.features[job] & ~grid.feature_masks[site])
        missing.append("has no " + ", ".join(name for bit, name in enumerate(grid.features) if lacking >> bit & 1))
    if not fit.allocation[job, site]:
        missing.append(_no_allocation(cycle, job, site))
    if not missing and not fit.foreseen[job, site]:
        missing.append(reason or "its wait is not known")
    return missing


def _no_allocation(cycle: GridCycle, job: int, site: int) -> str:
    project = int(cycle.jobs.project[job])
    name = cycle.grid.projects[project] if project >= 0 else "the job's project"
    left, given = (each[project, site] / HOUR_S for each in (cycle.states.left_core_s, cycle.grid.allocated_core_s))
    return f"{name} has {left:,.0f}{f' of {given:,.0f}' if given else ''} core-hours left"


class CostModel:
    """The part of a cycle's predictions that does not depend on the waits, so that other waits are predicted fast.

    Raises BadPrices unless all prices are in one currency and every series knows something.
    """

    def __init__(self, cycle: GridCycle) -> None:
        self._now_s, self._pue = cycle.now_s, cycle.pue
        self._units = count_units(cycle.jobs, cycle.grid)
        self._runtime_s = runtime_s(cycle.jobs, cycle.grid)
        self.data_s = transfer_s(cycle.jobs, cycle.grid)
        self.watts = self._units * cycle.grid.unit_w * self._pue * cycle.jobs.power_factor[:, None]
        self._compatible = check_fit(cycle, self._units, self._runtime_s).compatible
        self.price = _integrate_all(cycle.states.price)
        self.carbon = _integrate_all(cycle.states.carbon)

    def predict(self, wait_s: Float64) -> Predictions:
        """Return the predictions for these waits [s], float64[n, m]."""
        delay_s = np.maximum(np.where(np.isfinite(wait_s), wait_s, 0.0), self.data_s)
        from_s = self._now_s + delay_s
        until_s = from_s + self._runtime_s
        return Predictions(
            units=self._units,
            delay_s=delay_s,
            runtime_s=self._runtime_s,
            energy_j=self.watts * self._runtime_s,
            cost=self.watts * _integrals_between(self.price, from_s, until_s) / J_PER_MWH,
            co2_g=self.watts * _integrals_between(self.carbon, from_s, until_s) / J_PER_KWH,
            compatible=self._compatible,
        )


def count_units(jobs: GridJobs, grid: Grid) -> Int64:
    """Return how many units each job takes at each site, int64[n, m]: whole ones."""
    return -(-jobs.cores[:, None] // grid.cores_per_unit)


def runtime_s(jobs: GridJobs, grid: Grid) -> Float64:
    """Return the estimates at each site [s], float64[n, m].

    By the ranks of the application where both home and site have one, else by core speed: ERT x ppc(home) / ppc(site).
    """
    by_core = grid.core_gflops[jobs.home][:, None] / grid.core_gflops
    if not len(grid.applications):
        return np.asarray(jobs.estimate_s[:, None] * by_core)
    ranks = np.vstack([grid.ranks, np.full(len(grid), np.nan)])[jobs.application]
    by_rank = np.take_along_axis(ranks, jobs.home[:, None], axis=1) / ranks
    return np.asarray(jobs.estimate_s[:, None] * np.where(np.isnan(by_rank), by_core, by_rank))


def transfer_s(jobs: GridJobs, grid: Grid) -> Float64:
    """Return the transfer time of each job's data from where they are [s], float64[n, m]; 0 without data."""
    way_s = grid.latency_s[jobs.data_at] + jobs.data_mb[:, None] / grid.bandwidth_mb_per_s[jobs.data_at]
    return np.where(jobs.data_mb[:, None] > 0, way_s, 0.0)


def _integrate_all(series: tuple[Series, ...]) -> tuple[IntegralCurve, ...]:
    units = {each.unit for each in series}
    if len(units) > 1:
        raise BadPrices(f"the sites' series are in {' and '.join(sorted(units))}", hint="convert them to one unit")
    # Many sites may share a series: each is added up once.
    made = {number: integrate_series(each) for number, each in {id(each): each for each in series}.items()}
    return tuple(made[id(each)] for each in series)


def _integrals_between(integrals: tuple[IntegralCurve, ...], from_s: Float64, until_s: Float64) -> Float64:
    columns = [integral.between(from_s[:, site], until_s[:, site]) for site, integral in enumerate(integrals)]
    return np.stack(columns, axis=1)
