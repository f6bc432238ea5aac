"""When jobs are submitted, after Lublin and Feitelson 1999: gaps drawn in even time, laid on the daily cycle.

This is the original program's walk from half hour to half hour, for all jobs at once, but for one thing: the program
cuts each gap to whole seconds when it adds them up, and so runs ahead of its own cycle by half a second a job: by 1.4
hours in 10,000 jobs.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from sim_backend.workloads.blocks import blocks
from sim_backend.workloads.daily_cycle import clock_s, even_s, half_hour_weights
from sim_backend.workloads.lublin_model import Gamma, Lublin

LONGEST_GAP_LOG = 13.0  # e^13 s are five days


@dataclass(frozen=True)
class Arrivals:
    """The jobs of one kind, in order: when they arrive in the even time [s] of the cycle with these weights."""

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
    """Scale the gaps of all kinds alike, so that the last job comes `span_s` of the clock after the first.

    The first job stays where it is. Every kind has a job; the jobs do not all arrive at once.
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
