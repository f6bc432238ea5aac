"""Means by the hour of the day on the log's local clock: when the machine draws power, and when it is dear."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import DAY_S, local_days, local_edges_s, to_local_s
from offpeak.model.step_integrals import integrals, integrate_known_time, integrate_series
from sim_backend.electricity import LaidSeries
from sim_backend.figures.power_curve import PowerCurve, integral_between

HOURS = 24
HOUR_S = 3600


@dataclass(frozen=True)
class ClockHours:
    """A period cut at every full hour of the local clock: piece i, of `hour[i]` o'clock, begins at `edges_s[i]`.

    `edges_s` (trace seconds) has one more entry, the end of the period.
    """

    edges_s: Int64
    hour: Int64


def clock_hours(laid: LaidSeries, begin_s: int, until_s: int) -> ClockHours:
    """Return the hours of the local clock from `begin_s` to `until_s`; a change of the clock cuts, too."""
    begin, until = begin_s + laid.offset_s, until_s + laid.offset_s
    days = local_days(begin, until, laid.zone)
    full_hours = np.arange(int(days[0]) * DAY_S, (int(days[-1]) + 1) * DAY_S, HOUR_S, dtype=np.int64)
    edges = local_edges_s(full_hours, laid.zone)
    inner = edges[(edges > begin) & (edges < until)]
    start = np.append(np.int64(begin), inner)
    hour = to_local_s(start, laid.zone) % DAY_S // HOUR_S
    return ClockHours(np.append(start, np.int64(until)) - laid.offset_s, hour)


def mean_by_hour(hours: ClockHours, curve: PowerCurve, value: Float64) -> Float64:
    """Return the time-weighted mean of a curve's value: float64[24], NaN for an hour that never comes."""
    return _means(hours, integral_between(curve.edges_s, value, hours.edges_s), np.diff(hours.edges_s))


def mean_price_by_hour(hours: ClockHours, laid: LaidSeries) -> Float64:
    """Return the time-weighted mean price: float64[24], NaN for an hour whose price is never known."""
    from_s, until_s = hours.edges_s[:-1], hours.edges_s[1:]
    paid = integrals(integrate_series(laid.series, laid.offset_s), from_s, until_s)
    return _means(hours, paid, integrals(integrate_known_time(laid.series, laid.offset_s), from_s, until_s))


def _means(hours: ClockHours, total: Float64, length_s: Float64 | Int64) -> Float64:
    total_by_hour = np.bincount(hours.hour, weights=total, minlength=HOURS)
    length_by_hour = np.bincount(hours.hour, weights=length_s, minlength=HOURS)
    return np.where(length_by_hour > 0, total_by_hour / np.maximum(length_by_hour, 1), np.nan)
