"""Orders a window of jobs by any policy: compiled kernels (greedy sort, 0-1 knapsack, starvation bound) or own Python.

`order_view` is the one entry for a view of the window: the queue hook, the day plan and the engine's path of Python
policies call it. The engines compile `choose_order`, which it calls, into their own kernels.

Source: Yang et al., "Integrating dynamic pricing of electricity into energy aware scheduling for HPC systems", SC 2013.

Greedy sorts the window by power profile. The paper's overview puts the jobs with the highest power first off-peak and
those with the lowest first on-peak; the slide "Scheduling Algorithms" prints the two the other way round, which
`greedy-slide` follows to the letter.

The knapsack selects the jobs that start now, by exact dynamic programming: the free nodes are the knapsack, a job's
nodes its weight. Two readings:

* `knapsack` (lexicographic): first fill as many nodes as possible, then, among such fillings, draw the least power
  on-peak and the most off-peak; a job's power is its draw per node times its nodes.
* `knapsack-slide` (to the letter): a job's value is its draw per node; the largest total off-peak, the smallest
  on-peak, which is that of the empty set: on-peak nothing starts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, index, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.plugin.window_policy import (
    ARRIVAL,
    EXTERNAL,
    GREEDY,
    GREEDY_SLIDE,
    KNAPSACK,
    WindowPolicy,
    WindowView,
    own_ranks,
)
from offpeak.prices.peak import Peak

NOT_PASSED = -1


@python_first
@in_place
def sort_by_power(order: Int64, first: int, node_power_w: Float64, highest_power_first: bool) -> None:
    """Sort ranks `first`.. of the window by draw per node [W]; equal jobs stay in submission order.

    `order[rank]` is the window position of the job at `rank`, `node_power_w[position]` its draw. Positions below
    `first` keep their place.
    """
    sign = -1.0 if highest_power_first else 1.0
    for rank in range(first, len(node_power_w)):
        key = sign * node_power_w[index(rank)]
        at = rank
        while at > first and sign * node_power_w[index(order[index(at - 1)])] > key:
            order[index(at)] = order[index(at - 1)]
            at -= 1
        order[index(at)] = rank


class Fillings(NamedTuple):
    """Scratch: reachable fillings by increasing weight, the best one per weight, in two buffers (rows).

    A filling is a 64-bit set of window positions, so the window of a knapsack has at most MOST_JOBS jobs.
    There are never more than capacity + 1 of them.
    """

    weight: NDArray[np.int64]
    value: NDArray[np.float64]
    members: NDArray[np.uint64]


def scratch(capacity: int) -> Fillings:
    """Return room for the fillings of a knapsack of up to `capacity` nodes."""
    shape = (2, capacity + 1)
    return Fillings(np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape, dtype=np.uint64))


@python_first
@in_place
def copy_filling(fillings: Fillings, read: int, source: int, target: int) -> None:
    """Copy filling `source` of buffer `read` to `target` of the other buffer."""
    fillings.weight[1 - read, target] = fillings.weight[read, source]
    fillings.value[1 - read, target] = fillings.value[read, source]
    fillings.members[1 - read, target] = fillings.members[read, source]


@python_first
@in_place
def offer(fillings: Fillings, read: int, length: int, capacity: int, position: int, size: int, value: float) -> int:
    """Merge the `length` fillings of buffer `read`, each without and with one more job, into the other buffer.

    Returns their number. Among fillings of one weight the more valuable stays, the one without the job at a tie.
    """
    weights = fillings.weight[read]
    values = fillings.value[read]
    beyond = capacity + 1
    # Not plain zeros: numba would compile the called functions again for a literal.
    without = joined = made = int(np.int64(0))
    while True:
        light = weights[without] if without < length else beyond
        heavy = min(weights[joined] + size, beyond) if joined < length else beyond
        if light == beyond and heavy == beyond:
            return made
        if heavy < light or (heavy == light and values[joined] + value > values[without]):
            fillings.weight[1 - read, made] = heavy
            fillings.value[1 - read, made] = values[joined] + value
            fillings.members[1 - read, made] = fillings.members[read, joined] | (np.uint64(1) << np.uint64(position))
        else:
            copy_filling(fillings, read, without, made)
        without += light <= heavy
        joined += heavy <= light
        made += 1


@python_first
@in_place
def reach(
    fillings: Fillings, first: int, size: Int64, node_power_w: Float64, sign: float, by_size: bool, capacity: int
) -> tuple[int, int]:
    """Write all fillings of the jobs from window position `first` on; return their buffer and their number.

    A filling's value is the sum of its jobs' draws per node, times their sizes if `by_size`, times `sign`.
    """
    read, length = int(np.int64(0)), int(np.int64(1))
    fillings.weight[0, 0] = 0
    fillings.value[0, 0] = 0.0
    fillings.members[0, 0] = np.uint64(0)
    for position in range(first, len(size)):
        if size[position] <= capacity:
            value = sign * node_power_w[position] * (size[position] if by_size else 1)
            length = offer(fillings, read, length, capacity, position=position, size=size[position], value=value)
            read = 1 - read
    return read, length


@python_first
@in_place
def fill_nodes(
    fillings: Fillings, first: int, size: Int64, node_power_w: Float64, capacity: int, highest_power: bool
) -> np.uint64:
    """Return the set of window positions from `first` on that fills the most of `capacity` nodes.

    Among such sets the one with the largest total power [W] if `highest_power`, else the smallest.
    """
    everything = np.uint64(0)
    total = 0
    for position in range(first, len(size)):
        if size[position] <= capacity:
            everything |= np.uint64(1) << np.uint64(position)
            total += size[position]
    if total <= capacity:
        return everything
    sign = 1.0 if highest_power else -1.0
    read, length = reach(fillings, first, size, node_power_w, sign=sign, by_size=True, capacity=capacity)
    return np.uint64(fillings.members[read, length - 1])


@python_first
@in_place
def fill_value(fillings: Fillings, first: int, size: Int64, node_power_w: Float64, capacity: int) -> np.uint64:
    """Return the set of window positions from `first` on with the largest sum of draws per node [W] that fits."""
    read, length = reach(fillings, first, size, node_power_w, sign=1.0, by_size=False, capacity=capacity)
    return np.uint64(fillings.members[read, np.argmax(fillings.value[read, :length])])


@python_first
@in_place
def put_first(order: Int64, first: int, chosen: np.uint64, length: int) -> int:
    """Order positions `first`..`length`, the chosen first, each by submission; return the rank behind the chosen."""
    rank = first
    for wanted in (True, False):
        for position in range(first, length):
            if (((chosen >> np.uint64(position)) & np.uint64(1)) == np.uint64(1)) == wanted:
                order[rank] = position
                rank += 1
        if wanted:
            behind = rank
    return behind


def count_kept(passed_s: Int64, position: Int64, jobs: int, now_s: int, max_postponement_s: int) -> int:
    """Return how many jobs at the front of the window keep their place: passed for longer than the bound.

    `passed_s[position[rank]]` is when later submissions began to pass the job, NOT_PASSED if none did. See
    docs/decisions/0003-starvation-bound.md. The engine compiles this function and `free_behind` into its kernels.
    """
    for rank in range(jobs):
        since_s = passed_s[index(position[index(rank)])]
        if since_s == NOT_PASSED or now_s - since_s <= max_postponement_s:
            return rank
    return jobs


def free_behind(free: int, size: Int64, kept: int) -> int:
    """Return the units that are left when those of the first `kept` jobs that fit, in order, have started."""
    for rank in range(kept):
        if size[index(rank)] > free:
            return free
        free -= size[index(rank)]
    return free


def free_until(free: int, least: int, until_s: int, end_s: Int64, units: Int64) -> int:
    """Return the units that a policy fills which decides again at `until_s`.

    These are the free ones and those of the running jobs that are expected to end by then. Where the smallest job,
    `least`, needs more, those of the next expected ends are added until it fits. `end_s` is sorted. The engine compiles
    this function into its kernels.
    """
    last_s = until_s
    for at in range(len(end_s)):
        if end_s[index(at)] > last_s:
            if free >= least:
                return free
            last_s = end_s[index(at)]
        free += units[index(at)]
    return free


# The kernels inline them; the path of Python policies calls them.
count_kept_part, free_behind_part, free_until_part = part(count_kept), part(free_behind), part(free_until)


@python_first
@in_place
def choose_order(
    fillings: Fillings,
    order: Int64,
    size: Int64,
    node_power_w: Float64,
    policy: int,
    off_peak: bool,
    kept: int,
    free: int,
) -> int:
    """Order the jobs from window position `kept` on by a built-in policy; return how many of the window may start now.

    `free` are the free units before the kept jobs start.
    """
    if policy <= GREEDY_SLIDE:
        sort_by_power(order, kept, node_power_w, off_peak == (policy == GREEDY))
        return len(size)
    left = free_behind_part(free, size, kept)
    if policy == KNAPSACK:
        put_first(order, kept, fill_nodes(fillings, kept, size, node_power_w, left, off_peak), len(size))
        return len(size)
    if off_peak:
        return put_first(order, kept, fill_value(fillings, kept, size, node_power_w, left), len(size))
    return kept


def order_view(policy: WindowPolicy, view: WindowView) -> list[int]:
    """Return all ranks of a window in the order in which the policy starts its jobs.

    A built-in policy changes nothing while the price is unknown. Raises OffpeakError if a policy from outside fails.
    """
    if policy.code == EXTERNAL:
        return own_ranks(policy, view)
    order = np.arange(len(view.size))
    if policy.code != ARRIVAL and view.peak != Peak.UNKNOWN:
        choose_order(
            scratch(view.free if policy.weighs_free else 0),
            order,
            view.size,
            view.node_power_w,
            policy=policy.code,
            off_peak=view.peak == Peak.OFF_PEAK,
            kept=0,
            free=view.free,
        )
    return [int(rank) for rank in order]
