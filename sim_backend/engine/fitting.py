"""Finds the next waiting job that fits; in a long queue, by what earlier searches in vain have learned of it.

The queue's positions are cut into blocks, and jobs belong to classes: class k > 0 are those less than 2^k wide. No job
waiting in a block has fewer units than `Queue.bounds[0, block]`, and none of class k a shorter estimate than
`Queue.bounds[k, block]`: 0 until a search has gone all through the block in vain. Only full blocks are learned of, so
a submission changes no bound, and jobs that leave only make bounds too low.
"""

import numpy as np

from offpeak.compiled import in_place, index, part
from sim_backend.engine.state import BLOCK, CLASSES, NEVER, Int64, Queue

LEAST_SIZE = 0
STRETCH = 32
"""So many blocks are looked at in one go, with vector instructions."""


@in_place
def next_fitting(size: Int64, estimate_s: Int64, first: int, last: int, free: int, extra: int, longest_s: int) -> int:
    """Return the first position in [first, last) whose job fits in `free` units, or `last`.

    It has to fit in `extra` units as well or to take no longer than `longest_s`. A kernel of its own, not a part: with
    all registers for the search.
    """
    for at in range(first, last):
        wanted = size[index(at)]
        if wanted <= free and (wanted <= extra or estimate_s[index(at)] <= longest_s):
            return at
    return last


@in_place
def next_fitting_of_many(
    size: Int64, estimate_s: Int64, bounds: Int64, first: int, last: int, free: int, extra: int, longest_s: int
) -> int:
    """Return what `next_fitting` does: sooner in a long queue that was searched before."""
    fitting = class_of(free)
    narrow = min(free, extra)
    at = first
    while True:
        at = next_promising(bounds, fitting, at, last, narrow, longest_s)
        if at >= last:
            return last
        block = at // BLOCK
        behind = min((block + 1) * BLOCK, last)
        found = next_fitting(size, estimate_s, at, behind, free, extra, longest_s)
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
    """Return the first position from `first` on in a block that may have a job that fits, or one not before `last`."""
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
    """Return how many of the blocks [first, behind) may have a job that fits, as far as is known."""
    promising = 0
    for block in range(first, behind):
        at = index(block)
        promising += (bounds[LEAST_SIZE, at] <= narrow) | (bounds[index(fitting), at] <= longest_s)
    return promising


@in_place
def least_size(size: Int64, first: int) -> int:
    """Return the least size in the block that begins at position `first`, NEVER if no job waits there."""
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
def forget(queue: Queue, tail: int) -> None:
    """Forget what was learned of positions before `tail`: other jobs will stand there."""
    queue.bounds[:, : tail // BLOCK] = 0
