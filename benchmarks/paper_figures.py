"""Figures of the papers that no study prints: `python -m benchmarks.paper_figures LOGS`.

Figures 14 to 17 of energy-carbon: the federated testbed under ECA with one number changed, ten replays with the seeds
(1, 0) to (1, 9). Figure 1 of online-simulation: arrivals, demand and utilization by week of the four logs in the folder
LOGS, twenty replays with the seeds (1, 0) to (1, 19). The tables go into docs/figures; `make reference` puts them on
the pages. With a second folder, that of the prices of day-ahead, TWOPRICE by the percentiles of all of June is printed
as well, in cycles of 5 and 20 minutes: seed (1, 0), some minutes each.
"""

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

import numpy as np

from offpeak.executor import LocalProcesses
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S, WEEK_S
from offpeak.model.step_series import Series, value_at
from offpeak.model.weighing import Weights
from offpeak.plugin.federation.cycle import GridRules
from offpeak.plugin.federation.jobs import Goal
from offpeak.plugin.federation.metaschedule import NOON_S, two_price_curve
from offpeak.plugin.federation.policies import grid_policy
from offpeak.predictors.waits.similar_jobs import SimilarJobs
from offpeak.prices.peak import ClockHours
from offpeak.report_tables import cell_text
from offpeak_studies.day_ahead.inputs import DAYS, make_forecasts, places
from offpeak_studies.day_ahead.run import HISTORY, WEEK_DAYS, WEEKS_MORE, grid_of
from offpeak_studies.energy_carbon.federation import TESTBEDS, log_of, on_testbeds
from offpeak_studies.energy_carbon.paper import WALLTIME_S
from offpeak_studies.harness import Replays
from offpeak_studies.logs import LogSource, read_log
from offpeak_studies.online_simulation.plan import OnlineSubject, experiments, subjects_of
from offpeak_studies.online_simulation.run import ALWAYS_ON, run
from offpeak_studies.online_simulation.tables import OnlineResults
from offpeak_studies.report import confidence_of
from offpeak_studies.simulated_grid import broker
from offpeak_studies.simulated_grid.grid import DayAhead, Markets
from offpeak_studies.simulated_grid.sites import outcome_of, utilizations

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
SWEEP_REPLAYS, WEEK_REPLAYS = 10, Replays(20, 1)


@dataclass(frozen=True)
class Sweep:
    """A point of Figures 14 to 17.

    `changed`: the PUE or the CUE of Juggle's and Jufit's site, the rank of Jufit, or the latest finish in multiples of
    the average walltime. `rank` is Jufit's.
    """

    changed: str
    value: float
    rank: int


SWEEPS = (
    *(Sweep("PUE", pue, rank) for rank in (5, 10) for pue in (1.0, 1.2, 1.4, 1.6, 1.8)),
    *(Sweep("CUE", cue, rank) for rank in (5, 10) for cue in (0.2, 0.43, 0.6, 0.8, 1.0)),
    *(Sweep("rank", rank, rank) for rank in (5, 10, 15)),
    *(Sweep("latest finish", times, rank) for rank in (5, 10) for times in (3, 5, 7, 10)),
)
FIGURE = {"PUE": "14", "CUE": "15", "rank": "16", "latest finish": "17"}
LATEST = 5
"""Walltimes, where something else is changed: the 3,600 s of Table IX."""


def sweep(point: Sweep, replay: int) -> tuple[list[float], list[int]]:
    """Return the utilization [%] of each cluster until all jobs have ended, and its jobs."""
    juggle, jufit, dune = TESTBEDS
    jufit = replace(jufit, rank=point.rank)
    if point.changed == "PUE":
        juggle, jufit = (replace(testbed, pue=point.value) for testbed in (juggle, jufit))
    if point.changed == "CUE":
        juggle, jufit = (replace(testbed, cue=point.value) for testbed in (juggle, jufit))
    walltimes = point.value if point.changed == "latest finish" else LATEST
    log = log_of(round(walltimes * WALLTIME_S), np.random.default_rng([1, replay]))
    goal = Goal.CO2 if point.changed == "CUE" else Goal.ENERGY
    grid, schedule = on_testbeds((juggle, jufit, dune), "eca-sla", goal, log)
    used_pct = 100 * utilizations(grid, schedule, np.ones(len(log), np.bool_))
    return used_pct.tolist(), np.bincount(schedule.site, minlength=len(TESTBEDS)).tolist()


def sweep_row(point: Sweep) -> list[str]:
    """Return the row of a point, over its replays."""
    results = [sweep(point, replay) for replay in range(SWEEP_REPLAYS)]
    used = [cell_text(confidence_of(cluster)) for cluster in zip(*(used for used, _ in results), strict=True)]
    jobs = [f"{fmean(cluster):.0f}" for cluster in zip(*(jobs for _, jobs in results), strict=True)]
    return [f"{FIGURE[point.changed]}: {point.changed}", f"{point.value:g}", str(point.rank), *used, ", ".join(jobs)]


def by_week(subject: OnlineSubject) -> tuple[Float64, Float64]:
    """Return how many jobs arrive in each whole week of a log, and their mean demand [processor-days]."""
    jobs = subject.log.trace.jobs
    week = (jobs.submit_s - jobs.submit_s[0]) // WEEK_S
    whole = subject.log.span_s // WEEK_S
    arrivals = np.bincount(week, minlength=whole)[:whole].astype(np.float64)
    demand = np.bincount(week, jobs.size * jobs.runtime_s / DAY_S, whole)[:whole]
    return arrivals, demand / np.maximum(arrivals, 1)


STATED = {"CTC": ("at most 3", "60"), "KTH": ("at most 3", "80"), "SDSC": ("as much as 7", "almost 100")}
"""By the beginning of a log's name: the paper's "factor from week to week" of arrivals, and its highest week [%]."""


def week_row(subject: OnlineSubject) -> list[str]:
    """Return the row of a log."""
    arrivals, demand = by_week(subject)
    pairs = np.maximum(np.stack([arrivals[:-1], arrivals[1:]]), 1)
    factor = pairs.max(axis=0) / pairs.min(axis=0)
    setup = subject.setup(ALWAYS_ON)
    replays = {one: run(one, subject.log) for one in experiments(subject.name, setup, WEEK_REPLAYS)}
    weekly = OnlineResults(replays, WEEK_REPLAYS).weekly(subject, setup, lambda result: result.weekly.utilization)
    used = [100 * value for value in weekly[: len(arrivals)] if value is not None]
    (stated,) = (row for begins, row in STATED.items() if subject.name.startswith(begins))
    return [
        subject.name,
        f"{arrivals.min():,.0f} to {arrivals.max():,.0f}",
        f"{np.quantile(factor, 0.9):.1f}",
        f"{factor.max():.1f}",
        stated[0],
        f"{demand.min():.2f} to {demand.max():.2f}",
        f"{min(used):.1f} to {max(used):.1f}",
        f"{median(used):.1f}",
        stated[1],
    ]


SWEEP_HEADERS = ["figure", "value", "rank of Jufit", "Juggle", "Jufit", "Dune", "jobs on Juggle, Jufit, Dune"]
WEEK_HEADERS = [
    "log",
    "arrivals",
    "factor, 90 %",
    "largest",
    "paper",
    "demand",
    "utilization",
    "median",
    "highest, paper",
]


def two_priced(market: DayAhead, zone: tzinfo) -> DayAhead:
    """Return a market with TWOPRICE's two prices, by the percentiles of all hours of June."""
    hour = market.price[: -WEEK_DAYS * WEEKS_MORE].ravel()
    start_s = market.start_s + HOUR_S * np.arange(len(hour))
    june = Series(start_s, int(start_s[-1]) + HOUR_S, hour, market.unit, "June 2014")
    day = value_at(two_price_curve(june, ClockHours(NOON_S, DAY_S, zone=zone)), start_s[:24])
    price, coming = (np.broadcast_to(day, days.shape) for days in (market.price, market.coming))
    return replace(market, price=price, coming=coming)


def two_prices(folder: Path, out: Path, minutes: int) -> str:
    """Return mean response and cost of TWOPRICE with these prices in cycles of so many minutes; jobs pay the market."""
    grid, markets = grid_of(folder, out, np.random.default_rng([1, 0]), most=2)
    seen = tuple(two_priced(market, site.site.zone) for market, site in zip(markets, grid.sites, strict=True))
    decider = broker.Decider(
        grid_policy("two-price"),
        GridRules(weights=Weights(25.0, 75.0), together=False),
        broker.LearnedWaits(SimilarJobs),
        Markets(seen),
    )
    outcome = outcome_of(grid, broker.run_grid(grid, decider, period_s=minutes * MINUTE_S))
    response_min = outcome.response_s[HISTORY:].mean() / MINUTE_S
    return f"TWOPRICE, all of June, {minutes} min: {response_min:.1f} min, {outcome.cost[HISTORY:].sum():,.0f} USD"


LOGS = ("CTC-SP2", "KTH-SP2", "SDSC-SP2", "SDSC-BLUE")


def subjects(folder: Path) -> Iterator[OnlineSubject]:
    """Yield the paper's logs from a folder."""
    yield from subjects_of([read_log(LogSource(name, folder / f"{name}.swf.gz")) for name in LOGS])


def write(name: str, rows: list[list[str]]) -> None:
    """Write a table with its headers."""
    with (FIGURES / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        prices = Path(sys.argv[2]).resolve()
        with TemporaryDirectory() as scratch:
            make_forecasts(places(prices, Path(scratch)), DAYS, LocalProcesses(1))
            for cycle_min in (5, 20):
                print(two_prices(prices, Path(scratch), cycle_min), flush=True)
    write("federation/sweeps", [SWEEP_HEADERS, *map(sweep_row, SWEEPS)])
    write("online-simulation/weeks", [WEEK_HEADERS, *map(week_row, subjects(Path(sys.argv[1])))])
