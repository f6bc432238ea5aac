"""Searches for the next waiting job that fits, where the units of one pool are only counted.

The queue's positions are divided into blocks, and jobs into classes by size; class k > 0 holds jobs of fewer than 2^k
units. `bounds[0, block]` is a lower bound for the units of the jobs in a block, and `bounds[k, block]` one for the
estimates of class k; both are 0 until a search has scanned the whole block in vain. Only full blocks have bounds, so a
submission changes none, and jobs that leave only make bounds too low.
"""

from typing import Any, NamedTuple

import numpy as np

from offpeak.compiled import in_place, index, part
from offpeak.model.arrays import Int64
from offpeak.sim_backend.engine.rules import NEVER

BLOCK, CLASSES = 64, 24
"""The positions in a block of the queue, and the number of classes of jobs by size."""


class StartLimits(NamedTuple):
    """A job may start if it fits in `free` units, and fits in `extra` units or takes no longer than `longest_s`."""

    free: int
    extra: int
    longest_s: int


LEAST_SIZE = 0
STRETCH = 32
"""The number of blocks that are scanned at once, with vector instructions."""


@part
def fits_beside(size: Int64, estimate_s: Int64, position: int, limits: StartLimits) -> bool:
    """Tell whether the job at `position` fits and, started now, would not delay the reservation."""
    wanted = size[index(position)]
    if wanted > limits.free:
        return False
    return bool(wanted <= limits.extra or estimate_s[index(position)] <= limits.longest_s)


@in_place
def next_fitting(size: Int64, estimate_s: Int64, first: int, last: int, limits: StartLimits) -> int:
    """Return the first position in [first, last) whose job may start by the limits, or `last`.

    This is a kernel, not an inlined part, so that the search can use all registers.
    """
    free = limits.free
    extra = limits.extra
    longest_s = limits.longest_s
    for at in range(first, last):
        wanted = size[index(at)]
        if wanted <= free and (wanted <= extra or estimate_s[index(at)] <= longest_s):
            return at
    return last


@in_place
def next_fitting_of_many(
    size: Int64, estimate_s: Int64, bounds: Int64, first: int, last: int, limits: StartLimits
) -> int:
    """Like `next_fitting`, but faster in a long queue that was searched before."""
    fitting = class_of(limits.free)
    narrow = min(limits.free, limits.extra)
    at = first
    while True:
        at = next_promising(bounds, fitting, at, last, narrow, limits.longest_s)
        if at >= last:
            return last
        block = at // BLOCK
        behind = min((block + 1) * BLOCK, last)
        found = next_fitting(size, estimate_s, at, behind, limits)
        if found < behind:
            return found
        if behind - at == BLOCK:
            bounds[LEAST_SIZE, index(block)] = least_size(size, at)
            bounds[index(fitting), index(block)] = shortest_s(size, estimate_s, at, fitting)
        at = behind


@part
def class_of(units: int) -> int:
    """Return the first class that holds all jobs of up to `units`; the last one holds all jobs."""
    found = 1
    while found < CLASSES - 1 and units >> found > 0:
        found += 1
    return found


@part
def next_promising(bounds: Int64, fitting: int, first: int, last: int, narrow: int, longest_s: int) -> int:
    """Return the first position from `first` on whose block may have a job that fits; `last` or more for none."""
    block = first // BLOCK
    behind = (last + BLOCK - 1) // BLOCK
    while block < behind:
        ahead = min(block + STRETCH, behind)
        if promising_blocks(bounds, fitting, block, ahead, narrow, longest_s) > 0:
            break
        block = ahead
    while block < behind and promising_blocks(bounds, fitting, block, block + 1, narrow, longest_s) == 0:
        block += 1
    return int(max(first, block * BLOCK))


@part
def promising_blocks(bounds: Int64, fitting: int, first: int, behind: int, narrow: int, longest_s: int) -> int:
    """Return how many of the blocks [first, behind) may have a job that fits, by their bounds."""
    promising = 0
    for block in range(first, behind):
        at = index(block)
        promising += (bounds[LEAST_SIZE, at] <= narrow) | (bounds[index(fitting), at] <= longest_s)
    return promising


@in_place
def least_size(size: Int64, first: int) -> int:
    """Return the smallest size in the block that starts at position `first`, NEVER if no job waits there."""
    least = NEVER
    for at in range(first, first + BLOCK):
        least = min(least, size[index(at)])
    return least


@in_place
def shortest_s(size: Int64, estimate_s: Int64, first: int, of_class: int) -> int:
    """Return the shortest estimate of a class in that block, NEVER if no such job waits there."""
    limit = NEVER if of_class == CLASSES - 1 else np.int64(1) << np.int64(of_class)
    shortest = NEVER
    for at in range(first, first + BLOCK):
        if size[index(at)] < limit:
            shortest = min(shortest, estimate_s[index(at)])
    return shortest


@part
def forget(queue: Any, tail: int) -> None:
    """Reset the bounds of positions before `tail`, which will hold other jobs."""
    queue.bounds[:, : tail // BLOCK] = 0
