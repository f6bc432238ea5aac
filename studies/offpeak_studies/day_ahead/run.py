"""One experiment on XSEDE: its case, its result, and the run, a pure function of the case, the seed and the prices.

The grid has eight systems with a workload drawn for them, and prices of June 2014. Links and the data of jobs are
assumptions: the paper has both from monitoring pages that no longer exist. A case is a strategy with its changes. Lists
in a result are by site or by class.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import make_jobs
from offpeak.model.schedule_metrics import bounded_slowdown
from offpeak.model.step_integrals import StepIntegral, integrate_constant, integrate_series
from offpeak.model.step_series import Series
from offpeak.model.weighing import Weights
from offpeak.plugin.federation.cycle import GridRules
from offpeak.plugin.federation.policies import grid_policy
from offpeak.plugin.federation.sites import Link, Site
from offpeak.predictors.waits.similar_jobs import SimilarJobs
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.day_ahead import inputs
from offpeak_studies.simulated_grid import broker
from offpeak_studies.simulated_grid.grid import DayAhead, GridLog, Markets, SimulatedGrid, SimulatedSite
from offpeak_studies.simulated_grid.sites import (
    GridOutcome,
    GridSchedule,
    fairness,
    load_at,
    mean_power_w,
    outcome_of,
    utilizations,
)

BANDWIDTH_MB_PER_S = 250.0
"""Ours: a file transfer at 2 Gbit/s between any two places, of the order of GridFTP over links of 10 Gbit/s."""
LATENCY_S = 0.05
GB, TB = 1e3, 1e6
DATA_MB = (0.0, 1e-3, 1.0, 10.0, 100.0, 500.0, GB, 10 * GB, 100 * GB, 500 * GB, TB, 10 * TB)
"""Section 5.8: each is equally likely."""


def links_of(folder: Path) -> tuple[Link, ...]:
    """Return a link between any two systems that are in different places."""
    rows = inputs.site_rows(folder)
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


def zone_of(row: inputs.SiteRow) -> timezone:
    """Return the clock of a system."""
    return timezone(timedelta(hours=EASTERN_H + row.lag_h))


def market_of(place: inputs.PricePlace, zone: timezone) -> DayAhead:
    """Return the prices of a place on that clock; the last week is repeated for jobs that still run in July."""
    price, coming = inputs.daily_prices(place.prices), inputs.forecasts(place)
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
    rows = inputs.site_rows(folder)
    place = inputs.places(folder, out)
    markets = tuple(market_of(place[row.place], zone_of(row)) for row in rows)
    policy = parse_policy("easy", SchedulingSettings())
    nothing = integrate_constant(0.0)
    sites = tuple(
        SimulatedSite(_site(row, most), policy, meter_of(market), nothing)
        for row, market in zip(rows, markets, strict=True)
    )
    return SimulatedGrid(sites, log_of(rows, rng, jobs, history), links), markets


def _site(row: inputs.SiteRow, most: int | None) -> Site:
    return Site(
        row.name,
        row.cores,
        row.watts_per_core,
        core_gflops=row.gflops_per_core,
        zone=zone_of(row),
        longest_job_s=row.longest_s,
        max_per_cycle=most,
    )


def log_of(rows: tuple[inputs.SiteRow, ...], rng: Generator, jobs: int, history: int) -> GridLog:
    """Draw the jobs of all systems over the same span."""
    count = jobs + history
    span_s = count / (ARRIVALS_PER_H * len(rows)) * HOUR_S
    drawn = [inputs.draw(_demand(row, count), span_s, rng) for row in rows]
    start_s = [int(JUNE.timestamp()) + (-HOUR_S * row.lag_h) % DAY_S for row in rows]
    return _joined(drawn, start_s, history)


def _demand(row: inputs.SiteRow, count: int) -> inputs.SiteDemand:
    share, mean_cores, load = SHARES[row.name]
    return inputs.SiteDemand(round(share * count), load, mean_cores, row.cores, row.widest_cores, row.longest_s)


def _joined(drawn: list[inputs.DrawnJobs], start_s: list[int], history: int) -> GridLog:
    submit_s = np.concatenate([site_jobs.submit_s + start for site_jobs, start in zip(drawn, start_s, strict=True)])
    home = np.repeat(np.arange(len(drawn)), [len(site_jobs.size) for site_jobs in drawn])
    order = np.argsort(submit_s, kind="stable")

    def column(name: str) -> Int64:
        return np.concatenate([getattr(jobs, name) for jobs in drawn])[order]

    count = len(order)
    jobs = make_jobs(submit_s[order], column("size"), column("runtime_s"), column("estimate_s"))
    return GridLog(jobs, home[order], np.arange(count) >= history, np.zeros(count), np.ones(count))


@dataclass(frozen=True)
class StrategyCase:
    """A strategy (a policy of offpeak.plugin.federation) at a weight of time w_t [%].

    `wrong_h`: up to this is added to predicted waits. `most`: MaxQ, the jobs that a system takes in a cycle, None for
    any number. `brokered_pct`: f_g, the share of jobs that go to the broker. `most_data_mb`: the most data of a job.
    `together`: the broker considers the jobs of a cycle together. `period_s`: the time from cycle to
    cycle; the paper has "every few minutes" (section 5.9).
    """

    strategy: str
    time_pct: float = 25.0
    wrong_h: float = 0.0
    most: int | None = 2
    brokered_pct: int = 100
    most_data_mb: float = 0.0
    together: bool = False
    period_s: int = 300


@dataclass(frozen=True)
class DayAheadExperiment:
    """A case with draws from the seed (`seed`, `replay`): the number of counted jobs, and of jobs before them."""

    case: StrategyCase
    seed: int
    replay: int
    jobs: int = 10_000
    history: int = 4_000


@dataclass(frozen=True)
class DayAheadResult:
    """Over the counted jobs: means, sums of cost [USD], and by class their number, response [min] and cost.

    `cost_by_power` is the cost if jobs drew 60 to 100, 60 to 140 and 100 to 140 % of Linpack's power. `fairness` is by
    home, for brokered and for local jobs apart. `load_h` and `power_w` are by site and hour of the first hours.
    """

    response_min: float
    wait_min: float
    bounded_slowdown: float
    runtime_min: float
    cost_usd: float
    cost_by_power: tuple[float, ...]
    wait_error_min: float
    jobs: tuple[int, ...]
    utilization: tuple[float, ...]
    fairness: tuple[float | None, ...]
    fairness_local: tuple[float | None, ...]
    by_error_jobs: tuple[float, ...]
    by_error_min: tuple[float, ...]
    by_size_jobs: tuple[float, ...]
    by_size_min: tuple[float, ...]
    by_size_usd: tuple[float, ...]
    load_h: tuple[tuple[float, ...], ...]
    power_w: tuple[tuple[float, ...], ...]


ERROR_EDGES_PCT = (10, 20, 30, 50, 100, 200)
SIZE_EDGES_CORE_H = (512, 4096)
"""Section 5.4: small, medium and large jobs."""


HOURS = 100


@dataclass(frozen=True)
class HplSpread:
    """Jobs draw from 1 + `low` to 1 + `high` times as much as Linpack does. Source: the paper, section 5.8."""

    name: str
    low: float
    high: float

    def factor(self, share: Float64) -> Float64:
        """Return the factor below which that share of the jobs lies."""
        return 1 + self.low + (self.high - self.low) * share


POWERS = (
    HplSpread("lower than HPL", -0.4, 0.0),
    HplSpread("average HPL", -0.4, 0.4),
    HplSpread("higher than HPL", 0.0, 0.4),
)
Bool = NDArray[np.bool_]


def figures_of(
    grid: SimulatedGrid, schedule: GridSchedule, home: GridSchedule, counted: Bool, error_min: float, rng: Generator
) -> DayAheadResult:
    """Return the figures over the `counted` jobs, with fairness against the schedule `home`."""
    out, jobs = outcome_of(grid, schedule), grid.log.jobs
    run_s = schedule.end_s - schedule.start_s
    response_s = out.response_s[counted]
    home_s = outcome_of(grid, home).response_s
    errors = np.digitize(100 * (jobs.estimate_s / np.maximum(jobs.runtime_s, 1) - 1)[counted], ERROR_EDGES_PCT)
    sizes = np.digitize((jobs.size * jobs.runtime_s / HOUR_S)[counted], SIZE_EDGES_CORE_H)
    edge_s = int(jobs.submit_s[counted][0]) + HOUR_S * np.arange(HOURS + 1)
    each_site = range(len(grid.sites))
    return DayAheadResult(
        response_min=float(response_s.mean()) / 60,
        wait_min=float((out.response_s - run_s)[counted].mean()) / 60,
        bounded_slowdown=float(bounded_slowdown(response_s - run_s[counted], run_s[counted]).mean()),
        runtime_min=float(run_s[counted].mean()) / 60,
        cost_usd=float(out.cost[counted].sum()),
        cost_by_power=tuple(
            float(power.factor(rng.random(len(out.cost)))[counted] @ out.cost[counted]) for power in POWERS
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
    return tuple(None if np.isnan(mean) else mean for mean in by_home.tolist())


def _sums(number: Int64, value: Float64, edges: int) -> tuple[float, ...]:
    return tuple(np.bincount(number, value, edges + 1).tolist())


def run(experiment: DayAheadExperiment, folder: Path, out: Path) -> DayAheadResult:
    """Return the result of the case in that replay; the jobs are the same for all cases of a replay.

    `out` is the folder with the forecasts of the prices in `folder`.
    """
    case = experiment.case
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    links = links_of(folder) if case.most_data_mb else ()
    grid, markets = grid_of(
        folder, out, rng, jobs=experiment.jobs, history=experiment.history, links=links, most=case.most
    )
    grid = replace(grid, log=_case_log(grid.log, case, rng))
    counted = np.arange(len(grid.log)) >= experiment.history
    home = broker.run_grid(grid, broker.StayHome(), period_s=case.period_s)
    waits = RecordedWaits(_waits(case, experiment))
    schedule = home if case.strategy == "baseline" else _chosen(grid, case, waits, Markets(markets))
    return figures_of(grid, schedule, home, counted, waits.error_min(schedule), rng)


def _case_log(log: GridLog, case: StrategyCase, rng: Generator) -> GridLog:
    """Return the log with the brokered share of the case, and with data if the case has data."""
    sizes_mb = [size_mb for size_mb in DATA_MB if size_mb <= case.most_data_mb]
    data_mb = rng.choice(sizes_mb, len(log)) if case.most_data_mb else np.zeros(len(log))
    brokered = log.brokered & (rng.random(len(log)) < case.brokered_pct / 100)
    return replace(log, brokered=brokered, data_mb=data_mb)


def _waits(case: StrategyCase, experiment: DayAheadExperiment) -> broker.WaitEstimator:
    if case.strategy == "inst":
        return broker.ZeroGridWaits()
    learned = broker.LearnedWaits(SimilarJobs)
    return broker.NoisyWaits(learned, case.wrong_h, experiment.replay) if case.wrong_h else learned


def _chosen(grid: SimulatedGrid, case: StrategyCase, waits: broker.WaitEstimator, markets: Markets) -> GridSchedule:
    rules = GridRules(weights=Weights(case.time_pct, 100 - case.time_pct), together=case.together)
    return broker.run_grid(
        grid, broker.Decider(grid_policy(case.strategy), rules, waits, markets), period_s=case.period_s
    )


class RecordedWaits:
    """Passes predictions on, and records the last one for each job at each site."""

    def __init__(self, waits: broker.WaitEstimator) -> None:
        self._waits = waits
        self._predicted_s: dict[int, Float64] = {}

    def wait_s(self, moment: broker.Moment) -> Float64:
        """Return the predictions."""
        predicted_s = self._waits.wait_s(moment)
        self._predicted_s.update(zip(moment.job.tolist(), predicted_s, strict=True))
        return predicted_s

    def error_min(self, schedule: GridSchedule) -> float:
        """Return the mean absolute error [min] of the predictions for the sites where the jobs ran, 0 without any."""
        job: Int64 = np.array(list(self._predicted_s), np.int64)
        if not len(job):
            return 0.0
        predicted_s = np.array([self._predicted_s[number][schedule.site[number]] for number in job.tolist()])
        return float(np.abs(predicted_s - (schedule.held_s - schedule.queued_s)[job]).mean()) / 60
