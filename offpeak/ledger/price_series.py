"""The prices of a time as they stand in the ledger, and the carbon intensity beside them, as series with gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, select

from offpeak.errors import BadInput
from offpeak.jobs import Float64
from offpeak.ledger.slot_prices import LONGEST_PRICE_S
from offpeak.ledger.tables import prices
from offpeak.prices.series import Series, merge
from offpeak.prices.tariff import ASSUMED_TARIFF_BASIS, TARIFF_BASIS
from offpeak.time_range import TimeRange

SOURCE = "ledger"
TARIFFS = (TARIFF_BASIS, ASSUMED_TARIFF_BASIS)


@dataclass(frozen=True)
class BookedPrices:
    """Prices per MWh, carbon intensity [g/kWh] or None where none is known, and whether all were those of a tariff."""

    price: Series
    carbon: Series | None
    by_tariff: bool


def booked_prices(connection: Connection, span: TimeRange) -> BookedPrices | None:
    """Return what held in that time; None where no price is known, BadInput where they are in two currencies."""
    rows, starts_s, ends_s = _rows(connection, span)
    if not rows:
        return None
    currencies = sorted({row.currency for row in rows})
    if len(currencies) > 1:
        raise BadInput(f"prices of that time are in {' and '.join(currencies)}", hint="a replay is paid in one of them")
    price = _series(starts_s, ends_s, np.array([row.price_per_mwh for row in rows]), f"{currencies[0]}/MWh")
    grams = np.array([np.nan if row.carbon_g_per_kwh is None else row.carbon_g_per_kwh for row in rows])
    carbon = None if np.isnan(grams).all() else _series(starts_s, ends_s, grams, "g/kWh")
    return BookedPrices(price, carbon, all(row.source in TARIFFS for row in rows))


def assumed_share(connection: Connection, span: TimeRange) -> float:
    """Return for which share of the priced time no price was set, so that an assumed tariff stands in the ledger."""
    rows, starts_s, ends_s = _rows(connection, span)
    within_s = np.minimum(ends_s, span.until_unix_s) - np.maximum(starts_s, span.from_unix_s)
    is_assumed = np.array([row.source == ASSUMED_TARIFF_BASIS for row in rows], np.bool_)
    return float(within_s[is_assumed].sum() / within_s.sum()) if within_s.any() else 0.0


def _rows(connection: Connection, span: TimeRange) -> tuple[Sequence[Row[Any]], Float64, Float64]:
    """Return the prices of that time and where each begins and ends: at its end, or where the next one begins."""
    after = prices.c.from_unix_s >= span.from_unix_s - LONGEST_PRICE_S
    of_time = (prices.c.from_unix_s < span.until_unix_s) & after
    rows = connection.execute(select(prices).where(of_time).order_by(prices.c.from_unix_s)).all()
    starts_s = np.array([row.from_unix_s for row in rows], np.float64)
    ends_s = np.minimum([row.until_unix_s for row in rows], np.append(starts_s[1:], np.inf)[: len(rows)])
    # A price ends before that time, too, where one that began later has replaced it.
    held = ends_s > span.from_unix_s
    return [row for row, is_held in zip(rows, held, strict=True) if is_held], starts_s[held], ends_s[held]


def _series(starts_s: Float64, ends_s: Float64, value: Float64, unit: str) -> Series:
    """Return the series; where one interval does not end at the next one's start, a gap stands between them."""
    gaps = np.flatnonzero(ends_s[:-1] < starts_s[1:])
    at_s = np.insert(starts_s, gaps + 1, ends_s[gaps]).astype(np.int64)
    return merge(Series(at_s, int(ends_s[-1]), np.insert(value, gaps + 1, np.nan), unit, SOURCE))
