"""The window policies in plain Python: a sort, and a knapsack that tries every subset."""

from collections.abc import Sequence
from itertools import product
from typing import Protocol


class Drawing(Protocol):
    """What the policies look at: nodes, and W per node."""

    size: int
    power_w: float


def sorted_by_power(jobs: Sequence[Drawing], window: list[int], highest_power_first: bool) -> list[int]:
    """Return the window by draw per node; equal jobs stay in order."""
    sign = -1 if highest_power_first else 1
    return sorted(window, key=lambda job: sign * jobs[job].power_w)


def knapsack(jobs: Sequence[Drawing], window: list[int], free: int, off_peak: bool, *, slide: bool) -> list[int]:
    """Return the jobs of the window that fill the free nodes; at a tie those that need the earlier jobs only."""
    if slide and not off_peak:
        return []
    best: list[int] = []
    best_worth = (0.0, 0.0)
    for taken_backwards in product([False, True], repeat=len(window)):
        chosen = [job for job, taken in zip(window, reversed(taken_backwards), strict=True) if taken]
        nodes = sum(jobs[job].size for job in chosen)
        if nodes > free:
            continue
        if slide:
            worth = (sum(jobs[job].power_w for job in chosen), -nodes)
        else:
            power_w = sum(jobs[job].power_w * jobs[job].size for job in chosen)
            worth = (nodes, power_w if off_peak else -power_w)
        if worth > best_worth:
            best, best_worth = chosen, worth
    return best
