"""Predicts when idle nodes are needed again, and decides by the expected cost how many stay awake.

Idle nodes are ranked by the order in which jobs take them; ranks are joined to blocks, about two for each doubling. For
each block and horizon a predictor gives `used`, the expected share of its nodes that jobs take within the horizon, and
`tops`, the expected number of jobs whose nodes end in it: all nodes of such a job are awake if its last one is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.sleep_rules.replays import STEP_S, WARM_UP_S, Part
from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S

Float32 = NDArray[np.float32]

HORIZONS_S: Int64 = np.array([900, 3600, 14400])
STEPS_OF: Int64 = HORIZONS_S // STEP_S
PAST_DAYS = 14
STEPS_PER_DAY = DAY_S // STEP_S
OWN_FEATURES, EXTERNAL_FEATURES = 16, 11
FEATURES = OWN_FEATURES + EXTERNAL_FEATURES


def tops_of_blocks(nodes: int) -> Int64:
    """Return the last rank of each block: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..., all nodes."""
    tops = sorted({1, 2, 3} | {base << power for power in range(24) for base in (4, 6)})
    return np.array([*(top for top in tops if top < nodes), nodes])


class Memory(NamedTuple):
    """What the rule remembers of the cluster, one moment every STEP_S.

    `used_s` int64[nodes]: when each level was last in use; `needed` int64[moments]: the nodes that jobs needed;
    `moments`: how many there are so far; `external` float32[moments, k]: of clock and arrivals, read at its moment.
    """

    tops: Int64
    used_s: Int64
    needed: Int64
    moments: Int64
    external: Float32


def new_memory(part: Part) -> Memory:
    """Return the memory before the first moment of a part."""
    moments = int(part.jobs.submit_s[-1] - part.jobs.submit_s[0]) // STEP_S + 100 * STEPS_PER_DAY
    nodes = part.machine.nodes
    return Memory(
        tops_of_blocks(nodes),
        np.full(nodes, int(part.jobs.submit_s[0]) - 30 * DAY_S),
        np.zeros(moments, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        external_features(part, moments),
    )


def external_features(part: Part, moments: int) -> Float32:
    """Return what is known at each moment without the machine: the clock, and the arrivals so far."""
    submit_s = part.jobs.submit_s
    now_s = submit_s[0] + np.arange(moments) * STEP_S
    until = np.searchsorted(submit_s, now_s, side="right")
    units = np.append(0, np.cumsum(np.minimum(part.jobs.size, part.machine.size))) / part.machine.size
    hour_s = now_s - quietest_second(part)
    columns = [hour_s % DAY_S / HOUR_S, now_s // DAY_S % 7]
    for back_s in (HOUR_S, 4 * HOUR_S, DAY_S):
        since = np.searchsorted(submit_s, now_s - back_s, side="right")
        columns += [np.log1p(until - since), units[until] - units[since]]
    last_s = np.where(until > 0, submit_s[np.maximum(until - 1, 0)], now_s)
    columns += [np.log2(1 + now_s - last_s)]
    columns += [np.log1p(_users_since(part, now_s, back_s)) for back_s in (HOUR_S, DAY_S)]
    return np.stack(columns, axis=1).astype(np.float32)


def quietest_second(part: Part) -> int:
    """Return the second of the day at which the six hours with the fewest arrivals of the warm-up begin.

    Logs differ in their time zones, and some do not say theirs.
    """
    submit_s = part.jobs.submit_s
    warm_up_s = submit_s[submit_s < submit_s[0] + WARM_UP_S]
    by_hour = np.bincount(warm_up_s % DAY_S // HOUR_S, minlength=24)
    six = np.convolve(np.concatenate([by_hour, by_hour[:5]]), np.ones(6), mode="valid")
    return int(np.argmin(six)) * HOUR_S


def _users_since(part: Part, now_s: Int64, back_s: int) -> Int64:
    """Return how many users submitted within the last `back_s`."""
    # A user is active from each submission on, for `back_s` or up to the next one.
    order = np.lexsort([part.jobs.submit_s, part.jobs.user])
    user, submit_s = part.jobs.user[order], part.jobs.submit_s[order]
    until_s = submit_s + back_s
    same = user[1:] == user[:-1]
    until_s[:-1][same] = np.minimum(until_s[:-1], submit_s[1:])[same]
    begun = np.searchsorted(np.sort(submit_s), now_s, side="right")
    return begun - np.searchsorted(np.sort(until_s), now_s, side="right")


class Queue(NamedTuple):
    """The engine's queue and running jobs at a moment."""

    now_s: int
    head: int
    tail: int
    listed: int
    units_per_node: int
    size: Int64
    running_size: Int64
    expected_end_s: Int64
    expected: NDArray[np.int32]


@kernel
def observe(memory: Memory, queue: Queue) -> int:
    """Record a moment; return the number of nodes that jobs need."""
    units = 0
    for at in range(queue.listed):
        units += queue.running_size[queue.expected[at]]
    needed = (units + queue.units_per_node - 1) // queue.units_per_node
    memory.needed[memory.moments[0]] = needed
    memory.moments[0] += 1
    memory.used_s[:needed] = queue.now_s
    return needed


@kernel
def describe(memory: Memory, queue: Queue, needed: int, features: Float32) -> int:
    """Write the features of each block and horizon: float32[blocks, horizons, FEATURES]; return the blocks in reach."""
    nodes = len(memory.used_s)
    units = nodes * queue.units_per_node
    moment = memory.moments[0] - 1
    waiting, widest, waiting_units = 0, 0, 0
    for position in range(queue.head, queue.tail):
        size = queue.size[position]
        if size <= units:
            waiting += 1
            widest = max(widest, size)
            waiting_units += size
    soon, later = 0, 0
    for at in range(queue.listed):
        slot = queue.expected[at]
        left_s = queue.expected_end_s[slot] - queue.now_s
        soon += queue.running_size[slot] if left_s <= 900 else 0
        later += queue.running_size[slot] if left_s <= 3600 else 0
    hour_peak, day_peak = 0, 0
    for back in range(1, STEPS_PER_DAY + 1):
        if back <= moment:
            day_peak = max(day_peak, memory.needed[moment - back])
            if back <= 12:
                hour_peak = max(hour_peak, memory.needed[moment - back])
    rises = np.zeros((PAST_DAYS, len(STEPS_OF)), dtype=np.int64)
    days = 0
    for day in range(PAST_DAYS):
        then = moment - (day + 1) * STEPS_PER_DAY
        if then < 0:
            break
        days += 1
        highest, horizon = 0, 0
        for step in range(1, STEPS_OF[len(STEPS_OF) - 1] + 1):
            highest = max(highest, memory.needed[then + step] - memory.needed[then])
            if step == STEPS_OF[horizon]:
                rises[day, horizon] = highest
                horizon += 1
    blocks = 0
    begin = 0
    for block in range(len(memory.tops)):
        if needed + begin >= nodes:
            break
        top = min(memory.tops[block], nodes - needed)
        blocks += 1
        for horizon in range(len(STEPS_OF)):
            row = features[block, horizon]
            often, weekly = 0, 0
            for day in range(days):
                reached = rises[day, horizon] >= top
                often += reached
                weekly += reached and day % 7 == 6
            row[0] = np.log2(top)
            row[1] = top / nodes
            row[2] = np.log2(1 + (queue.now_s - memory.used_s[needed + begin]) / STEP_S)
            row[3] = np.log2(1 + (queue.now_s - memory.used_s[needed + top - 1]) / STEP_S)
            row[4] = needed / nodes
            row[5] = np.log1p(waiting)
            row[6] = widest / units
            row[7] = waiting_units / units
            row[8] = soon / units
            row[9] = later / units
            row[10] = min(4.0, max(0, hour_peak - needed) / top)
            row[11] = min(4.0, max(0, day_peak - needed) / top)
            row[12] = often / max(days, 1)
            row[13] = weekly
            row[14] = np.log2(HORIZONS_S[horizon])
            row[15] = rises[0, horizon] / top
            for column in range(EXTERNAL_FEATURES):
                row[OWN_FEATURES + column] = memory.external[moment, column]
        begin = memory.tops[block]
    return blocks


class Trees(NamedTuple):
    """A gradient-boosted model as arrays: the roots of its trees, and by node its split or value."""

    root: Int64
    feature: Int64
    threshold: Float64
    left: Int64
    right: Int64
    value: Float64
    baseline: float


@kernel
def sum_of_trees(trees: Trees, row: Float32) -> float:
    """Return the raw prediction for a row."""
    total = trees.baseline
    for tree in range(len(trees.root)):
        node = trees.root[tree]
        while trees.feature[node] >= 0:
            smaller = row[trees.feature[node]] <= trees.threshold[node]
            node = trees.left[node] if smaller else trees.right[node]
        total += trees.value[node]
    return total


@kernel
def predict_needs(
    used_trees: Trees, tops_trees: Trees, features: Float32, blocks: int, used: Float64, tops: Float64
) -> None:
    """Write the expected share of each block that is used, and the jobs that end in it, by horizon."""
    for block in range(blocks):
        for horizon in range(features.shape[1]):
            share = sum_of_trees(used_trees, features[block, horizon])
            used[block, horizon] = min(1.0, max(0.0, share))
            tops[block, horizon] = np.exp(sum_of_trees(tops_trees, features[block, horizon]))


class NodePrices(NamedTuple):
    """What a cycle, its transitions included, and the delay of a job by a boot are worth, in s of an idle node.

    `doubt`: a sleeping node is woken ahead if that is worth so many cycles.
    """

    cycle_s: float
    delay_s: float
    doubt: float


@kernel
def decide(
    block_tops: Int64, used: Float64, tops: Float64, blocks: int, free: int, idle: int, prices: NodePrices
) -> tuple[int, int]:
    """Return how many idle nodes stay awake, and how many must be awake: those that cost least by any horizon."""
    keep, reserve = 0, 0
    best, best_awake = 0.0, 0.0
    for horizon in range(used.shape[1]):
        gain, begin = 0.0, 0
        for block in range(blocks):
            end = min(block_tops[block], free)
            idle_s, before_s, before = 0.0, 0, 0.0
            for part in range(horizon + 1):
                idle_s += (HORIZONS_S[part] - before_s) * (1.0 - (before + used[block, part]) / 2)
                before_s, before = HORIZONS_S[part], used[block, part]
            gain += (end - begin) * (used[block, horizon] * prices.cycle_s - idle_s)
            gain += tops[block, horizon] * prices.delay_s
            if gain > best:
                best, keep = gain, end
            awake = gain - prices.doubt * prices.cycle_s * max(0, end - idle)
            if awake > best_awake:
                best_awake, reserve = awake, end
            begin = end
    return keep, reserve if reserve > idle else 0


@kernel
def observed_needs(
    at_s: Int64, change: Int64, moment_s: Int64, needed: Int64, units: Int64, block_tops: Int64, per_node: int
) -> tuple[Float64, Float64]:
    """Return for each moment what came: the share of each block used, and the jobs that ended in it, by horizon.

    `change[i]` units at `at_s[i]`, one entry for each start and end of a job, ends first within a second; `units` are
    those in use at each moment.
    """
    horizons = len(HORIZONS_S)
    used = np.zeros((len(moment_s), len(block_tops), horizons))
    tops = np.zeros((len(moment_s), len(block_tops), horizons))
    first = 0
    for moment in range(len(moment_s)):
        while first < len(at_s) and at_s[first] <= moment_s[moment]:
            first += 1
        now, highest, horizon, at = units[moment], 0, 0, first
        ends = np.zeros(len(block_tops))
        while horizon < horizons:
            if at < len(at_s) and at_s[at] <= moment_s[moment] + HORIZONS_S[horizon]:
                now += change[at]
                rise = (now + per_node - 1) // per_node - needed[moment]
                if rise > highest:
                    highest = rise
                    ends[np.searchsorted(block_tops, rise)] += 1
                at += 1
                continue
            begin = 0
            for block in range(len(block_tops)):
                size = block_tops[block] - begin
                used[moment, block, horizon] = min(size, max(0, highest - begin)) / size
                tops[moment, block, horizon] = ends[block]
                begin = block_tops[block]
            horizon += 1
    return used, tops
