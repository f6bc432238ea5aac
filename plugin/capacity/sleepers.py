"""Compiled kernels that select the idle nodes that may sleep, their depth and order, and that predict when idle nodes
are needed again.

The engine calls the parts within its own kernels. `pick_sleepers`, `follow_queue` and `expect_needs` are the entries
for the live power loop, which simulates nothing.

Needs are predicted by rank, idle time and hour of day. Level l is in use while the jobs need more than l nodes. Of the
levels that are not, rank 1 is the one that is needed first. A level that has been idle for long is needed later than
one that was just used, a high rank later than a low one, and all of them later in the evening than in the morning.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.bits import NO_BIT, next_bit, previous_bit
from offpeak.compiled import in_place, index, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_states import ACTIVE, DEPTHS
from offpeak.plugin.capacity.rules import BY_IDLE_AGE, BY_WEAR, NEVER, CapacityRules, CapacitySchedule, NodeTable

STEP_S = 300
STEPS_AHEAD = 24
"""Each observation is followed for two hours; a later need does not count."""

HOURS = 24
AGES, RANKS = 10, 8
KINDS = RANKS * AGES

NARROW = 10.0
"""The weight of a need of a single node against that of a node of a wide job: it alone delays its job."""

DOUBT_S = 5.0 * DAY_S
"""The idle time after which an hour of the day weighs as much as all hours together."""

FIRST_NEEDS, FIRST_IDLE_S = 1.0, 4000.0
"""The prior of a rank and idle time without an observation."""

NEVER_USED = -(1 << 40)

WAKE_AHEAD_AT = 3
"""How much likelier a need must be to wake a node for it: a node that is not needed then costs a power cycle."""


class NeedRecord(NamedTuple):
    """The observations of nodes of the same kind, one every `STEP_S`.

    A kind is a range of ranks and a range of idle times. `needs` float64[HOURS + 1, KINDS]: what the jobs came to need,
    each weighing 1 + NARROW / nodes that they came to need at that time; `idle_s`, of the same shape: the idle seconds
    before that. The last row is of all hours. `used_s` int64[nodes]: when each level was last in use. Of the last
    moments, the present one in row `moments` modulo STEPS_AHEAD + 1: `needed` nodes, `hour`, and `kind` int64[nodes] of
    the levels that were idle.
    """

    needs: Float64
    idle_s: Float64
    used_s: Int64
    needed: Int64
    hour: Int64
    kind: NDArray[np.int64]
    moments: Int64


def new_record(nodes: int) -> NeedRecord:
    """Return the record of a cluster without observations."""
    ring_size = STEPS_AHEAD + 1
    return NeedRecord(
        needs=np.zeros((HOURS + 1, KINDS)),
        idle_s=np.zeros((HOURS + 1, KINDS)),
        used_s=np.full(nodes, NEVER_USED),
        needed=np.zeros(ring_size, dtype=np.int64),
        hour=np.zeros(ring_size, dtype=np.int64),
        kind=np.zeros((ring_size, nodes), dtype=np.int64),
        moments=np.zeros(1, dtype=np.int64),
    )


@part
def observe_need(record: NeedRecord, now_s: int, needed: int) -> None:
    """Record the number of nodes that jobs need now, and learn from the moment two hours ago."""
    record.moments[0] += 1
    row = index(record.moments[0] % (STEPS_AHEAD + 1))
    record.needed[row] = needed
    if record.moments[0] > STEPS_AHEAD:
        learn_from_moment(record, record.moments[0] - STEPS_AHEAD)
    record.hour[row] = now_s // HOUR_S % HOURS
    for level in range(needed):
        record.used_s[index(level)] = now_s
    for level in range(needed, len(record.used_s)):
        rank = doublings(level - needed + 1, RANKS)
        age = doublings((now_s - record.used_s[index(level)]) // STEP_S * 2, AGES)
        record.kind[row, index(level)] = rank * AGES + age


@part
def doublings(value: int, most: int) -> int:
    """Return the binary logarithm of `value`, rounded down, between 0 and `most` - 1."""
    count = 0
    while value >= 2 and count < most - 1:
        value >>= 1
        count += 1
    return count


@part
def learn_from_moment(record: NeedRecord, moment: int) -> None:
    """Add to the record how long the levels that were idle at a moment stayed idle."""
    then = index(moment % (STEPS_AHEAD + 1))
    level = record.needed[then]
    before = level
    for step in range(1, STEPS_AHEAD + 1):
        needed = record.needed[index((moment + step) % (STEPS_AHEAD + 1))]
        while level < needed:
            add_need(record, then, level, 1 + NARROW / (needed - before), step)
            level += 1
        before = needed
    for unneeded in range(level, len(record.used_s)):
        add_need(record, then, unneeded, 0.0, STEPS_AHEAD)


@part
def add_need(record: NeedRecord, then: np.uintp, level: int, need: float, steps: int) -> None:
    """Count a need of an idle level and the idle time before it, for its hour and for all hours."""
    kind = index(record.kind[then, index(level)])
    for row in (index(record.hour[then]), index(HOURS)):
        record.needs[row, kind] += need
        record.idle_s[row, kind] += steps * STEP_S


@part
def last_rank(record: NeedRecord, needs_per_s: float) -> int:
    """Return the last rank of the idle levels with at least that expected rate of needs, or 0."""
    row = index(record.moments[0] % (STEPS_AHEAD + 1))
    needed = record.needed[row]
    for level in range(len(record.used_s) - 1, needed - 1, -1):
        if need_rate(record, row, level) >= needs_per_s:
            return int(level - needed + 1)
    return 0


@part
def need_rate(record: NeedRecord, row: np.uintp, level: int) -> float:
    """Return the expected rate of needs of an idle level [1/s]."""
    hour = index(record.hour[row])
    kind = index(record.kind[row, index(level)])
    all_hours = index(HOURS)
    usual = (record.needs[all_hours, kind] + FIRST_NEEDS) / (record.idle_s[all_hours, kind] + FIRST_IDLE_S)
    return float((record.needs[hour, kind] + usual * DOUBT_S) / (record.idle_s[hour, kind] + DOUBT_S))


NO_DEPTH = -1
SHALLOW_TO_DEEP = len(DEPTHS)


class SleepCriteria(NamedTuple):
    """The criteria by which idle nodes may sleep now: their idle time and the schedule's `row`, or `any_age`."""

    table: NodeTable
    rules: CapacityRules
    schedule: CapacitySchedule
    row: int
    now_s: int
    any_age: bool


@part
def depth_at_age(schedule: CapacitySchedule, row: int, age_s: int) -> int:
    """Return the deepest depth that a node idle for `age_s` is due for, NO_DEPTH for none."""
    due = NO_DEPTH
    for depth in range(SHALLOW_TO_DEEP):
        if schedule.after_s[row, depth] <= age_s:
            due = depth
    return due


@part
def deepest_in_use(schedule: CapacitySchedule, row: int) -> int:
    """Return the deepest depth that is used at any age, NO_DEPTH for none."""
    return int(depth_at_age(schedule, row, NEVER - 1))


@part
def sleeps_today(table: NodeTable, node: int, now_s: int) -> int:
    """Return how often the node was put to sleep on the present day."""
    return int(table.sleeps[index(node)]) if table.day[index(node)] == now_s // DAY_S else 0


@part
def is_spent(table: NodeTable, rules: CapacityRules, node: int, now_s: int) -> bool:
    """Return whether the node has used up its power cycles of the present day."""
    most = rules.most_sleeps_per_day
    return bool(most > 0 and sleeps_today(table, node, now_s) >= most)


@part
def is_free_to_sleep(table: NodeTable, rules: CapacityRules, node: int, now_s: int) -> bool:
    """Return whether the node is active without a job, was awake long enough and is not spent."""
    at = index(node)
    if table.state[at] != ACTIVE or table.busy[at] > 0 or now_s - table.woken_s[at] < rules.min_awake_s:
        return False
    return not is_spent(table, rules, node, now_s)


@part
def may_sleep(criteria: SleepCriteria, node: int) -> bool:
    """Return whether the node may be put to sleep."""
    table = criteria.table
    now_s = criteria.now_s
    if not is_free_to_sleep(table, criteria.rules, node, now_s):
        return False
    age_s = now_s - table.idle_since_s[index(node)]
    return bool(criteria.any_age or depth_at_age(criteria.schedule, criteria.row, age_s) != NO_DEPTH)


@part
def depth_to_enter(criteria: SleepCriteria, node: int) -> int:
    """Return the depth that a node that may sleep is put into: the deepest in use, or the one that is due."""
    if criteria.any_age:
        return int(deepest_in_use(criteria.schedule, criteria.row))
    age_s = criteria.now_s - criteria.table.idle_since_s[index(node)]
    return int(depth_at_age(criteria.schedule, criteria.row, age_s))


@part
def free_to_sleep_s(table: NodeTable, rules: CapacityRules, node: int, now_s: int) -> int:
    """Return the second from which only a job or its idle time keeps an active node awake."""
    at_s = table.woken_s[index(node)] + rules.min_awake_s
    if is_spent(table, rules, node, now_s):
        at_s = max(at_s, (now_s // DAY_S + 1) * DAY_S)
    return int(at_s)


@part
def sleep_key(table: NodeTable, rules: CapacityRules, node: int, now_s: int) -> int:
    """Return the sort key of the node: nodes with lower keys sleep first."""
    if rules.order == BY_IDLE_AGE:
        return int(table.idle_since_s[index(node)])
    return sleeps_today(table, node, now_s) if rules.order == BY_WEAR else 0


@part
def eligible_up_to(criteria: SleepCriteria, key: int) -> int:
    """Return the number of nodes with at most this key that may sleep."""
    table = criteria.table
    found = 0
    node = next_bit(table.idle, 0)
    while node != NO_BIT:
        if sleep_key(table, criteria.rules, node, criteria.now_s) <= key and may_sleep(criteria, node):
            found += 1
        node = next_bit(table.idle, node + 1)
    return found


@part
def last_key(criteria: SleepCriteria, wanted: int) -> int:
    """Return the lowest key up to which `wanted` nodes may sleep."""
    table = criteria.table
    low = NEVER
    high = -NEVER
    node = next_bit(table.idle, 0)
    while node != NO_BIT:
        key = sleep_key(table, criteria.rules, node, criteria.now_s)
        low = min(low, key)
        high = max(high, key)
        node = next_bit(table.idle, node + 1)
    while low < high:
        middle = low + (high - low) // 2
        if eligible_up_to(criteria, middle) >= wanted:
            high = middle
        else:
            low = middle + 1
    return int(low)


@part
def due_in_s(
    table: NodeTable, rules: CapacityRules, schedule: CapacitySchedule, row: int, node: int, now_s: int
) -> int:
    """Return the next second after now at which the idle node is due for a depth that it is not in, or NEVER."""
    at = index(node)
    state = table.state[at]
    earliest = NEVER
    for depth in range(SHALLOW_TO_DEEP):
        after_s = schedule.after_s[row, depth]
        if after_s == NEVER or (state != ACTIVE and not is_shallower(state, depth)):
            continue
        due_s = max(table.idle_since_s[at] + after_s, free_to_sleep_s(table, rules, node, now_s))
        if due_s > now_s:
            earliest = min(earliest, due_s)
    return int(earliest)


@part
def is_shallower(state: int, depth: int) -> bool:
    """Return whether a node in `state` sleeps less deeply than `depth`."""
    return bool(state >= 3 and state % 3 == 0 and state // 3 - 1 < depth)


@python_first
@in_place
def pick_sleepers(criteria: SleepCriteria, allowed: int, depth: Int64) -> None:
    """Write into `depth` the sleep depth of each of up to `allowed` idle nodes that are to sleep.

    The entries of the other nodes stay NO_DEPTH. A replay selects the same nodes in the same order.
    """
    table = criteria.table
    now_s = criteria.now_s
    due = eligible_up_to(criteria, NEVER)
    left = max(0, min(allowed, due))
    last = NEVER
    ties = 0
    if 0 < left < due:
        last = last_key(criteria, left)
        ties = left - eligible_up_to(criteria, last - 1)
    node = previous_bit(table.idle, len(table.state) - 1)
    while left > 0 and node != NO_BIT:
        key = sleep_key(table, criteria.rules, node, now_s)
        is_first = key < last or (key == last and ties > 0)
        if is_first and may_sleep(criteria, node):
            depth[index(node)] = depth_to_enter(criteria, node)
            left -= depth[index(node)] != NO_DEPTH
            ties -= key == last
        node = previous_bit(table.idle, node - 1)


def floor_nodes(rules: CapacityRules, target: int) -> int:
    """Return the minimum of awake nodes, with or without jobs."""
    return max(rules.keep_hot, 0 if rules.on_demand else target)


floor_nodes_part = part(floor_nodes)


@part
def follows_queue(rules: CapacityRules, target: int, in_use: int) -> bool:
    """Return whether the target depends on the queue now: with two levels while the lower one may be enough."""
    if rules.low > 0:
        return not (target > rules.low and in_use > rules.low)
    return rules.raise_for_wide


@part
def target_for_queue(rules: CapacityRules, target: int, widest: int, most: int) -> int:
    """Return the target of awake nodes while the widest queued job needs `widest` nodes of `most`.

    Two levels: Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS
    2005, section 3.2; the rise for a wide job: section 3.3.1.
    """
    if rules.low > 0:
        return rules.low if widest <= rules.low else most
    return max(target, widest)


@python_first
@in_place
def follow_queue(rules: CapacityRules, target: int, in_use: int, widest: int, most: int) -> int:
    """Return the target as it follows the queue: between two levels, or up for a wider job."""
    return target_for_queue(rules, target, widest, most) if follows_queue(rules, target, in_use) else target


@python_first
@in_place
def expect_needs(record: NeedRecord, now_s: int, needed: int, worth_s: int) -> tuple[int, int]:
    """Record the number of nodes that jobs need; return how many idle nodes stay awake, and how many to keep ready."""
    observe_need(record, now_s, needed)
    return last_rank(record, 1 / worth_s), last_rank(record, WAKE_AHEAD_AT / worth_s)
