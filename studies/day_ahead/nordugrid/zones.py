"""The price zones in which NorduGrid's systems stand, and what was published and forecast there in January 2014."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.step_integrals import StepIntegral, integrate_series
from offpeak.model.step_series import Series
from sim_backend.grid.electricity import HOUR_S, DayAhead
from studies.day_ahead.folder import daily_prices
from studies.day_ahead.forecasts import Place, forecasts, place_of

CLOCK = timezone(timedelta(hours=1))
JANUARY = datetime(2014, 1, 1, tzinfo=CLOCK)
"""All zones of the market clear on one clock, Central European Time."""
ZONES = {
    **{"SE1": 1, "SE2": 1, "SE3": 4, "SE4": 2},
    **{"Norway1": 2, "Norway3": 1, "Troms": 1, "FI": 5, "DK1": 1, "DK2": 2, "LT": 2, "LV": 1, "Slovenia1": 3},
    **{"Swiss_Static": 8, "UK_Static": 6, "Ukraine_Static": 10},
}
"""Systems by zone: 26 with prices by the hour and 24 with fixed ones, as in section 4.4; how many stand where is ours.
"""
DAYS = range(2, 14)
"""Local days of January, from 0, on which the broker works."""


@dataclass(frozen=True, eq=False)
class Zone:
    """What a broker knows of a zone's prices, and what is really paid there."""

    market: DayAhead
    meter: StepIntegral


def places(folder: Path | None, out: Path) -> dict[str, Place]:
    """Return the zones' price files by name. BadInput if the folder is missing."""
    if folder is None or not (folder / "NORDU").is_dir():
        raise BadInput(
            f"NorduGrid needs the prices of 2014: no NORDU/ in {folder or 'any folder, as none was named'}",
            hint="name the folder that holds NORDU/ with --prices",
        )
    return {name: place_of(folder / "NORDU" / f"{name}.csv", out) for name in ZONES}


def zone_of(place: Place) -> Zone:
    """Return a zone's prices."""
    price, start_s = daily_prices(place.prices), int(JANUARY.timestamp())
    market = DayAhead(price, forecasts(place), start_s, "EUR/MWh")
    hour = price.ravel()
    hours_s = start_s + HOUR_S * np.arange(len(hour))
    return Zone(
        market, integrate_series(Series(hours_s, int(hours_s[-1]) + HOUR_S, hour, market.unit, place.prices.stem), 0)
    )
