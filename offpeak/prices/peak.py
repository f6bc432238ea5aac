"""Which intervals of a series are dear: each rule is a small value that says on-peak, off-peak or unknown."""

from dataclasses import dataclass
from datetime import tzinfo
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.jobs import Int64
from offpeak.prices.clock_hours import ClockHours, parse_hours
from offpeak.prices.series import Series, split
from offpeak.suggest import did_you_mean
from offpeak.zones import DAY_S, local_days, local_edges_s, to_local_s

Int8 = NDArray[np.int8]


class Peak(IntEnum):
    """What a policy is told of an interval; UNKNOWN (a gap) means: leave the order alone."""

    OFF_PEAK = 0
    ON_PEAK = 1
    UNKNOWN = 2


class PeakRule(Protocol):
    """Where the classes may change, and which intervals are on-peak."""

    def edges_s(self, from_s: int, until_s: int, /) -> Int64:
        """Return the instants [Unix s] at which intervals must be cut before they are judged."""

    def on_peak(self, series: Series, /) -> NDArray[np.bool_]:
        """Return whether each interval of the cut series is on-peak; what it says of gaps is not used."""


@dataclass(frozen=True)
class AboveDayMean:
    """On-peak above the time-weighted mean of the local calendar day's known prices: never looks beyond the day."""

    zone: tzinfo

    def edges_s(self, from_s: int, until_s: int) -> Int64:
        """Return the local midnights."""
        return _midnights_s(from_s, until_s, self.zone)

    def on_peak(self, series: Series) -> NDArray[np.bool_]:
        """Return whether each interval lies above its day's mean; a flat day lies nowhere above it."""
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
        """Return whether each interval lies above its day's quantile."""
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
    """Return the series cut where its class may change, and the class (`Peak`) of each of its intervals, int8[n]."""
    cut = split(series, rule.edges_s(int(series.start_s[0]), series.end_s))
    peak = np.where(cut.known, rule.on_peak(cut), Peak.UNKNOWN).astype(np.int8)
    return cut, peak


def parse_peak_rule(text: str, *, zone: tzinfo) -> PeakRule:
    """Return the rule of "day-mean", "quantile:0.6" or "hours:09:00-23:00" on the zone's clock; BadInput otherwise."""
    name, _, value = text.partition(":")
    if text == "day-mean":
        return AboveDayMean(zone)
    if name == "quantile":
        return AboveQuantile(_share(value), zone)
    if name == "hours":
        from_s, until_s = parse_hours(value)
        return ClockHours(from_s, until_s, zone=zone)
    hint = did_you_mean(text, ("day-mean", "quantile:0.6", "hours:09:00-23:00"))
    raise BadInput(f"unknown on-peak rule {text!r}", hint=hint)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise BadInput(f"{text!r} is no quantile", hint="write it like quantile:0.6, from 0 to below 1")
    return share
