"""The daily cycle of arrivals, after Lublin and Feitelson 1999: many jobs in the afternoon, few at night.

In "even" time the whole day is alike. Even time runs through each half hour of the clock in proportion to that half
hour's weight, and both take 86,400 s for a day.
"""

import numpy as np

from offpeak.model.arrays import Float64
from sim_backend.workloads.lublin_model import Gamma

DAY_S = 86_400
BUCKETS = 48
FIRST_BUCKET = 11  # the cyclic day starts after 11 half hours, at 5:30
POINTS_PER_BUCKET = 65


def half_hour_weights(half_hour: Gamma) -> Float64:
    """Return the share of arrivals in each half hour from midnight, float64[48] of mean 1.

    The shares follow a gamma distribution over the half hours of the cyclic day.
    """
    half_hours = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS)
    x = half_hours[:, np.newaxis] + np.linspace(-0.5, 0.5, POINTS_PER_BUCKET)
    shares = np.trapezoid(np.exp((half_hour.shape - 1) * np.log(x) - x / half_hour.scale), axis=1)
    weights: Float64 = np.roll(shares, FIRST_BUCKET - 1) * BUCKETS / shares.sum()
    return weights


def clock_s(even_s: Float64, weights: Float64) -> Float64:
    """Return the seconds of the clock, from midnight of the first day, at which even time reaches `even_s`."""
    even, clock = _knots(weights)
    days = np.floor(even_s / DAY_S) * DAY_S
    into_day: Float64 = np.interp(even_s - days, even, clock)
    return days + into_day


def even_s(clock_s: float, weights: Float64) -> float:
    """Return the even time at one instant of the clock [s from midnight of the first day]."""
    even, clock = _knots(weights)
    days = clock_s // DAY_S * DAY_S
    return float(days + np.interp(clock_s - days, clock, even))


def _knots(weights: Float64) -> tuple[Float64, Float64]:
    clock = np.linspace(0, DAY_S, BUCKETS + 1)
    even = np.concatenate(([0.0], np.cumsum(weights))) * (DAY_S / BUCKETS)
    return even, clock
