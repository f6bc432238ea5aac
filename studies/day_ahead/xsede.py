"""The eight systems of XSEDE with a workload drawn for them, their links, and their prices of June 2014.

Links and the data of jobs are assumptions: the paper has both from monitoring pages that no longer exist.
"""

from datetime import datetime, timedelta, timezone
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.step_integrals import StepIntegral, integrate_constant, integrate_series
from offpeak.model.step_series import Series
from offpeak.settings.replay import SchedulingSettings
from plugin.federation.sites import Link, Site
from sim_backend.grid.electricity import DayAhead
from sim_backend.grid.grid import GridLog, SimulatedGrid, SimulatedSite
from sim_backend.replay.policy import parse_policy
from studies.day_ahead.inputs import (
    DrawnJobs,
    PricePlace,
    SiteDemand,
    SiteRow,
    daily_prices,
    draw,
    forecasts,
    places,
    site_rows,
)
from studies.logs import make_jobs

BANDWIDTH_MB_PER_S = 250.0
"""Ours: a file transfer at 2 Gbit/s between any two places, of the order of GridFTP over links of 10 Gbit/s."""
LATENCY_S = 0.05
GB, TB = 1e3, 1e6
DATA_MB = (0.0, 1e-3, 1.0, 10.0, 100.0, 500.0, GB, 10 * GB, 100 * GB, 500 * GB, TB, 10 * TB)
"""Section 5.8: each is equally likely."""


def links_of(folder: Path) -> tuple[Link, ...]:
    """Return a link between any two systems that are in different places."""
    rows = site_rows(folder)
    return tuple(
        Link((one.name, other.name), LATENCY_S, BANDWIDTH_MB_PER_S)
        for one, other in combinations(rows, 2)
        if one.place != other.place
    )


EASTERN_H = -4
JUNE = datetime(2014, 6, 1, tzinfo=timezone(timedelta(hours=EASTERN_H)))
WEEK_DAYS = 7
WEEKS_MORE = 4
HISTORY = 4_000
"""Jobs at home before the counted jobs: the predictors learn from them, and they fill the machines."""
JOBS = 10_000
ARRIVALS_PER_H = 3.22
"""The mean of a system: section 4.3.1."""
SHARES = {
    "Blacklight": (0.177, 91.4, 0.913),
    "Darter": (0.103, 246.6, 0.557),
    "Gordon": (0.091, 80.4, 0.075),
    "Trestles": (0.165, 161.9, 0.725),
    "Mason": (0.081, 13.3, 0.481),
    "Lonestar": (0.117, 298.8, 0.363),
    "Queenbee": (0.144, 121.8, 0.598),
    "Steele": (0.122, 96.1, 0.594),
}
"""Share of all jobs, mean size and load: of the 4,100 jobs that the authors published."""


def zone_of(row: SiteRow) -> timezone:
    """Return the clock of a system."""
    return timezone(timedelta(hours=EASTERN_H + row.lag_h))


def market_of(place: PricePlace, zone: timezone) -> DayAhead:
    """Return the prices of a place on that clock; the last week is repeated for jobs that still run in July."""
    price, coming = daily_prices(place.prices), forecasts(place)
    price, coming = (np.concatenate([days, *[days[-WEEK_DAYS:]] * WEEKS_MORE]) for days in (price, coming))
    return DayAhead(price, coming, int(JUNE.replace(tzinfo=zone).timestamp()), "USD/MWh")


def meter_of(market: DayAhead) -> StepIntegral:
    """Return the meter of the prices that are paid."""
    hour = market.price.ravel()
    start_s = market.start_s + HOUR_S * np.arange(len(hour))
    return integrate_series(Series(start_s, int(start_s[-1]) + HOUR_S, hour, market.unit, "June 2014"), 0)


def grid_of(
    folder: Path,
    out: Path,
    rng: Generator,
    *,
    jobs: int = JOBS,
    history: int = HISTORY,
    links: tuple[Link, ...] = (),
    most: int | None,
) -> tuple[SimulatedGrid, tuple[DayAhead, ...]]:
    """Return the grid with its log, all jobs but the first `history` brokered, and the markets; EASY on all systems.

    `out` is the folder of the forecasts, `most` the number of jobs that a system takes in a cycle.
    """
    rows = site_rows(folder)
    place = places(folder, out)
    markets = tuple(market_of(place[row.place], zone_of(row)) for row in rows)
    policy = parse_policy("easy", SchedulingSettings())
    nothing = integrate_constant(0.0)
    sites = tuple(
        SimulatedSite(_site(row, most), policy, meter_of(market), nothing)
        for row, market in zip(rows, markets, strict=True)
    )
    return SimulatedGrid(sites, log_of(rows, rng, jobs, history), links), markets


def _site(row: SiteRow, most: int | None) -> Site:
    return Site(
        row.name,
        row.cores,
        row.watts_per_core,
        core_gflops=row.gflops_per_core,
        zone=zone_of(row),
        longest_job_s=row.longest_s,
        max_per_cycle=most,
    )


def log_of(rows: tuple[SiteRow, ...], rng: Generator, jobs: int, history: int) -> GridLog:
    """Draw the jobs of all systems over the same span."""
    count = jobs + history
    span_s = count / (ARRIVALS_PER_H * len(rows)) * HOUR_S
    drawn = [draw(_demand(row, count), span_s, rng) for row in rows]
    start_s = [int(JUNE.timestamp()) + (-HOUR_S * row.lag_h) % DAY_S for row in rows]
    return _joined(drawn, start_s, history)


def _demand(row: SiteRow, count: int) -> SiteDemand:
    share, mean_cores, load = SHARES[row.name]
    return SiteDemand(round(share * count), load, mean_cores, row.cores, row.widest_cores, row.longest_s)


def _joined(drawn: list[DrawnJobs], start_s: list[int], history: int) -> GridLog:
    submit_s = np.concatenate([site_jobs.submit_s + start for site_jobs, start in zip(drawn, start_s, strict=True)])
    home = np.repeat(np.arange(len(drawn)), [len(site_jobs.size) for site_jobs in drawn])
    order = np.argsort(submit_s, kind="stable")

    def column(name: str) -> Int64:
        return np.concatenate([getattr(jobs, name) for jobs in drawn])[order]

    count = len(order)
    jobs = make_jobs(submit_s[order], column("size"), column("runtime_s"), column("estimate_s"))
    return GridLog(jobs, home[order], np.arange(count) >= history, np.zeros(count), np.ones(count))
