"""The prices and the carbon intensity in the ledger: means over slots of time, and series with gaps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Row, case, select

from offpeak.errors import BadInput
from offpeak.ledger.tables import prices
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.step_series import IntegralCurve, Series, merge, running_integral
from offpeak.model.time_range import TimeRange
from offpeak.prices.tariff import ASSUMED_TARIFF_BASIS, CHARGED, TARIFF_BASIS

SlotValues = NDArray[np.float64]

PRICED_SHARE = 0.999
"""A slot with a smaller priced share has no price: its energy counts as unpriced."""
LONGEST_PRICE_S = 7 * DAY_S


@dataclass(frozen=True)
class SlotPrices:
    """A value a slot, NaN if none is known. `charged` is the share of its time with a price that a tariff charged."""

    price_per_mwh: SlotValues
    carbon_g_per_kwh: SlotValues
    currency: str
    charged: SlotValues


def slot_prices(connection: Connection, start_s: SlotValues, length_s: float) -> SlotPrices:
    """Return the prices of slots of that length. Raises BadInput if they are in two currencies."""
    within = _begin_within(start_s, length_s)
    currencies = connection.execute(select(prices.c.currency).where(within).distinct()).scalars().all()
    if len(currencies) > 1:
        hint = "ask for the time before and after the change apart: -S and -E"
        raise BadInput(f"prices of that time are in {' and '.join(sorted(currencies))}", hint=hint)
    table = _price_table(connection, within)
    price_per_mwh, carbon_g_per_kwh, charged = (_means(table, column, start_s, length_s) for column in (2, 3, 4))
    return SlotPrices(price_per_mwh, carbon_g_per_kwh, next(iter(currencies), ""), charged)


def slot_intensities(connection: Connection, start_s: SlotValues, length_s: float) -> SlotPrices:
    """Return the carbon intensity of slots of that length without their prices, whose currency may change."""
    table = _price_table(connection, _begin_within(start_s, length_s))
    unknown = np.full(len(start_s), np.nan)
    return SlotPrices(unknown, _means(table, 3, start_s, length_s), "", unknown)


PriceReader = Callable[[Connection, SlotValues, float], SlotPrices]


def _begin_within(start_s: SlotValues, length_s: float) -> ColumnElement[bool]:
    begin = prices.c.from_unix_s
    return (begin >= float(start_s[0]) - LONGEST_PRICE_S) & (begin < float(start_s[-1]) + length_s)


def _price_table(connection: Connection, within: ColumnElement[bool]) -> SlotValues:
    columns = [prices.c[name] for name in ("from_unix_s", "until_unix_s", "price_per_mwh", "carbon_g_per_kwh")]
    charged = case((prices.c.source.endswith(CHARGED, autoescape=True), 1.0), else_=0.0)
    found = select(*columns, charged).where(within).order_by(prices.c.from_unix_s)
    return np.array([tuple(row) for row in connection.execute(found)], np.float64).reshape(-1, 5)


@dataclass(frozen=True)
class MeanPrice:
    """The means over the parts of a time that have a value, shares `known` and `carbon_known`; None if no part has."""

    price_per_mwh: float | None
    carbon_g_per_kwh: float | None
    currency: str
    known: float
    carbon_known: float = 0.0


def mean_prices(
    connection: Connection, spans: Sequence[TimeRange], *, read_prices: PriceReader = slot_prices
) -> list[MeanPrice]:
    """Return the mean price of each span, none of which is empty, by quarter-hours.

    Raises BadInput if in two currencies, unless `read_prices` reads the intensity only.
    """
    if not spans:
        return []
    first_s = min(span.from_unix_s for span in spans) // QUARTER_S * QUARTER_S
    start_s = np.arange(first_s, max(span.until_unix_s for span in spans), QUARTER_S, dtype=np.float64)
    prices = read_prices(connection, start_s, QUARTER_S)
    return [_mean_of(prices, start_s, span) for span in spans]


def _mean_of(prices: SlotPrices, start_s: SlotValues, span: TimeRange) -> MeanPrice:
    first, last = np.searchsorted(start_s, (span.from_unix_s - QUARTER_S, span.until_unix_s), side="right")
    within = slice(int(first), int(last))
    starts = start_s[within]
    inside_s = np.minimum(starts + QUARTER_S, span.until_unix_s) - np.maximum(starts, span.from_unix_s)
    columns = [values[within] for values in (prices.price_per_mwh, prices.carbon_g_per_kwh)]
    means = [_weighted(values, inside_s) for values in columns]
    known = [float(inside_s[~np.isnan(values)].sum() / inside_s.sum()) for values in columns]
    return MeanPrice(means[0], means[1], prices.currency, *known)


def _weighted(values: SlotValues, weight: SlotValues) -> float | None:
    known = ~np.isnan(values) & (weight > 0)
    return float(np.average(values[known], weights=weight[known])) if known.any() else None


def _means(table: SlotValues, column: int, start_s: SlotValues, length_s: float) -> SlotValues:
    known = table[~np.isnan(table[:, column])]
    if not len(known):
        return np.full(len(start_s), np.nan)
    # A price holds until its end, or until the next one begins before that.
    ends_s = np.minimum(known[:, 1], np.append(known[1:, 0], np.inf))
    edges_s = np.column_stack([known[:, 0], ends_s]).ravel()
    # Every second stretch between edges is a gap.
    covered_s, worth = (
        IntegralCurve(edges_s, running_integral(edges_s, held)).between(start_s, start_s + length_s)
        for held in (_with_gaps(np.ones(len(known))), _with_gaps(known[:, column]))
    )
    return np.where(covered_s >= PRICED_SHARE * length_s, worth / np.maximum(covered_s, 1e-9), np.nan)


def _with_gaps(values: SlotValues) -> SlotValues:
    return np.column_stack([values, np.zeros(len(values))]).ravel()[:-1]


def nan_to_none(values: SlotValues) -> Sequence[float | None]:
    """Return the values with None for NaN."""
    return [None if np.isnan(value) else float(value) for value in values]


LEDGER_SOURCE = "ledger"
TARIFFS = (TARIFF_BASIS, ASSUMED_TARIFF_BASIS)


@dataclass(frozen=True)
class LedgerPrices:
    """Prices per MWh, carbon intensity [g/kWh] or None if none is known, and whether all were those of a tariff."""

    price: Series
    carbon: Series | None
    by_tariff: bool


def read_prices(connection: Connection, span: TimeRange) -> LedgerPrices | None:
    """Return the prices of that time; None if none is known, BadInput if they are in two currencies."""
    rows, starts_s, ends_s = _price_rows(connection, span)
    if not rows:
        return None
    currencies = sorted({row.currency for row in rows})
    if len(currencies) > 1:
        raise BadInput(f"prices of that time are in {' and '.join(currencies)}", hint="a replay is paid in one of them")
    price = _series(starts_s, ends_s, np.array([row.price_per_mwh for row in rows]), f"{currencies[0]}/MWh")
    grams = np.array([np.nan if row.carbon_g_per_kwh is None else row.carbon_g_per_kwh for row in rows])
    carbon = None if np.isnan(grams).all() else _series(starts_s, ends_s, grams, "g/kWh")
    return LedgerPrices(price, carbon, all(row.source.removesuffix(CHARGED) in TARIFFS for row in rows))


def assumed_share(connection: Connection, span: TimeRange) -> float:
    """Return the share of the priced time whose price in the ledger is that of an assumed tariff."""
    rows, starts_s, ends_s = _price_rows(connection, span)
    within_s = np.minimum(ends_s, span.until_unix_s) - np.maximum(starts_s, span.from_unix_s)
    is_assumed = np.array([row.source.removesuffix(CHARGED) == ASSUMED_TARIFF_BASIS for row in rows], np.bool_)
    return float(within_s[is_assumed].sum() / within_s.sum()) if within_s.any() else 0.0


def _price_rows(connection: Connection, span: TimeRange) -> tuple[Sequence[Row[Any]], Float64, Float64]:
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
    """Return the series; there is a gap if an interval ends before the start of the next one."""
    gaps = np.flatnonzero(ends_s[:-1] < starts_s[1:])
    at_s = np.insert(starts_s, gaps + 1, ends_s[gaps]).astype(np.int64)
    return merge(Series(at_s, int(ends_s[-1]), np.insert(value, gaps + 1, np.nan), unit, LEDGER_SOURCE))
