"""Compiled kernels that select the idle nodes that may sleep, their depth and their order.

The engine calls the parts within its own kernels. `pick_sleepers`, `follow_queue` and `expect_needs` are the entries
for the live power loop, which simulates nothing.
"""

from typing import NamedTuple

from offpeak.bits import NO_BIT, next_bit, previous_bit
from offpeak.compiled import in_place, index, part
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.model.node_states import ACTIVE, DEPTHS
from plugin.capacity.need import WAKE_AHEAD_AT, NeedRecord, last_rank, observe_need
from plugin.capacity.rules import BY_IDLE_AGE, BY_WEAR, NEVER, CapacityRules, CapacitySchedule, NodeTable

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


@in_place
def follow_queue(rules: CapacityRules, target: int, in_use: int, widest: int, most: int) -> int:
    """Return the target as it follows the queue: between two levels, or up for a wider job."""
    return target_for_queue(rules, target, widest, most) if follows_queue(rules, target, in_use) else target


@in_place
def expect_needs(record: NeedRecord, now_s: int, needed: int, worth_s: int) -> tuple[int, int]:
    """Record the number of nodes that jobs need; return how many idle nodes stay awake, and how many to keep ready."""
    observe_need(record, now_s, needed)
    return last_rank(record, 1 / worth_s), last_rank(record, WAKE_AHEAD_AT / worth_s)
