"""Price files that forecasts are scored on: dated ones, ones with published forecasts, ones with prices alone."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path

from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64
from offpeak.model.local_time import parse_zone, zone_text
from offpeak.prices.file import CsvTable, first_numeric, read_series, read_table
from offpeak.prices.layout import PriceFileLayout, unit_of
from predictors.feeds.markets import MARKETS, Market
from predictors.prices.history import PriceHistory, price_history

LOCAL_TIME = "local_time"
# The code of ISO 4217 for "no currency": what is scored does not depend on it.
NO_CURRENCY = "XXX/MWh"
# Nord Pool's system price, which nobody pays and benchmarks of forecasts use.
SYSTEM_PRICE = Market("NP", "NO", clock="Europe/Oslo")
BY_NAME = {name: market for market in (*MARKETS, SYSTEM_PRICE) for name in (market.zone, market.maps)}
HOUR_S = 3600


@dataclass(frozen=True, eq=False)
class PriceFile:
    """What is forecast, and what forecasts need to know of it.

    `published` are forecasts of others by name, float64 of as many steps as `history`. `zone` and `holidays` are as
    PricePredictor takes them; `clock` says in words where they are from. `unit` is "" where the file does not tell it.
    """

    name: str
    unit: str
    history: PriceHistory
    published: tuple[tuple[str, Float64], ...]
    zone: tzinfo
    holidays: str | None
    clock: str


def read_price_file(path: Path, *, start: str | None = None) -> PriceFile:
    """Return the file of one of three kinds. BadPrices or BadInput for what cannot be read.

    * With a column `local_time`: 24 rows each day of a clock that is never changed. The first column of numbers is the
      price, further ones are published forecasts of it.
    * With one column: hourly prices from midnight of the day `start` ("2014-06-01") on, or from that of an unknown day.
    * Else with times in UTC or with an offset: days are those of the market that the file's name tells, else of UTC.
    """
    table = read_table(path, with_empty_lines=False)
    if LOCAL_TIME in table.columns:
        return _with_published(path, table)
    return _undated(path, start) if len(table.columns) == 1 else _dated(path)


def _with_published(path: Path, table: CsvTable) -> PriceFile:
    market = market_in(path.name)
    price = first_numeric(table, besides=(LOCAL_TIME,))
    others = [name for name in table.columns if name not in (LOCAL_TIME, price)]
    history, *published = (_column(path, name) for name in (price, *others))
    forecasts = tuple((f"published {name}", each.price) for name, each in zip(others, published, strict=True))
    holidays = country_of(market)
    return PriceFile(
        str(path), _unit(path), history, forecasts, UTC, holidays, f"local, without changes{_of(holidays)}"
    )


def _column(path: Path, name: str) -> PriceHistory:
    return price_history(read_series(path, PriceFileLayout(LOCAL_TIME, name, _unit(path) or NO_CURRENCY, UTC)))


def _undated(path: Path, start: str | None) -> PriceFile:
    unit = _unit(path)
    layout = PriceFileLayout(unit=unit or NO_CURRENCY, start_s=_midnight_s(start) if start else 0, step_s=HOUR_S)
    history = price_history(read_series(path, layout))
    if start is None:
        return PriceFile(
            str(path), unit, history, (), UTC, None, "no dates: weekdays and public holidays are not known"
        )
    holidays = country_of(market_in(path.name))
    clock = f"local, without changes, from {start} as told{_of(holidays)}"
    return PriceFile(str(path), unit, history, (), UTC, holidays, clock)


def _dated(path: Path) -> PriceFile:
    market = market_in(path.name)
    zone = parse_zone(market.clock) if market else UTC
    history = price_history(read_series(path, PriceFileLayout(unit=_unit(path) or NO_CURRENCY)))
    holidays = country_of(market)
    return PriceFile(str(path), _unit(path), history, (), zone, holidays, f"{zone_text(zone)}{_of(holidays)}")


def market_in(file_name: str) -> Market | None:
    """Return the market that a part of the name tells: "DE-LU" of "price_DE-LU_2024_eur_per_mwh.csv.gz"."""
    return next((BY_NAME[part] for part in re.split(r"[_.]", file_name) if part in BY_NAME), None)


def country_of(market: Market | None) -> str:
    """Return the country whose public holidays hold in the market, "" of none."""
    return market.maps.partition("-")[0] if market else ""


def _of(holidays: str) -> str:
    return f", public holidays of {holidays}" if holidays else ", no public holidays"


def _unit(path: Path) -> str:
    try:
        return unit_of(PriceFileLayout(), path.name)[0]
    except BadPrices:
        return ""


def _midnight_s(start: str) -> int:
    try:
        day = date.fromisoformat(start)
    except ValueError:
        raise BadInput(f"cannot read the date {start!r}", hint="write it like 2014-06-01") from None
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
