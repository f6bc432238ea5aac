"""From a schedule to the figures of the paper's tables and pictures."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.schedule_metrics import bounded_slowdown
from predictors.job_power import AVERAGE_HPL, HIGHER_THAN_HPL, LOWER_THAN_HPL
from sim_backend.grid.grid import SimulatedGrid
from sim_backend.grid.outcome import GridOutcome, fairness, load_at, mean_power_w, outcome_of, utilizations
from sim_backend.grid.sites import GridSchedule
from studies.day_ahead.paper import ERROR_EDGES_PCT, SIZE_EDGES_CORE_H
from studies.day_ahead.result import Result

HOURS = 100
HOUR_S = 3600
POWERS = (LOWER_THAN_HPL, AVERAGE_HPL, HIGHER_THAN_HPL)
Bool = NDArray[np.bool_]


def figures_of(
    grid: SimulatedGrid, schedule: GridSchedule, home: GridSchedule, counted: Bool, error_min: float, rng: Generator
) -> Result:
    """Return the figures over the `counted` jobs, with fairness against the schedule `home`."""
    out, jobs = outcome_of(grid, schedule), grid.log.jobs
    run_s = schedule.end_s - schedule.start_s
    response_s = out.response_s[counted]
    home_s = outcome_of(grid, home).response_s
    errors = np.digitize(100 * (jobs.estimate_s / np.maximum(jobs.runtime_s, 1) - 1)[counted], ERROR_EDGES_PCT)
    sizes = np.digitize((jobs.size * jobs.runtime_s / HOUR_S)[counted], SIZE_EDGES_CORE_H)
    edge_s = int(jobs.submit_s[counted][0]) + HOUR_S * np.arange(HOURS + 1)
    each_site = range(len(grid.sites))
    return Result(
        response_min=float(response_s.mean()) / 60,
        wait_min=float((out.response_s - run_s)[counted].mean()) / 60,
        bounded_slowdown=float(bounded_slowdown(response_s - run_s[counted], run_s[counted]).mean()),
        runtime_min=float(run_s[counted].mean()) / 60,
        cost_usd=float(out.cost[counted].sum()),
        cost_by_power=tuple(
            float(each.factor(rng.random(len(out.cost)))[counted] @ out.cost[counted]) for each in POWERS
        ),
        wait_error_min=error_min,
        jobs=tuple(np.bincount(schedule.site[counted], minlength=len(grid.sites)).tolist()),
        utilization=tuple(utilizations(grid, schedule, counted).tolist()),
        fairness=_fairness(grid, out, home_s, counted & grid.log.brokered),
        fairness_local=_fairness(grid, out, home_s, counted & ~grid.log.brokered),
        by_error_jobs=_sums(errors, np.ones(len(errors)), len(ERROR_EDGES_PCT)),
        by_error_min=_sums(errors, response_s / 60, len(ERROR_EDGES_PCT)),
        by_size_jobs=_sums(sizes, np.ones(len(sizes)), len(SIZE_EDGES_CORE_H)),
        by_size_min=_sums(sizes, response_s / 60, len(SIZE_EDGES_CORE_H)),
        by_size_usd=_sums(sizes, out.cost[counted], len(SIZE_EDGES_CORE_H)),
        load_h=tuple(tuple(load_at(grid, schedule, site, edge_s[:-1]).round(3).tolist()) for site in each_site),
        power_w=tuple(tuple(mean_power_w(schedule, out.power_w, s, edge_s).round().tolist()) for s in each_site),
    )


def _fairness(grid: SimulatedGrid, out: GridOutcome, home_s: Int64, which: Bool) -> tuple[float | None, ...]:
    if not which.any():
        return (None,) * len(grid.sites)
    by_home: Float64 = fairness(grid.log.home[which], out.response_s[which], home_s[which], len(grid.sites))
    return tuple(None if np.isnan(each) else each for each in by_home.tolist())


def _sums(number: Int64, value: Float64, edges: int) -> tuple[float, ...]:
    return tuple(np.bincount(number, value, edges + 1).tolist())
