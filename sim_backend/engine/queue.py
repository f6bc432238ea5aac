"""The queue of the waiting jobs, where submissions join at the end and started jobs leave holes; and searches for jobs
that fit.

The next job that fits: the queue's positions are divided into blocks, and jobs into classes by size; class k > 0 holds
jobs of fewer than 2^k units. `Queue.bounds[0, block]` is a lower bound for the units of the jobs in a block, and
`Queue.bounds[k, block]` one for the estimates of class k; both are 0 until a search has scanned the whole block in
vain. Only full blocks have bounds, so a submission changes none, and jobs that leave only make bounds too low.

The widest job that fits and ends in time, for best fit in a long queue, takes a few dozen steps: all jobs of the
workload, including future ones, have ranks by size, then submission. Each node of a binary tree over the ranks holds
the shortest estimate of the waiting jobs below it; a job that does not wait has NEVER.
"""

from typing import Any, NamedTuple

import numpy as np

from offpeak.compiled import in_place, index, part
from offpeak.predictors.run_times import predict_run_time
from offpeak.sim_backend.engine.state import (
    BEST_FIT,
    BLOCK,
    CLASSES,
    EXACT_RUNTIME,
    FORESEEN_RUNTIME,
    NEVER,
    NOT_YET,
    PREDICTED_RUNTIME,
    ByWidth,
    Int64,
    Queue,
    SchedulingRules,
    State,
    Workload,
)


class StartLimits(NamedTuple):
    """A job may start if it fits in `free` units, and fits in `extra` units or takes no longer than `longest_s`."""

    free: int
    extra: int
    longest_s: int


LEAST_SIZE = 0
STRETCH = 32
"""The number of blocks that are scanned at once, with vector instructions."""


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
    """Reset the bounds of positions before `tail`, which will hold other jobs, in the queue of either engine."""
    queue.bounds[:, : tail // BLOCK] = 0


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
    # After the loop, each width holds the start of its ranks, which is the end of the ranks of the previous width.
    for width in range(len(behind) - 1):
        behind[index(width)] = behind[index(width + 1)]
    behind[index(len(behind) - 1)] = len(size)


@part
def fill(by_width: ByWidth, queue: Queue, head: int, tail: int) -> None:
    """Fill the tree with the waiting jobs of the queue's positions [head, tail), and no others."""
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
    """Rank all jobs of the workload by these sizes, and fill the tree with those at positions [head, tail)."""
    rank_all(by_width, size)
    fill(by_width, queue, head, tail)


@in_place
def note_estimate(by_width: ByWidth, job: int, estimate_s: int) -> None:
    """Store the estimate of a waiting job in the tree, or NEVER if it does not wait."""
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
    """Like `widest_in_time` for the positions [first, last), by a linear scan."""
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

    Of several of the same width it returns the first in the queue; -1 if there is none.
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
    """Return the queue position of a waiting job; jobs are in the order of their numbers, with holes."""
    low = 0
    high = tail
    while high - low > 1:
        middle = (low + high) >> 1
        if queue.job[index(middle)] <= job:
            low = middle
        else:
            high = middle
    return low


MOST_HOLES = 64
SCANNED = 1024
"""Up to so many positions, a scan with vector instructions is as fast as the search for a job that fits."""


@part
def copy_position(queue: Queue, target: int, source: int) -> None:
    """Copy a position of the queue."""
    queue.job[index(target)] = queue.job[index(source)]
    queue.size[index(target)] = queue.size[index(source)]
    queue.estimate_s[index(target)] = queue.estimate_s[index(source)]
    queue.node_power_w[index(target)] = queue.node_power_w[index(source)]
    queue.passed_over_s[index(target)] = queue.passed_over_s[index(source)]
    queue.reserved_s[index(target)] = queue.reserved_s[index(source)]


@part
def fill_position(workload: Workload, queue: Queue, position: int, job: int, estimate_s: int) -> None:
    """Let a job wait at a position of the queue."""
    at = index(position)
    queue.job[at] = job
    queue.size[at] = workload.size[index(job)]
    queue.estimate_s[at] = estimate_s
    queue.node_power_w[at] = workload.node_power_w[index(job)]
    queue.passed_over_s[at] = NOT_YET
    queue.reserved_s[at] = NOT_YET


@part
def expected_run_s(workload: Any, recent_s: Int64, estimates: int, job: int) -> int:
    """Return how long the scheduler expects a job of either engine's workload to run when it is submitted."""
    at = index(job)
    estimate_s = workload.estimate_s[at]
    if estimates == EXACT_RUNTIME:
        return int(workload.runtime_s[at])
    if estimates == PREDICTED_RUNTIME:
        return int(predict_run_time(recent_s, workload.user[at], estimate_s))
    return int(workload.foreseen_s[at] if estimates == FORESEEN_RUNTIME else estimate_s)


@part
def submit_next(workload: Workload, state: State, rules: SchedulingRules) -> None:
    """Put the next submitted job at the end of the queue."""
    now = state.scalars[0]
    queue = state.queue
    job = index(now.next_job)
    estimate_s = expected_run_s(workload, state.recent_s, rules.estimates, int(job))
    fill_position(workload, queue, now.tail, int(job), estimate_s)
    now.next_job += 1
    now.next_submit_s = workload.submit_s[index(now.next_job)] if now.next_job < len(workload.submit_s) else NEVER
    now.tail += 1
    now.waiting += 1
    now.smallest = min(now.smallest, workload.size[job])
    if rules.discipline == BEST_FIT:
        if now.ranked:
            note_estimate(state.by_width, int(job), estimate_s)
        elif now.waiting > now.rank_from:
            rank_waiting(state.by_width, queue, workload.size, now.head, now.tail)
            now.ranked = 1


@part
def smallest_waiting(state: State) -> int:
    """Return a lower bound for the sizes of waiting jobs, above the free units if no job fits into them.

    In a short queue it is the size of the smallest job, NEVER if none waits.
    """
    now = state.scalars[0]
    queue = state.queue
    if now.tail - now.head > SCANNED:
        limits = StartLimits(now.free, now.free, NOT_YET)
        found = next_fitting_of_many(queue.size, queue.estimate_s, queue.bounds, now.head, now.tail, limits)
        return int(now.smallest if found < now.tail else now.free + 1)
    smallest = NEVER
    for position in range(now.head, now.tail):
        smallest = min(smallest, queue.size[index(position)])
    return int(smallest)


@part
def note_passed_over(state: State) -> None:
    """Record the time for each waiting job that a later submission has just overtaken for the first time.

    A start at one position passes over all jobs before it, so the jobs ever passed over are a prefix of the queue.
    """
    now = state.scalars[0]
    for position in range(max(now.passed_over, now.head), now.furthest):
        state.queue.passed_over_s[position] = now.now_s
    now.passed_over = max(now.passed_over, now.furthest)


@part
def compact(state: State) -> None:
    """Move the waiting jobs to the front of the queue's arrays, without holes."""
    now = state.scalars[0]
    queue = state.queue
    write = 0
    passed_over = 0
    forget(queue, now.tail)
    for read in range(now.head, now.tail):
        if queue.size[read] == NEVER:
            continue
        copy_position(queue, write, read)
        write += 1
        passed_over += read < now.passed_over
    now.head = 0
    now.tail = write
    now.passed_over = passed_over


@part
def close_pass(state: State) -> None:
    """Clean up after a pass: skip the holes at the front, compact if there are more holes than jobs."""
    now = state.scalars[0]
    while now.head < now.tail and state.queue.size[now.head] == NEVER:
        now.head += 1
    if now.tail > 2 * now.waiting + MOST_HOLES:
        compact(state)
    now.seen = now.tail
    now.ended = 0
    now.furthest = 0
