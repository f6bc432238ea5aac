"""What energy cost, and how much CO2 it stood for, in slots of time: means of the prices that held there."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from offpeak.errors import BadInput
from offpeak.ledger.buckets import QUARTER_S
from offpeak.ledger.tables import prices
from offpeak.time_range import TimeRange

Float64 = NDArray[np.float64]

WHOLE = 0.999
"""A slot of which less is priced has no price: its energy is told apart."""
LONGEST_PRICE_S = 7 * 86_400


@dataclass(frozen=True)
class SlotPrices:
    """A value a slot, NaN where none is known."""

    price_per_mwh: Float64
    carbon_g_per_kwh: Float64
    currency: str


def slot_prices(connection: Connection, start_s: Float64, length_s: float) -> SlotPrices:
    """Return the prices of slots of that length; BadInput if they are in two currencies."""
    span = TimeRange(float(start_s[0]) - LONGEST_PRICE_S, float(start_s[-1]) + length_s)
    columns = [prices.c[name] for name in ("from_unix_s", "until_unix_s", "price_per_mwh", "carbon_g_per_kwh")]
    within = (prices.c.from_unix_s >= span.from_unix_s) & (prices.c.from_unix_s < span.until_unix_s)
    rows = [tuple(row) for row in connection.execute(select(*columns).where(within).order_by(prices.c.from_unix_s))]
    currencies = connection.execute(select(prices.c.currency).where(within).distinct()).scalars().all()
    if len(currencies) > 1:
        hint = "ask for the time before and after the change apart: -S and -E"
        raise BadInput(f"prices of that time are in {' and '.join(sorted(currencies))}", hint=hint)
    table = np.array(rows, np.float64).reshape(-1, 4)
    values = [_means(table, column, start_s, length_s) for column in (2, 3)]
    return SlotPrices(values[0], values[1], next(iter(currencies), ""))


@dataclass(frozen=True)
class MeanPrice:
    """The mean of a time over what of it is priced, a share `known` of it; None where none of it is."""

    price_per_mwh: float | None
    carbon_g_per_kwh: float | None
    currency: str
    known: float


def mean_prices(connection: Connection, spans: Sequence[TimeRange]) -> list[MeanPrice]:
    """Return the mean price of each span, none of which is empty, by quarter-hours; BadInput if in two currencies."""
    if not spans:
        return []
    first_s = min(span.from_unix_s for span in spans) // QUARTER_S * QUARTER_S
    start_s = np.arange(first_s, max(span.until_unix_s for span in spans), QUARTER_S, dtype=np.float64)
    prices = slot_prices(connection, start_s, QUARTER_S)
    return [_mean_of(prices, start_s, span) for span in spans]


def _mean_of(prices: SlotPrices, start_s: Float64, span: TimeRange) -> MeanPrice:
    first, last = np.searchsorted(start_s, (span.from_unix_s - QUARTER_S, span.until_unix_s), side="right")
    within = slice(int(first), int(last))
    starts = start_s[within]
    inside_s = np.minimum(starts + QUARTER_S, span.until_unix_s) - np.maximum(starts, span.from_unix_s)
    means = [_weighted(values[within], inside_s) for values in (prices.price_per_mwh, prices.carbon_g_per_kwh)]
    known_s = inside_s[~np.isnan(prices.price_per_mwh[within])].sum()
    return MeanPrice(means[0], means[1], prices.currency, float(known_s / inside_s.sum()))


def _weighted(values: Float64, weight: Float64) -> float | None:
    known = ~np.isnan(values) & (weight > 0)
    return float(np.average(values[known], weights=weight[known])) if known.any() else None


def _means(table: Float64, column: int, start_s: Float64, length_s: float) -> Float64:
    known = table[~np.isnan(table[:, column])]
    if not len(known):
        return np.full(len(start_s), np.nan)
    # A price holds until its end, or until the next one begins before that.
    ends_s = np.minimum(known[:, 1], np.append(known[1:, 0], np.inf))
    edges_s = np.column_stack([known[:, 0], ends_s]).ravel()
    held_s = _running(ends_s - known[:, 0])
    paid = _running((ends_s - known[:, 0]) * known[:, column])
    covered_s, worth = (
        np.interp(start_s + length_s, edges_s, sums) - np.interp(start_s, edges_s, sums) for sums in (held_s, paid)
    )
    return np.where(covered_s >= WHOLE * length_s, worth / np.maximum(covered_s, 1e-9), np.nan)


def _running(each: Float64) -> Float64:
    """Return the sum up to the start and up to the end of every price."""
    sums = np.cumsum(each)
    return np.column_stack([sums - each, sums]).ravel()


def nan_to_none(values: Float64) -> Sequence[float | None]:
    """Return what a database takes."""
    return [None if np.isnan(value) else float(value) for value in values]
