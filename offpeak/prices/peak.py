"""On-peak and off-peak: each rule is a small value that classifies an interval as on-peak, off-peak or unknown.

A rule compares prices with those of the local day, or reads the local clock: hours of the day, days of the week and
public holidays, exact over clock changes.
"""

import math
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import local_days, local_edges_s, to_local_s
from offpeak.model.step_series import Series, split, value_at
from offpeak.model.weighing import BY_CO2, CO2_UNIT, Weighing
from offpeak.prices.rates import ClockWindow, TariffCalendar, parse_hours
from offpeak.text import did_you_mean


@dataclass(frozen=True)
class ClockHours:
    """An instant is on-peak when its local date is one of `days`, is no holiday, and its clock is within the hours.

    `from_s` and `until_s` are seconds after local midnight; from > until means over midnight (22:00-06:00 holds from
    0:00 to 6:00 and from 22:00 to 24:00 of each such date). `days`: 0 is Monday. `holidays`: country, or country and
    subdivision ("DE-BY"), whose public holidays are off-peak all day; "" for none.
    """

    from_s: int = 9 * HOUR_S
    until_s: int = 23 * HOUR_S
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    holidays: str = ""
    zone: tzinfo = UTC

    @property
    def calendar(self) -> TariffCalendar:
        """The clock and its holidays."""
        return TariffCalendar(self.zone, (self.holidays,) if self.holidays else ())

    @property
    def window(self) -> ClockWindow:
        """The hours as a window, which contains no holiday."""
        return ClockWindow(((self.from_s, self.until_s),), self.days)

    def on_peak_at(self, unix_s: Int64) -> NDArray[np.bool_]:
        """Return whether each instant is on-peak."""
        return np.asarray(self.window.mask.ravel()[self.calendar.cells(unix_s)])

    def on_peak(self, series: Series) -> NDArray[np.bool_]:
        """Return whether each interval begins on-peak; `edges_s` returns where to cut it."""
        return self.on_peak_at(series.start_s)

    def edges_s(self, from_s: int, until_s: int) -> Int64:
        """Return all instants [Unix s] from `from_s` to `until_s` at which on-peak may begin or end, and others."""
        return self.calendar.edges_s(self.window.mask, from_s, until_s)


Int8 = NDArray[np.int8]


class Peak(IntEnum):
    """The class of an interval for a policy; UNKNOWN (a gap) means: do not change the order."""

    OFF_PEAK = 0
    ON_PEAK = 1
    UNKNOWN = 2


class PeakRule(Protocol):
    """Where the classes may change, and which intervals are on-peak."""

    def edges_s(self, from_s: int, until_s: int, /) -> Int64:
        """Return the instants [Unix s] at which intervals must be cut before they are judged."""

    def on_peak(self, series: Series, /) -> NDArray[np.bool_]:
        """Return whether each interval of the cut series is on-peak; the result for gaps is not used."""


@dataclass(frozen=True)
class AboveDayMean:
    """On-peak above the time-weighted mean of the local calendar day's known prices: never looks beyond the day."""

    zone: tzinfo

    def edges_s(self, from_s: int, until_s: int) -> Int64:
        """Return the local midnights."""
        return _midnights_s(from_s, until_s, self.zone)

    def on_peak(self, series: Series) -> NDArray[np.bool_]:
        """Return whether each interval is above its day's mean; a flat day has none."""
        known_s, day = _known_s_and_day(series, self.zone)
        # Counted from the day's lowest price, so that on a flat day no rounding lifts a price above the mean.
        lowest = np.full(day.max() + 1, np.inf)
        np.fmin.at(lowest, day, series.value)
        above_lowest = np.where(series.known, series.value - lowest[day], 0.0)
        total = np.bincount(day, weights=above_lowest * known_s)
        mean = total / np.maximum(np.bincount(day, weights=known_s), 1)
        on_peak: NDArray[np.bool_] = above_lowest > mean[day]
        return on_peak


@dataclass(frozen=True)
class AboveQuantile:
    """On-peak above the `q`-quantile of the local calendar day's known prices, weighted by time.

    The quantile is the lowest price that at least the share `q` of the day does not exceed, so at most 1 - q of a day
    is on-peak. Never looks beyond the day.
    """

    q: float
    zone: tzinfo

    def edges_s(self, from_s: int, until_s: int) -> Int64:
        """Return the local midnights."""
        return _midnights_s(from_s, until_s, self.zone)

    def on_peak(self, series: Series) -> NDArray[np.bool_]:
        """Return whether each interval is above its day's quantile."""
        known_s, day = _known_s_and_day(series, self.zone)
        # NaN is sorted last and has no length: gaps neither move the quantile nor are above it.
        order = np.lexsort((series.value, day))
        day_s = np.bincount(day, weights=known_s)
        needed_s = np.rint(np.cumsum(day_s) - day_s + self.q * day_s)
        reached = np.searchsorted(np.cumsum(known_s[order]), needed_s, side="left")
        cheapest = np.searchsorted(day[order], np.arange(len(day_s)))
        quantile = series.value[order][np.maximum(reached, cheapest)]
        on_peak: NDArray[np.bool_] = series.value > quantile[day]
        return on_peak


def _midnights_s(from_s: int, until_s: int, zone: tzinfo) -> Int64:
    return local_edges_s(local_days(from_s, until_s, zone) * DAY_S, zone)


def _known_s_and_day(series: Series, zone: tzinfo) -> tuple[Int64, Int64]:
    """Return the length [s] of each interval, 0 in gaps, and its local day, counted from the first."""
    local_day = to_local_s(series.start_s, zone) // DAY_S
    return np.where(series.known, series.length_s, 0), local_day - local_day.min()


def classify(series: Series, rule: PeakRule) -> tuple[Series, Int8]:
    """Return the series, cut wherever its class may change, and the class (`Peak`) of each interval, int8[n]."""
    cut = split(series, rule.edges_s(int(series.start_s[0]), series.end_s))
    peak = np.where(cut.known, rule.on_peak(cut), Peak.UNKNOWN).astype(np.int8)
    return cut, peak


def parse_peak_rule(text: str, *, zone: tzinfo) -> PeakRule:
    """Return the rule of "day-mean", "quantile:0.6" or "hours:09:00-23:00" in the time zone. Raises BadInput."""
    name, _, value = text.partition(":")
    if text == "day-mean":
        return AboveDayMean(zone)
    if name == "quantile":
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if not 0 <= share < 1:
            raise BadInput(f"{value!r} is not a quantile", hint="write it like quantile:0.6, from 0 to below 1")
        return AboveQuantile(share, zone)
    if name == "hours":
        from_s, until_s = parse_hours(value)
        return ClockHours(from_s, until_s, zone=zone)
    hint = did_you_mean(text, ("day-mean", "quantile:0.6", "hours:09:00-23:00"))
    raise BadInput(f"unknown on-peak rule {text!r}", hint=hint)


def weigh(price: Series, carbon: Series | float | None, weighing: Weighing) -> Series:
    """Return what decisions go by [per MWh], over the time of the prices; a gap where the price or CO2 is not known.

    `carbon` is in g/kWh, the same as kg/MWh. By CO2 alone the result is in kg of CO2.
    """
    if not weighing.needs_carbon:
        return price
    if isinstance(carbon, Series):
        price = split(price, np.append(carbon.start_s, carbon.end_s))
        kg_per_mwh = value_at(carbon, price.start_s)
    else:
        kg_per_mwh = np.full(len(price), math.nan if carbon is None else carbon)
    if weighing == BY_CO2:
        return Series(price.start_s, price.end_s, kg_per_mwh, CO2_UNIT, "carbon intensity")
    value = price.value + weighing.co2_per_t / 1000 * kg_per_mwh
    return Series(price.start_s, price.end_s, value, f"{price.currency}+CO2/MWh", price.source)
