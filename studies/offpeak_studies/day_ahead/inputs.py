"""What a grid is made of: prices of 2014 with their forecasts, and the jobs of a site.

Each place has one file of hourly prices. Forecasts of a place are made once and kept: one day takes half a second and
depends on nothing but the prices. Jobs are drawn after Lublin, Feitelson and Tsafrir, fitted to the known arrivals and
load of a site. The paper adjusted the models by hand to the statistics of TeraGrid (9 h of run time on average, 3.27
jobs per hour and system) and does not print its parameters. Ours: sizes of the typeless model with the site's mean and
widest; run times that follow the authors' published test log; then all run times of a site are scaled to its load.
"""

import csv
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput, BadPrices
from offpeak.executor import Executor
from offpeak.files import replacing
from offpeak.model.arrays import Float64, Int64
from offpeak.predictors.prices.models import SARIMA, need_statsmodels
from offpeak.text import counted
from offpeak_studies.simulated_grid.grid import forecast_days
from offpeak_studies.workloads.lublin_model import (
    TYPELESS,
    Gamma,
    draw_arrivals,
    draw_runtimes_s,
    draw_sizes,
    stretched,
)
from offpeak_studies.workloads.tsafrir import tsafrir_estimates_s

HOURS = 24
SITES = "xsede_sites.csv"


@dataclass(frozen=True)
class SiteRow:
    """A row of the table of sites. `place` names the file of its prices; its clock is `lag_h` behind the first's."""

    name: str
    place: str
    cores: int
    watts_per_core: float
    lag_h: int
    gflops_per_core: float
    longest_s: int
    widest_cores: int


def site_rows(folder: Path | None) -> tuple[SiteRow, ...]:
    """Return the sites of XSEDE. Raises BadInput if the folder or the table is missing."""
    if folder is None or not (folder / SITES).is_file():
        raise BadInput(
            f"day-ahead needs the prices of 2014: no {SITES} in {folder or 'any folder, as none was named'}",
            hint="name the folder that holds it, XSEDE/ and NORDU/ with --prices",
        )
    with (folder / SITES).open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return tuple(_site_row(row) for row in rows)


def _site_row(row: list[str]) -> SiteRow:
    _, name, place, cores, watts, lag_h, gflops, longest_s, widest = row
    return SiteRow(
        name=name,
        place=place,
        cores=int(cores),
        watts_per_core=float(watts),
        lag_h=int(lag_h),
        gflops_per_core=float(gflops),
        longest_s=int(longest_s),
        widest_cores=int(widest),
    )


def daily_prices(file: Path) -> Float64:
    """Return whole days of hourly prices, float64[days, 24].

    Raises BadInput if the file does not exist, BadPrices if it has anything but numbers below its heading.
    """
    if not file.is_file():
        raise BadInput(f"{file}: there are no prices of that place", hint="name the whole folder with --prices")
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip()]
    try:
        hour = np.array([float(line) for line in lines[1:]])
    except ValueError as problem:
        raise BadPrices(f"{file}: {problem}", hint="a heading, then one price an hour") from None
    return hour[: len(hour) // HOURS * HOURS].reshape(-1, HOURS)


DAYS = range(5, 30)
"""The local days of June, from 0, on which the broker works."""


@dataclass(frozen=True)
class PricePlace:
    """A place: its price file, and the file of its forecasts."""

    prices: Path
    kept: Path


def places(folder: Path, out: Path) -> dict[str, PricePlace]:
    """Return the places of all systems by name."""
    names = dict.fromkeys(row.place for row in site_rows(folder))
    return {name: place_of(folder / "XSEDE" / f"{name}.csv", out) for name in names}


def place_of(prices: Path, out: Path) -> PricePlace:
    """Return the place with that price file; the digest of the prices names the file of its forecasts."""
    digest = hashlib.sha256(daily_prices(prices).tobytes()).hexdigest()[:16]
    return PricePlace(prices, out / f"forecasts-{digest}.npy")


def make_forecasts(every: Mapping[str, PricePlace], days: range, executor: Executor) -> str:
    """Make the missing forecasts of those days, one for places with the same prices, and return a note about them."""
    missing = {place.kept: place for place in every.values() if not place.kept.exists()}
    if missing:
        need_statsmodels()
    prices = {place.kept: daily_prices(place.prices) for place in missing.values()}

    def keep(kept: Path, coming: Float64) -> None:
        with replacing(kept) as file:
            np.save(file, coming)

    executor.run(partial(_forecast, prices, days), list(prices), keep)
    return f"prices: forecast by SARIMA from three days, {counted(len(every), 'place')}"


def _forecast(prices: Mapping[Path, Float64], days: range, kept: Path) -> Float64:
    return forecast_days(prices[kept], SARIMA, days)


def forecasts(place: PricePlace) -> Float64:
    """Return the forecasts that were made, float64[days, 4, 24]."""
    return np.asarray(np.load(place.kept), np.float64)


LONG_RUNS = replace(TYPELESS, short=Gamma(28.4, 0.282), long=Gamma(353.0, 0.0293), short_slope=0.0, short_at_0=0.14)
"""Log run times [ln s]: 14 % around 50 minutes, the others around 8.6 h."""
STEPS = 60


@dataclass(frozen=True)
class SiteDemand:
    """What the users of a site submit: a number of jobs in a span of time that request `load` of its cores (1: all).

    A job requests `mean_cores` on average and at most `widest`; `longest_s` is the site's limit.
    """

    jobs: int
    load: float
    mean_cores: float
    cores: int
    widest: int
    longest_s: int


@dataclass(frozen=True, eq=False)
class DrawnJobs:
    """Jobs as columns, in the order of their submission [s from a midnight of the site's clock]."""

    submit_s: Int64
    size: Int64
    runtime_s: Int64
    estimate_s: Int64


def draw(demand: SiteDemand, span_s: float, rng: Generator) -> DrawnJobs:
    """Draw the site's jobs over that span."""
    model = replace(LONG_RUNS, small=small_share(demand))
    size = draw_sizes(demand.jobs, model, demand.widest, rng)
    length_s = draw_runtimes_s(size, model, rng).astype(np.float64)
    runtime_s = at_load(size, length_s, demand, span_s)
    (arrivals,) = stretched((draw_arrivals(demand.jobs, TYPELESS, rng),), span_s)
    estimate_s = tsafrir_estimates_s(runtime_s, longest_s=demand.longest_s, rng=rng)
    return DrawnJobs(arrivals.submit_s(), size, runtime_s, estimate_s)


def small_share(demand: SiteDemand) -> float:
    """Return the model's probability of a small size with which the mean is that of the site."""
    highest = float(np.log2(demand.widest))
    medium = highest - LONG_RUNS.medium_below
    small, large = _mean_between(LONG_RUNS.lowest, medium), _mean_between(medium, highest)
    parallel = (demand.mean_cores - LONG_RUNS.serial) / (1 - LONG_RUNS.serial)
    return float(np.clip((large - parallel) / (large - small), 0.0, 1.0))


def _mean_between(low: float, high: float) -> float:
    """Return the mean of 2 ** x, x uniform in low..high."""
    return float((2**high - 2**low) / ((high - low) * np.log(2)))


def at_load(size: Int64, length_s: Float64, demand: SiteDemand, span_s: float) -> Int64:
    """Return the run times, scaled so that the jobs make the load and none is beyond the longest; int64[n]."""
    wanted = demand.load * demand.cores * span_s
    low, high = 0.0, 100.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        short = np.dot(size, np.minimum(middle * length_s, demand.longest_s)) < wanted
        low, high = (middle, high) if short else (low, middle)
    return np.maximum(np.rint(np.minimum(high * length_s, demand.longest_s)), 1).astype(np.int64)
