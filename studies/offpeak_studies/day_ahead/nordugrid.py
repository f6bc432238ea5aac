"""NorduGrid with its price zones of January 2014: fifty drawn systems and their jobs, and one experiment on them.

The paper (Murali and Vadhiyar 2018, sections 4.2.2 and 4.3.2) took cores and limits from pages of 2014 and jobs from an
archived log; its programs include neither. Sums and means here are the paper's, all other figures are offpeak's. `run`
is a pure function of the strategy, the seed and the folder of prices. The paper's figures are those of Table 4 and
Figure 9.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.jobs import make_jobs
from offpeak.model.step_integrals import StepIntegral, integrate_constant, integrate_series
from offpeak.model.step_series import Series
from offpeak.model.weighing import Weights
from offpeak.plugin.federation.cycle import GridRules
from offpeak.plugin.federation.policies import grid_policy
from offpeak.plugin.federation.sites import Site
from offpeak.predictors.waits.similar_jobs import SimilarJobs
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.day_ahead.inputs import PricePlace, SiteDemand, daily_prices, draw, forecasts, place_of
from offpeak_studies.simulated_grid.broker import (
    Decider,
    LearnedWaits,
    StayHome,
    WaitEstimator,
    ZeroGridWaits,
    run_grid,
)
from offpeak_studies.simulated_grid.grid import DayAhead, GridLog, Markets, SimulatedGrid, SimulatedSite
from offpeak_studies.simulated_grid.sites import GridSchedule, outcome_of

TIME_PCT = 92.5
"""The weight of time that the paper chose for NorduGrid [%]: section 5.7.1."""
JOBS = 126_344


@dataclass(frozen=True)
class NordugridRow:
    """Mean response [min] and what all jobs cost [EUR]."""

    response_min: float
    cost: float


TABLE_4: Mapping[str, NordugridRow] = {
    "baseline": NordugridRow(1900.3, 16_608.3),
    "MCMF, w_t = 92.5 %": NordugridRow(1678.6, 12_819.6),
    "TWOPRICE, w_t = 92.5 %": NordugridRow(1724.4, 12_991.7),
    "INST": NordugridRow(5210.2, 14_613.6),
}

CLOCK = timezone(timedelta(hours=1))
JANUARY = datetime(2014, 1, 1, tzinfo=CLOCK)
"""All zones of the market clear on one clock, Central European Time."""
ZONES = {
    **{"SE1": 1, "SE2": 1, "SE3": 4, "SE4": 2},
    **{"Norway1": 2, "Norway3": 1, "Troms": 1, "FI": 5, "DK1": 1, "DK2": 2, "LT": 2, "LV": 1, "Slovenia1": 3},
    **{"Swiss_Static": 8, "UK_Static": 6, "Ukraine_Static": 10},
}
"""Systems by zone: 26 with hourly prices and 24 with fixed prices, as in section 4.4; the paper does not give their
number in each zone.
"""
DAYS = range(2, 14)
"""Local days of January, from 0, on which the broker works."""


@dataclass(frozen=True, eq=False)
class PriceZone:
    """The prices of a zone that a broker knows, and the meter of the prices that are paid there."""

    market: DayAhead
    meter: StepIntegral


def places(folder: Path | None, out: Path) -> dict[str, PricePlace]:
    """Return the zones' price files by name. Raises BadInput if the folder is missing."""
    if folder is None or not (folder / "NORDU").is_dir():
        raise BadInput(
            f"NorduGrid needs the prices of 2014: no NORDU/ in {folder or 'any folder, as none was named'}",
            hint="name the folder that holds NORDU/ with --prices",
        )
    return {name: place_of(folder / "NORDU" / f"{name}.csv", out) for name in ZONES}


def zone_of(place: PricePlace) -> PriceZone:
    """Return a zone's prices."""
    price, start_s = daily_prices(place.prices), int(JANUARY.timestamp())
    market = DayAhead(price, forecasts(place), start_s, "EUR/MWh")
    hour = price.ravel()
    hours_s = start_s + HOUR_S * np.arange(len(hour))
    return PriceZone(
        market, integrate_series(Series(hours_s, int(hours_s[-1]) + HOUR_S, hour, market.unit, place.prices.stem), 0)
    )


SYSTEMS, CORES = 50, 356_856
JOBS_PER_H = 126_344 / (90 * 24)
RUNTIME_H = 30.0
"""3.4 times XSEDE's 8.8 h: section 5.4."""
MEAN_CORES, WIDEST = 5.0, 64
"""Cores of a job: with these a job costs about the 0.13 EUR of Table 4."""
LONGEST_S = 7 * 24 * HOUR_S
STEEPNESS = 1.5
"""The n-th largest system has 1 / n to this power of the cores of the largest."""


@dataclass(frozen=True)
class ProcessorCore:
    """A core of a processor of 2006 to 2013 by its maker's data sheet: peak power and peak speed."""

    watts: float
    gflops: float


PROCESSORS = (
    ProcessorCore(95 / 2, 5.2),
    ProcessorCore(80 / 4, 9.3),
    ProcessorCore(95 / 6, 10.6),
    ProcessorCore(115 / 12, 8.4),
    ProcessorCore(115 / 8, 20.8),
    ProcessorCore(115 / 10, 22.4),
)
"""Opteron 2218, Xeon E5345, Xeon X5650, Opteron 6172, Xeon E5-2670 and E5-2680 v2."""


def grid_of(
    folder: Path, out: Path, rng: Generator, *, jobs: int, history: int
) -> tuple[SimulatedGrid, tuple[DayAhead, ...]]:
    """Return a grid with its log, all jobs but the first `history` brokered, and the markets; EASY on all systems."""
    zone = {name: zone_of(place) for name, place in places(folder, out).items()}
    stands_in = [name for name, count in ZONES.items() for _ in range(count)]
    policy, nothing = parse_policy("easy", SchedulingSettings()), integrate_constant(0.0)
    drawn = drawn_sites(rng)
    sites = tuple(
        SimulatedSite(site, policy, zone[name].meter, nothing) for site, name in zip(drawn, stands_in, strict=True)
    )
    return SimulatedGrid(sites, log_of(drawn, rng, jobs, history)), tuple(zone[name].market for name in stands_in)


def drawn_sites(rng: Generator) -> tuple[Site, ...]:
    """Draw the systems: sizes by rank, each with one of the processors."""
    share = 1 / np.arange(1, SYSTEMS + 1) ** STEEPNESS
    cores = rng.permutation(np.rint(CORES * share / share.sum()).astype(np.int64))
    processors = (PROCESSORS[kind] for kind in rng.integers(0, len(PROCESSORS), SYSTEMS))
    return tuple(
        Site(f"n{number}", int(size), core.watts, core_gflops=core.gflops, zone=CLOCK, longest_job_s=LONGEST_S)
        for number, (size, core) in enumerate(zip(cores, processors, strict=True), start=1)
    )


def log_of(sites: tuple[Site, ...], rng: Generator, jobs: int, history: int) -> GridLog:
    """Draw the jobs of all systems; the share of a system is proportional to the square root of its size."""
    count = jobs + history
    span_s = count / JOBS_PER_H * HOUR_S
    load = count * MEAN_CORES * RUNTIME_H * HOUR_S / (CORES * span_s)
    drawn = draw(SiteDemand(count, load, MEAN_CORES, CORES, WIDEST, LONGEST_S), span_s, rng)
    share = np.sqrt([site.units for site in sites])
    home: Int64 = rng.choice(len(sites), count, p=share / share.sum())
    jobs_drawn = make_jobs(int(JANUARY.timestamp()) + drawn.submit_s, drawn.size, drawn.runtime_s, drawn.estimate_s)
    return GridLog(jobs_drawn, home, np.arange(count) >= history, np.zeros(count), np.ones(count))


PERIOD_S = 900
"""A quarter of an hour: fifty systems take six times the predictions of eight."""


@dataclass(frozen=True)
class NordugridExperiment:
    """A strategy at a weight of time w_t [%] with draws from the seed (`seed`, `replay`); MaxQ is any number."""

    strategy: str
    time_pct: float
    seed: int
    replay: int
    jobs: int = 10_000
    history: int = 4_000


@dataclass(frozen=True)
class NordugridResult:
    """Over the jobs that count: means, what a job cost [EUR], and the share of them that the busiest system got."""

    response_min: float
    wait_min: float
    cost_eur: float
    busiest_share: float


def run(experiment: NordugridExperiment, folder: Path, out: Path) -> NordugridResult:
    """Return the result of the strategy; grid and jobs are the same for all strategies of a replay."""
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    grid, markets = grid_of(folder, out, rng, jobs=experiment.jobs, history=experiment.history)
    return _result(grid, _schedule(grid, markets, experiment), experiment.history)


def _schedule(grid: SimulatedGrid, markets: tuple[DayAhead, ...], experiment: NordugridExperiment) -> GridSchedule:
    if experiment.strategy == "baseline":
        return run_grid(grid, StayHome(), period_s=PERIOD_S)
    waits: WaitEstimator = ZeroGridWaits() if experiment.strategy == "inst" else LearnedWaits(SimilarJobs)
    rules = GridRules(weights=Weights(experiment.time_pct, 100 - experiment.time_pct))
    decider = Decider(grid_policy(experiment.strategy), rules, waits, Markets(markets))
    return run_grid(grid, decider, period_s=PERIOD_S)


def _result(grid: SimulatedGrid, schedule: GridSchedule, history: int) -> NordugridResult:
    out, counted = outcome_of(grid, schedule), slice(history, None)
    response_s, run_s = out.response_s[counted], (schedule.end_s - schedule.start_s)[counted]
    return NordugridResult(
        response_min=float(response_s.mean()) / 60,
        wait_min=float((response_s - run_s).mean()) / 60,
        cost_eur=float(out.cost[counted].mean()),
        busiest_share=float(np.bincount(schedule.site[counted]).max() / len(response_s)),
    )
