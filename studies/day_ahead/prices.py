"""Prices of 2014 and their forecasts: the folder of sites and hourly prices, one file for each place.

Forecasts of a place are made once and kept: one day takes half a second, and nothing but the prices goes in.
"""

import csv
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64
from offpeak.text import counted
from predictors.prices.models import SARIMA
from sim_backend.grid.electricity import forecast_days
from studies.resumable import run_all

HOURS = 24
SITES = "xsede_sites.csv"


@dataclass(frozen=True)
class SiteRow:
    """A row of the sites' table; `place` names the file of its prices, `lag_h` its clock behind the first site's."""

    name: str
    place: str
    cores: int
    watts_per_core: float
    lag_h: int
    gflops_per_core: float
    longest_s: int
    widest_cores: int


def site_rows(folder: Path | None) -> tuple[SiteRow, ...]:
    """Return the sites of XSEDE. BadInput if the folder or the table is missing."""
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
    """Return whole days of hourly prices, float64[days, 24]. BadInput if there is no such file, BadPrices if it has
    anything but numbers below its heading."""
    if not file.is_file():
        raise BadInput(f"{file}: there are no prices of that place", hint="name the whole folder with --prices")
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip()]
    try:
        hour = np.array([float(line) for line in lines[1:]])
    except ValueError as problem:
        raise BadPrices(f"{file}: {problem}", hint="a heading, then one price an hour") from None
    return hour[: len(hour) // HOURS * HOURS].reshape(-1, HOURS)


DAYS = range(5, 30)
"""Local days of June, from 0, on which the broker works."""


@dataclass(frozen=True)
class PricePlace:
    """A place's price file, and where its forecasts are kept."""

    prices: Path
    kept: Path


def places(folder: Path, out: Path) -> dict[str, PricePlace]:
    """Return the places of all systems by name."""
    names = dict.fromkeys(row.place for row in site_rows(folder))
    return {name: place_of(folder / "XSEDE" / f"{name}.csv", out) for name in names}


def place_of(prices: Path, out: Path) -> PricePlace:
    """Return the place with that price file; forecasts are kept under the prices' digest."""
    digest = hashlib.sha256(daily_prices(prices).tobytes()).hexdigest()[:16]
    return PricePlace(prices, out / f"forecasts-{digest}.npy")


def make_forecasts(every: Mapping[str, PricePlace], days: range, processes: int) -> str:
    """Make the forecasts of those days that are not there yet, and say in words what there is.

    Places with the same prices share theirs."""
    missing = {place.kept: place for place in every.values() if not place.kept.exists()}
    run_all(partial(_make, days), list(missing.values()), processes, lambda _place, _done: None)
    return f"prices: forecast by SARIMA from three days, {counted(len(every), 'place')}"


def _make(days: range, place: PricePlace) -> None:
    coming = forecast_days(daily_prices(place.prices), SARIMA, days)
    unfinished = place.kept.with_suffix(".part.npy")
    np.save(unfinished, coming)
    unfinished.replace(place.kept)


def forecasts(place: PricePlace) -> Float64:
    """Return the forecasts that were made, float64[days, 4, 24]."""
    return np.asarray(np.load(place.kept), np.float64)
