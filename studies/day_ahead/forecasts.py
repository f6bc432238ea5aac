"""Price forecasts of all places, made once: one day takes half a second, and nothing but the prices goes in."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.text import counted
from predictors.prices.models import SARIMA
from sim_backend.grid.electricity import forecast_days
from studies.day_ahead.folder import daily_prices, site_rows
from studies.parallel import run_all

DAYS = range(5, 30)
"""Local days of June, from 0, on which the broker works."""


@dataclass(frozen=True)
class Place:
    """A place's price file, and where its forecasts are kept."""

    prices: Path
    kept: Path


def places(folder: Path, out: Path) -> dict[str, Place]:
    """Return the places of all systems by name."""
    names = dict.fromkeys(row.place for row in site_rows(folder))
    return {name: place_of(folder / "XSEDE" / f"{name}.csv", out) for name in names}


def place_of(prices: Path, out: Path) -> Place:
    """Return the place with that price file; forecasts are kept under the prices' digest."""
    digest = hashlib.sha256(daily_prices(prices).tobytes()).hexdigest()[:16]
    return Place(prices, out / f"forecasts-{digest}.npy")


def make_forecasts(every: Mapping[str, Place], days: range, processes: int) -> str:
    """Make the forecasts of those days that are not there yet, and say in words what there is.

    Places with the same prices share theirs."""
    missing = {place.kept: place for place in every.values() if not place.kept.exists()}
    run_all(partial(_make, days), list(missing.values()), processes, lambda _place, _done: None)
    return f"prices: forecast by SARIMA from three days, {counted(len(every), 'place')}"


def _make(days: range, place: Place) -> None:
    coming = forecast_days(daily_prices(place.prices), SARIMA, days)
    unfinished = place.kept.with_suffix(".part.npy")
    np.save(unfinished, coming)
    unfinished.replace(place.kept)


def forecasts(place: Place) -> Float64:
    """Return the forecasts that were made, float64[days, 4, 24]."""
    return np.asarray(np.load(place.kept), np.float64)
