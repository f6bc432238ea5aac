"""The order of one window, by the very kernels that the simulator runs."""

from collections.abc import Sequence

import numpy as np

from plugin.greedy import sort_by_power
from plugin.knapsack import fill_nodes, put_first, scratch


def greedy_order(node_power_w: Sequence[float], *, off_peak: bool) -> list[int]:
    """Return the positions in the order in which the jobs are to stand: the hungriest first off-peak, else last."""
    order = np.arange(len(node_power_w))
    sort_by_power(order, 0, np.array(node_power_w, np.float64), off_peak)
    return [int(position) for position in order]


def planned_order(start_s: Sequence[int]) -> list[int]:
    """Return the positions in the order of their planned starts."""
    return sorted(range(len(start_s)), key=start_s.__getitem__)


def knapsack_order(nodes: Sequence[int], node_power_w: Sequence[float], *, free: int, off_peak: bool) -> list[int]:
    """Return the positions, those first that fill the free nodes best. At most plugin.knapsack.MOST_JOBS jobs."""
    order = np.arange(len(nodes))
    size, power_w = np.array(nodes, np.int64), np.array(node_power_w, np.float64)
    chosen = fill_nodes(scratch(free), 0, size, power_w, free, off_peak)
    put_first(order, 0, chosen, len(nodes))
    return [int(position) for position in order]


def free_behind(free: int, kept: Sequence[int]) -> int:
    """Return the nodes that are left when those of the kept jobs that fit, in order, have started."""
    for nodes in kept:
        if nodes > free:
            return free
        free -= nodes
    return free
