"""The kernels' decisions where nothing is simulated: which idle nodes sleep, and what a forecast keeps awake."""

from offpeak.bits import NO_BIT, previous_bit
from offpeak.compiled import in_place, index
from offpeak.model.arrays import Int64
from plugin.capacity.choose import (
    NO_DEPTH,
    deepest_in_use,
    depth_at_age,
    eligible_up_to,
    last_key,
    may_sleep,
    sleep_key,
)
from plugin.capacity.need import WAKE_AHEAD_AT, NeedRecord, last_rank, see
from plugin.capacity.rules import NEVER, CapacityRules, Course, NodeTable


@in_place
def pick_sleepers(
    table: NodeTable,
    rules: CapacityRules,
    course: Course,
    row: int,
    allowed: int,
    now_s: int,
    any_age: bool,
    depth: Int64,
) -> None:
    """Write the depth for each of up to `allowed` idle nodes that are to sleep, of any age or due by it.

    Those stay NO_DEPTH that stay awake. The same ones in the same order as in a replay.
    """
    due = eligible_up_to(table, rules, course, row, NEVER, now_s, any_age)
    left = max(0, min(allowed, due))
    last = NEVER
    ties = 0
    if 0 < left < due:
        last = last_key(table, rules, course, row, left, now_s, any_age)
        ties = left - eligible_up_to(table, rules, course, row, last - 1, now_s, any_age)
    node = previous_bit(table.idle, len(table.state) - 1)
    while left > 0 and node != NO_BIT:
        key = sleep_key(table, rules, node, now_s)
        is_first = key < last or (key == last and ties > 0)
        if is_first and may_sleep(table, rules, course, row, node, now_s, any_age):
            age_s = now_s - table.idle_since_s[index(node)]
            depth[index(node)] = deepest_in_use(course, row) if any_age else depth_at_age(course, row, age_s)
            left -= depth[index(node)] != NO_DEPTH
            ties -= key == last
        node = previous_bit(table.idle, node - 1)


@in_place
def expect_needs(record: NeedRecord, now_s: int, needed: int, worth_s: int) -> tuple[int, int]:
    """Take down that jobs need so many nodes; return how many idle ones stay awake, and how many are to be awake."""
    see(record, now_s, needed)
    return last_rank(record, 1 / worth_s), last_rank(record, WAKE_AHEAD_AT / worth_s)
