"""Arrivals with a daily cycle, after Lublin and Feitelson 1999: many jobs in the afternoon, few at night.

Gaps between jobs are drawn in "even" time, in which the whole day is alike. Even time runs through each half hour
of the clock in proportion to that half hour's weight, and both take 86,400 s for a day. This is the original
program's walk from bucket to bucket, for all jobs at once.
"""

import numpy as np
from numpy.random import Generator

from offpeak.jobs import Float64, Int64
from sim_backend.workloads.lublin_model import Gamma, Lublin

DAY_S = 86_400
BUCKETS = 48
FIRST_BUCKET = 11  # the cyclic day starts after 11 half hours, at 5:30
POINTS_PER_BUCKET = 65
LONGEST_GAP_LOG = 13.0  # e^13 s are five days
BLOCK = 1 << 18  # jobs drawn at a time: bounds the memory for intermediate results


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


def blocks(count: int) -> list[slice]:
    """Cut 0..count into slices of at most BLOCK."""
    return [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]


def draw_submits_s(count: int, model: Lublin, rng: Generator, *, span_s: float | None) -> Int64:
    """Draw submit times [s from a midnight], int64[count], ascending, over exactly `span_s` unless that is None."""
    weights = half_hour_weights(model.half_hour)
    even = np.empty(count)
    for block in blocks(count):
        even[block] = _draw_gaps_s(block.stop - block.start, model, rng)
    np.cumsum(even, out=even)
    if span_s is not None:
        _stretch(even, span_s, weights)
    submit_s = np.empty(count, np.int64)
    for block in blocks(count):
        submit_s[block] = clock_s(even[block], weights)
    return submit_s


def _draw_gaps_s(count: int, model: Lublin, rng: Generator) -> Float64:
    log_s = np.full(count, np.inf)
    while len(excess := np.flatnonzero(log_s > LONGEST_GAP_LOG)):
        log_s[excess] = rng.gamma(model.gap.shape, model.gap.scale, len(excess))
    gaps_s: Float64 = np.exp(log_s)
    return gaps_s


def _stretch(even: Float64, span_s: float, weights: Float64) -> None:
    """Scale the gaps, in place, so that the last job comes `span_s` of the clock after the first."""
    first = float(even[0])
    last = even_s(float(clock_s(even[:1], weights)[0]) + span_s, weights)
    even -= first
    even *= (last - first) / even[-1]
    even += first
