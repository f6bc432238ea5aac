"""Places jobs on numbered units for a drawing: a schedule says when a job runs, not where.

A job goes to the lowest free block that is wide enough, and in pieces to the lowest free ones where none is.
"""

from bisect import bisect_left
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from offpeak.model.arrays import Int64

Block = tuple[int, int]
"""Units from the first number to below the second."""


@dataclass(frozen=True)
class Blocks:
    """Job `job[i]` holds the units from `low[i]` to below `high[i]`; a job may have several blocks."""

    job: Int64
    low: Int64
    high: Int64


def placed(size: Int64, start_s: Int64, end_s: Int64, *, machine_size: int) -> Blocks:
    """Return where each job runs; never more than `machine_size` units are in use. Ends come before starts."""
    free: list[Block] = [(0, machine_size)]
    running: list[tuple[int, int]] = []
    held: dict[int, list[Block]] = {}
    for job in np.argsort(start_s, kind="stable").tolist():
        while running and running[0][0] <= start_s[job]:
            for block in held[heappop(running)[1]]:
                _give_back(free, block)
        held[job] = _take(free, int(size[job]))
        heappush(running, (int(end_s[job]), job))
    rows = [(job, *block) for job, blocks in held.items() for block in blocks]
    return Blocks(*np.array(rows, np.int64).reshape(-1, 3).T)


def _take(free: list[Block], size: int) -> list[Block]:
    whole = next((at for at, (low, high) in enumerate(free) if high - low >= size), None)
    if whole is not None:
        return [_cut(free, whole, size)]
    taken = []
    while size > 0:
        taken.append(_cut(free, 0, size))
        size -= taken[-1][1] - taken[-1][0]
    return taken


def _cut(free: list[Block], at: int, size: int) -> Block:
    """Take up to `size` units from the low end of a free block."""
    low, high = free[at]
    cut = min(low + size, high)
    if cut == high:
        del free[at]
    else:
        free[at] = (cut, high)
    return low, cut


def _give_back(free: list[Block], block: Block) -> None:
    low, high = block
    at = bisect_left(free, block)
    if at < len(free) and free[at][0] == high:
        high = free.pop(at)[1]
    if at and free[at - 1][1] == low:
        free[at - 1] = (free[at - 1][0], high)
    else:
        free.insert(at, (low, high))
