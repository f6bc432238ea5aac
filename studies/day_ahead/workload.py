"""Jobs of one site after Lublin, Feitelson and Tsafrir, fitted to the known arrivals and load of the site.

The paper adjusted the models by hand to the statistics of TeraGrid (9 h of run time on average, 3.27 jobs an
hour and system) and does not print its parameters. Ours: sizes of the typeless model with the site's mean and
widest; run times that follow the authors' published test log; then all run times of a site are scaled to its
load.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from sim_backend.workloads.lublin_model import TYPELESS, Gamma, draw_arrivals, draw_runtimes_s, draw_sizes, stretched
from sim_backend.workloads.tsafrir import tsafrir_estimates_s

LONG_RUNS = replace(TYPELESS, short=Gamma(28.4, 0.282), long=Gamma(353.0, 0.0293), short_slope=0.0, short_at_0=0.14)
"""Log run times [ln s]: 14 % around 50 minutes, the others around 8.6 h."""
STEPS = 60


@dataclass(frozen=True)
class SiteDemand:
    """What a site's own users submit: so many jobs in a span of time that ask for `load` of its cores (1: all).

    They ask for `mean_cores` on average and for at most `widest`, `longest_s` is the site's limit.
    """

    jobs: int
    load: float
    mean_cores: float
    cores: int
    widest: int
    longest_s: int


@dataclass(frozen=True, eq=False)
class DrawnJobs:
    """Jobs as columns, in the order of their submission [s from a midnight of the site's clock]."""

    submit_s: Int64
    size: Int64
    runtime_s: Int64
    estimate_s: Int64


def draw(demand: SiteDemand, span_s: float, rng: Generator) -> DrawnJobs:
    """Draw the site's jobs over that span."""
    model = replace(LONG_RUNS, small=small_share(demand))
    size = draw_sizes(demand.jobs, model, demand.widest, rng)
    length_s = draw_runtimes_s(size, model, rng).astype(np.float64)
    runtime_s = at_load(size, length_s, demand, span_s)
    (arrivals,) = stretched((draw_arrivals(demand.jobs, TYPELESS, rng),), span_s)
    estimate_s = tsafrir_estimates_s(runtime_s, longest_s=demand.longest_s, rng=rng)
    return DrawnJobs(arrivals.submit_s(), size, runtime_s, estimate_s)


def small_share(demand: SiteDemand) -> float:
    """Return the model's probability of a small size with which the mean is that of the site."""
    highest = float(np.log2(demand.widest))
    medium = highest - LONG_RUNS.medium_below
    small, large = _mean_between(LONG_RUNS.lowest, medium), _mean_between(medium, highest)
    parallel = (demand.mean_cores - LONG_RUNS.serial) / (1 - LONG_RUNS.serial)
    return float(np.clip((large - parallel) / (large - small), 0.0, 1.0))


def _mean_between(low: float, high: float) -> float:
    """Return the mean of 2 to the power of what is uniform in low..high."""
    return float((2**high - 2**low) / ((high - low) * np.log(2)))


def at_load(size: Int64, length_s: Float64, demand: SiteDemand, span_s: float) -> Int64:
    """Return the run times scaled such that the jobs are the load, none beyond the longest; int64[n]."""
    wanted = demand.load * demand.cores * span_s
    low, high = 0.0, 100.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        short = np.dot(size, np.minimum(middle * length_s, demand.longest_s)) < wanted
        low, high = (middle, high) if short else (low, middle)
    return np.maximum(np.rint(np.minimum(high * length_s, demand.longest_s)), 1).astype(np.int64)
