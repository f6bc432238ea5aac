"""Finds the widest waiting job that fits and ends in time, for best fit in a long queue, in a few dozen steps.

All jobs of the workload, also those that are still to come, have ranks by size, then submission. A binary tree over the
ranks holds at each node the shortest estimate of the waiting jobs below it; a job that does not wait has NEVER.
"""

from offpeak.compiled import in_place, index, part
from sim_backend.engine.state import NEVER, ByWidth, Int64, Queue


@part
def rank_all(by_width: ByWidth, size: Int64) -> None:
    """Rank all jobs of the workload."""
    behind = by_width.behind
    for width in range(len(behind)):
        behind[index(width)] = 0
    for job in range(len(size)):
        behind[index(size[index(job)])] += 1
    for width in range(1, len(behind)):
        behind[index(width)] += behind[index(width - 1)]
    for job in range(len(size) - 1, -1, -1):
        own = index(size[index(job)])
        behind[own] -= 1
        by_width.rank[index(job)] = behind[own]
        by_width.job[index(behind[own])] = job
    # The loop has left at each width where its ranks begin, which is behind those of the width before.
    for width in range(len(behind) - 1):
        behind[index(width)] = behind[index(width + 1)]
    behind[index(len(behind) - 1)] = len(size)


@part
def fill(by_width: ByWidth, queue: Queue, head: int, tail: int) -> None:
    """Note the waiting jobs of the queue's positions [head, tail) in the tree, and no others."""
    shortest_s = by_width.shortest_s
    leaves = len(shortest_s) // 2
    for node in range(len(shortest_s)):
        shortest_s[index(node)] = NEVER
    for position in range(head, tail):
        if queue.size[index(position)] != NEVER:
            leaf = leaves + by_width.rank[index(queue.job[index(position)])]
            shortest_s[index(leaf)] = queue.estimate_s[index(position)]
    for node in range(leaves - 1, 0, -1):
        shortest_s[index(node)] = min(shortest_s[index(2 * node)], shortest_s[index(2 * node + 1)])


@in_place
def rank_waiting(by_width: ByWidth, queue: Queue, size: Int64, head: int, tail: int) -> None:
    """Rank all jobs of the workload, of these sizes, and note those that wait at the queue's positions [head, tail)."""
    rank_all(by_width, size)
    fill(by_width, queue, head, tail)


@in_place
def note_estimate(by_width: ByWidth, job: int, estimate_s: int) -> None:
    """Note that a job waits with this estimate, or with NEVER that it does not wait."""
    shortest_s = by_width.shortest_s
    node = len(shortest_s) // 2 + by_width.rank[index(job)]
    shortest_s[index(node)] = estimate_s
    while node > 1:
        node >>= 1
        least = min(shortest_s[index(2 * node)], shortest_s[index(2 * node + 1)])
        if shortest_s[index(node)] == least:
            return
        shortest_s[index(node)] = least


@in_place
def widest_of_few(size: Int64, estimate_s: Int64, first: int, last: int, free: int, longest_s: int) -> int:
    """Return what `widest_in_time` does, of the positions [first, last), by looking at each of them."""
    best = -1
    widest = 0
    for at in range(first, last):
        if widest < size[index(at)] <= free and estimate_s[index(at)] <= longest_s:
            best = at
            widest = size[index(at)]
    return best


@in_place
def widest_in_time(by_width: ByWidth, queue: Queue, tail: int, free: int, longest_s: int) -> int:
    """Return the position of the widest waiting job of up to `free` units that takes no longer than `longest_s`.

    Of several that are as wide the first in the queue; -1 if there is none.
    """
    shortest_s = by_width.shortest_s
    leaves = len(shortest_s) // 2
    widths = by_width.behind[index(min(free, len(by_width.behind) - 1))]
    if widths == 0:
        return -1
    node = leaves + widths - 1
    while shortest_s[index(node)] > longest_s:
        while node & 1 == 0:
            node >>= 1
        if node == 1:
            return -1
        node -= 1
    while node < leaves:
        node = 2 * node + 1
        if shortest_s[index(node)] > longest_s:
            node -= 1
    width = queue.size[index(position_of(queue, tail, by_width.job[index(node - leaves)]))]
    node = leaves + by_width.behind[index(width - 1)]
    while shortest_s[index(node)] > longest_s:
        while node & 1 == 1:
            node >>= 1
        node += 1
    while node < leaves:
        node = 2 * node
        if shortest_s[index(node)] > longest_s:
            node += 1
    return int(position_of(queue, tail, by_width.job[index(node - leaves)]))


@part
def position_of(queue: Queue, tail: int, job: int) -> int:
    """Return where in the queue a waiting job stands: jobs are in the order of their numbers, holes included."""
    low = 0
    high = tail
    while high - low > 1:
        middle = (low + high) >> 1
        if queue.job[index(middle)] <= job:
            low = middle
        else:
            high = middle
    return low
