"""On-peak and off-peak: each rule is a small value that classifies an interval as on-peak, off-peak or unknown.

A rule compares prices with those of the local day, or reads the local clock: hours of the day, days of the week and
public holidays, exact over clock changes.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, timedelta, tzinfo
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.local_time import local_days, local_edges_s, to_local_s, weekday
from offpeak.model.step_series import Series, split, value_at
from offpeak.model.weighing import BY_CO2, CO2_UNIT, Weighing
from offpeak.text import did_you_mean

DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FIRST_DATE = date(1970, 1, 1)
_HOURS = re.compile(r"(\d\d?):(\d\d)-(\d\d?):(\d\d)")


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

    def on_peak_at(self, unix_s: Int64) -> NDArray[np.bool_]:
        """Return whether each instant is on-peak."""
        local_day, clock_s = np.divmod(to_local_s(unix_s, self.zone), DAY_S)
        free = np.isin(weekday(local_day), self.days, invert=True) | np.isin(local_day, self._holidays(local_day))
        after, before = clock_s >= self.from_s, clock_s < self.until_s
        return ~free & (after & before if self.from_s < self.until_s else after | before)

    def on_peak(self, series: Series) -> NDArray[np.bool_]:
        """Return whether each interval begins on-peak; `edges_s` returns where to cut it."""
        return self.on_peak_at(series.start_s)

    def edges_s(self, from_s: int, until_s: int) -> Int64:
        """Return all instants [Unix s] from `from_s` to `until_s` at which on-peak may begin or end, and others."""
        midnights = local_days(from_s, until_s, self.zone) * DAY_S
        clock_s = np.concatenate([midnights, midnights + self.from_s, midnights + self.until_s])
        edges = local_edges_s(clock_s, self.zone)
        return edges[(edges > from_s) & (edges < until_s)]

    def _holidays(self, local_day: Int64) -> Int64:
        if not self.holidays or len(local_day) == 0:
            return np.array([], np.int64)
        first, last = (_FIRST_DATE + timedelta(days=int(day)) for day in (local_day.min(), local_day.max()))
        return _holiday_days(self.holidays, first.year, last.year)


def _holiday_days(place: str, first_year: int, last_year: int) -> Int64:
    # Imported here because it takes a tenth of a second and few tariffs name a country.
    import holidays

    country, _, subdivision = place.partition("-")
    try:
        found = holidays.country_holidays(country, subdiv=subdivision or None, years=range(first_year, last_year + 1))
    except NotImplementedError:
        known = holidays.list_supported_countries()
        places = [f"{country}-{part}" for part in known[country]] if country in known else known
        raise BadInput(
            f"no public holidays known for {place!r}",
            hint=f"write a place such as DE or, with its part, such as DE-BY; {did_you_mean(place, places)}",
        ) from None
    return np.array([(day - _FIRST_DATE).days for day in found], np.int64)


def check_holidays(place: str) -> str:
    """Return `place` if its public holidays are known. Raises BadInput otherwise."""
    _holiday_days(place, 2024, 2024)
    return place


def parse_hours(text: str) -> tuple[int, int]:
    """Return "09:00-23:00" as seconds after midnight. Raises BadInput if it is invalid or the two are equal."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise BadInput(f"{text!r} are no hours of the day", hint="write them like 09:00-23:00 or 22:00-06:00")
    from_s, until_s = (
        int(hour) * HOUR_S + int(minute) * MINUTE_S for hour, minute in (match.group(1, 2), match.group(3, 4))
    )
    if from_s >= DAY_S or until_s > DAY_S or int(match[2]) > 59 or int(match[4]) > 59:
        raise BadInput(f"{text!r} are no hours of the day", hint="they lie between 00:00 and 24:00")
    if from_s == until_s:
        raise BadInput(f"the hours {text!r} begin where they end", hint="the whole day is 00:00-24:00")
    return from_s, until_s


def parse_days(text: str) -> tuple[int, ...]:
    """Return "mon-fri" as (0, 1, 2, 3, 4) and "sat" as (5,); a range may run over Sunday (fri-mon)."""
    first, _, last = text.lower().partition("-")
    begin, end = _day(first), _day(last or first)
    return tuple(sorted((begin + i) % 7 for i in range((end - begin) % 7 + 1)))


def _day(name: str) -> int:
    if name not in DAY_NAMES:
        raise BadInput(f"unknown day {name!r}", hint=f"write days like mon-fri or sat; {did_you_mean(name, DAY_NAMES)}")
    return DAY_NAMES.index(name)


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
