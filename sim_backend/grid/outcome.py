"""The outcome of a grid's schedule: energy, cost and CO2 by job; by site its use and the users that the grid served."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S, J_PER_KWH, J_PER_MWH
from offpeak.model.schedule_metrics import response_ratio
from offpeak.model.step_integrals import StepIntegral, integrals, integrate_constant, integrate_steps, multiply
from plugin.federation.sites import Site
from sim_backend.grid.grid import SimulatedGrid
from sim_backend.grid.sites import GridSchedule


@dataclass(frozen=True, eq=False)
class GridOutcome:
    """The outcome of each job of the grid, by index: `response_s` from its submission by the user, and its run.

    Energy is at the site's meter (PUE included, at the load of each moment) while the job runs; `power_w` is its mean
    draw there. Cost is in the currency of the prices.
    """

    response_s: Int64
    power_w: Float64
    energy_j: Float64
    cost: Float64
    co2_g: Float64


def outcome_of(grid: SimulatedGrid, schedule: GridSchedule) -> GridOutcome:
    """Return the outcome of each job at its site and time."""
    count = len(grid.log)
    energy_j, cost, co2_g = np.zeros((3, count))
    for number, site in enumerate(grid.sites):
        job = np.flatnonzero(schedule.site == number)
        units, run = grid.units(job, number), (schedule.start_s[job], schedule.end_s[job])
        it_w = units * site.site.unit_w * grid.log.power_factor[job]
        pue = pue_over_time(site.site, units, *run)
        energy_j[job] = it_w * integrals(pue, *run)
        cost[job] = it_w * integrals(multiply(pue, site.price), *run) / J_PER_MWH
        co2_g[job] = it_w * integrals(multiply(pue, site.carbon), *run) / J_PER_KWH
    power_w = energy_j / np.maximum(schedule.end_s - schedule.start_s, 1)
    return GridOutcome(schedule.end_s - grid.log.jobs.submit_s, power_w, energy_j, cost, co2_g)


def pue_over_time(site: Site, units: Int64, start_s: Int64, end_s: Int64) -> StepIntegral:
    """Return the meter of the site's PUE while these jobs run there."""
    if site.room is None or not len(units):
        return integrate_constant(site.pue)
    at_s, at = np.unique(np.concatenate([start_s, end_s]), return_inverse=True)
    busy = np.cumsum(np.bincount(at, weights=np.concatenate([units, -units]), minlength=len(at_s)))
    return integrate_steps(at_s, site.pue_at(busy))


def fairness(home: Int64, response_s: Int64, baseline_s: Int64, sites: int) -> Float64:
    """Return by home the geometric mean of baseline response over response, float64[sites]; NaN if none is at home.

    Above 1, users of that site are served faster than without the grid: Murali and Vadhiyar 2018, section 4.6.
    """
    ratio = np.full(sites, np.nan)
    for site in np.unique(home).tolist():
        ratio[site] = response_ratio(response_s[home == site], baseline_s[home == site])
    return ratio


def utilizations(grid: SimulatedGrid, schedule: GridSchedule, counted: NDArray[np.bool_]) -> Float64:
    """Return by site the share of unit-seconds, from the first counted submission to the last counted end, in use."""
    begin_s = int(grid.log.jobs.submit_s[counted].min())
    until_s = int(schedule.end_s[counted].max())
    run_s = np.minimum(schedule.end_s, until_s) - np.maximum(schedule.start_s, begin_s)
    busy = np.zeros(len(grid.sites))
    for number, site in enumerate(grid.sites):
        job = np.flatnonzero(schedule.site == number)
        busy[number] = (grid.units(job, number) * np.maximum(run_s[job], 0)).sum() / site.site.units
    return busy / max(until_s - begin_s, 1)


def load_at(grid: SimulatedGrid, schedule: GridSchedule, site: int, at_s: Int64) -> Float64:
    """Return the instantaneous load of a site [h]: unit-hours of running and queued jobs over its units.

    Section 4.6: "the sum of the CPU hours of both the running and queued jobs divided by the total processors".
    """
    job = np.flatnonzero(schedule.site == site)
    unit_h = grid.units(job, site) * (schedule.end_s - schedule.start_s)[job] / HOUR_S
    present = (schedule.queued_s[job] <= at_s[:, None]) & (schedule.end_s[job] > at_s[:, None])
    return np.asarray(present @ unit_h / grid.sites[site].site.units)


def mean_power_w(schedule: GridSchedule, power_w: Float64, site: int, edge_s: Int64) -> Float64:
    """Return the mean draw of a site's jobs between neighbouring edges [W], float64[len(edge_s) - 1]."""
    job = np.flatnonzero(schedule.site == site)
    run_s = np.clip(edge_s[:, None] - schedule.start_s[job], 0, (schedule.end_s - schedule.start_s)[job])
    return np.asarray(np.diff(run_s @ power_w[job]) / np.diff(edge_s))
