"""The workload model of Lublin and Feitelson: its parameters, arrivals on the daily cycle, sizes and run times.

Lublin and Feitelson, "The workload on parallel supercomputers", JPDC 63(11), 2003, and its program of 1999. One frozen
value holds the parameters of each kind of job. Long columns are drawn in pieces to bound the memory for intermediate
results.

The daily cycle has many jobs in the afternoon and few at night. In "even" time the rate is constant over the day: even
time passes through each half hour of the clock in proportion to that half hour's weight, and a day has 86,400 s in
both.

Arrivals: gaps are drawn in even time and mapped to the daily cycle. This is the original program's walk from half hour
to half hour, for all jobs at once, with one difference: the program truncates each gap to whole seconds when it adds
them up, and so runs ahead of its own cycle by half a second per job, 1.4 hours in 10,000 jobs.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S

BLOCK = 1 << 18


def blocks(count: int) -> list[slice]:
    """Divide 0..count into slices of at most BLOCK."""
    return [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]


@dataclass(frozen=True)
class Gamma:
    """A gamma distribution."""

    shape: float
    scale: float


@dataclass(frozen=True)
class Lublin:
    """The model's parameters for one kind of job.

    Log2 sizes of parallel jobs are uniform in lowest..medium (with `small` probability) or medium..highest, where
    highest lies `highest_below` the machine's log2 size and medium `medium_below` highest. Log run times [ln s] are
    `short` with probability `short_slope * size + short_at_0`, else `long`. Log gaps [ln s] are `gap`, half hours of
    arrival are `half_hour`.
    """

    serial: float
    power_of_two: float
    lowest: float
    medium_below: float
    highest_below: float
    small: float
    short: Gamma
    long: Gamma
    short_slope: float
    short_at_0: float
    gap: Gamma
    half_hour: Gamma


BATCH = Lublin(
    serial=0.2927,
    power_of_two=0.6686,
    lowest=1.2,
    medium_below=2.0,
    highest_below=0.0,
    small=0.875,
    short=Gamma(6.57, 0.823),
    long=Gamma(639.1, 0.0156),
    short_slope=-0.003,
    short_at_0=0.6986,
    gap=Gamma(6.0415 * 1.0519, 0.8531),
    half_hour=Gamma(6.1271, 5.2740),
)
INTERACTIVE = Lublin(
    serial=0.1541,
    power_of_two=0.625,
    lowest=1.0,
    medium_below=2.5,
    highest_below=1.5,  # 45 of the program's 128 nodes
    small=0.705,
    short=Gamma(3.8351, 0.6605),
    long=Gamma(7.073, 0.6856),
    short_slope=-0.0118,
    short_at_0=0.9156,
    gap=Gamma(6.5510 * 0.9797, 0.6621),
    half_hour=Gamma(8.9186, 3.6680),
)
# Batch and interactive jobs together, as the model's program generates them without INCLUDE_JOBS_TYPE.
TYPELESS = Lublin(
    serial=0.244,
    power_of_two=0.576,
    lowest=0.8,
    medium_below=2.5,
    highest_below=0.0,
    small=0.86,
    short=Gamma(4.2, 0.94),
    long=Gamma(312.0, 0.03),
    short_slope=-0.0054,
    short_at_0=0.78,
    gap=Gamma(10.2303 * 1.0225, 0.4871),
    half_hour=Gamma(8.1737, 3.9631),
)

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
    """Return the clock times [s from midnight of the first day] at which even time reaches `even_s`."""
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


LONGEST_GAP_LOG = 13.0  # e^13 s are five days


@dataclass(frozen=True)
class Arrivals:
    """The arrivals of one kind of job, in order, in the even time [s] of the cycle with these weights."""

    even_s: Float64
    weights: Float64

    def clock_s(self, which: slice) -> Float64:
        """Return when these jobs arrive [s of the clock from midnight of the first day]."""
        return clock_s(self.even_s[which], self.weights)

    def submit_s(self) -> Int64:
        """Return when all jobs are submitted [whole s of the clock]."""
        submit_s = np.empty(len(self.even_s), np.int64)
        for block in blocks(len(submit_s)):
            submit_s[block] = self.clock_s(block)
        return submit_s


def draw_arrivals(count: int, model: Lublin, rng: Generator) -> Arrivals:
    """Draw when `count` jobs of this kind arrive."""
    even_s = np.empty(count)
    for block in blocks(count):
        even_s[block] = _draw_gaps_s(block.stop - block.start, model.gap, rng)
    return Arrivals(np.cumsum(even_s, out=even_s), half_hour_weights(model.half_hour))


def _draw_gaps_s(count: int, gap: Gamma, rng: Generator) -> Float64:
    log_s = np.full(count, np.inf)
    while len(excess := np.flatnonzero(log_s > LONGEST_GAP_LOG)):
        log_s[excess] = rng.gamma(gap.shape, gap.scale, len(excess))
    gaps_s: Float64 = np.exp(log_s)
    return gaps_s


def stretched(kinds: tuple[Arrivals, ...], span_s: float) -> tuple[Arrivals, ...]:
    """Scale the gaps of all kinds equally, so that the last job comes `span_s` of the clock after the first.

    The time of the first job does not change. Every kind has a job, and the jobs must not all arrive at once.
    """
    begin_s = min(float(kind.clock_s(slice(1))[0]) for kind in kinds)
    begins = [even_s(begin_s, kind.weights) for kind in kinds]
    ends = [even_s(begin_s + span_s, kind.weights) for kind in kinds]
    scale = min(
        (end - begin) / (kind.even_s[-1] - begin)
        for kind, begin, end in zip(kinds, begins, ends, strict=True)
        if kind.even_s[-1] > begin
    )
    return tuple(
        replace(kind, even_s=begin + (kind.even_s - begin) * scale) for kind, begin in zip(kinds, begins, strict=True)
    )


LONGEST_RUN_LOG = 12.0  # e^12 s are two days


@dataclass(frozen=True)
class JobDemand:
    """The size [nodes] and the run time [s] of each job."""

    size: Int64
    runtime_s: Int64

    def span_s(self, *, machine_size: int, load: float) -> float:
        """Return the time [s] over which these jobs have that load on a machine of so many nodes."""
        return float(np.dot(self.size.astype(np.float64), self.runtime_s)) / (machine_size * load)


def draw_demand(count: int, model: Lublin, machine_size: int, rng: Generator) -> JobDemand:
    """Draw the demand of `count` jobs of this kind."""
    size, runtime_s = np.empty(count, np.int64), np.empty(count, np.int64)
    for block in blocks(count):
        size[block] = draw_sizes(block.stop - block.start, model, machine_size, rng)
        runtime_s[block] = draw_runtimes_s(size[block], model, rng)
    return JobDemand(size, runtime_s)


def draw_sizes(count: int, model: Lublin, machine_size: int, rng: Generator) -> Int64:
    """Draw sizes, int64[count] in 1..machine_size: serial, powers of two, or anything between."""
    highest = max(0.0, np.log2(machine_size) - model.highest_below)
    lowest = min(model.lowest, highest)
    medium = max(lowest, highest - model.medium_below)
    kind = rng.random(count)
    small = rng.random(count) <= model.small
    low, high = np.where(small, lowest, medium), np.where(small, medium, highest)
    log2_size = low + (high - low) * rng.random(count)
    rounded = np.where(kind <= model.serial + model.power_of_two, np.floor(log2_size + 0.5), log2_size)
    size = np.where(kind <= model.serial, 1, np.floor(2**rounded + 0.5))
    return np.clip(size.astype(np.int64), 1, machine_size)


def draw_runtimes_s(size: Int64, model: Lublin, rng: Generator) -> Int64:
    """Draw run times [s], at least 1; wide jobs tend to be long."""
    short_share = np.clip(model.short_slope * size + model.short_at_0, 0, 1)
    log_s = np.full(len(size), np.inf)
    while len(excess := np.flatnonzero(log_s > LONGEST_RUN_LOG)):
        log_s[excess] = _hyper_gamma(short_share[excess], model, rng)
    runtime_s: Float64 = np.maximum(np.exp(log_s), 1)
    return runtime_s.astype(np.int64)


def _hyper_gamma(short_share: Float64, model: Lublin, rng: Generator) -> Float64:
    short = rng.random(len(short_share)) <= short_share
    shape = np.where(short, model.short.shape, model.long.shape)
    scale = np.where(short, model.short.scale, model.long.scale)
    return np.asarray(rng.standard_gamma(shape) * scale)
