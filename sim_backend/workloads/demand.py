"""How many nodes jobs ask for and how long they run, after Lublin and Feitelson."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from sim_backend.workloads.blocks import blocks
from sim_backend.workloads.lublin_model import Lublin

LONGEST_RUN_LOG = 12.0  # e^12 s are two days


@dataclass(frozen=True)
class Demand:
    """The size [nodes] and the run time [s] of each job."""

    size: Int64
    runtime_s: Int64

    def span_s(self, *, machine_size: int, load: float) -> float:
        """Return the time [s] in which these jobs are that load of a machine of so many nodes."""
        return float(np.dot(self.size.astype(np.float64), self.runtime_s)) / (machine_size * load)


def draw_demand(count: int, model: Lublin, machine_size: int, rng: Generator) -> Demand:
    """Draw the demand of `count` jobs of this kind."""
    size, runtime_s = np.empty(count, np.int64), np.empty(count, np.int64)
    for block in blocks(count):
        size[block] = draw_sizes(block.stop - block.start, model, machine_size, rng)
        runtime_s[block] = draw_runtimes_s(size[block], model, rng)
    return Demand(size, runtime_s)


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
