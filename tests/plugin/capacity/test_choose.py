"""Which idle nodes may sleep, how deeply, which first and when next: against lists and sorting in plain Python."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.compiled import kernel
from offpeak.model.node_states import ACTIVE, FAILED, OFF, POWERSAVE, STANDBY, STATES, asleep
from offpeak.plugin.capacity import sleepers as choose
from offpeak.plugin.capacity.rules import (
    BY_IDLE_AGE,
    BY_NUMBER,
    BY_WEAR,
    NEVER,
    CapacityRules,
    CapacitySchedule,
    NodeTable,
)

NO_BOUNDS = CapacityRules(True, 0, False, 0, 0, 0, 0, 0, 0, 0, 0, BY_NUMBER, 0, 0)
NOON_S = 10 * choose.DAY_S + choose.DAY_S // 2


@kernel
def depths_at_ages(schedule, row, ages_s):
    return [choose.depth_at_age(schedule, row, age_s) for age_s in ages_s], choose.deepest_in_use(schedule, row)


@kernel
def allowed(table, rules, schedule, now_s, any_age):
    criteria = choose.SleepCriteria(table, rules, schedule, 0, now_s, any_age)
    return [choose.may_sleep(criteria, node) for node in range(len(table.state))]


@kernel
def keys(table, rules, now_s):
    return [choose.sleep_key(table, rules, node, now_s) for node in range(len(table.state))]


@kernel
def border(table, rules, schedule, wanted, now_s, any_age):
    criteria = choose.SleepCriteria(table, rules, schedule, 0, now_s, any_age)
    last = choose.last_key(criteria, wanted)
    return last, choose.eligible_up_to(criteria, last - 1), choose.eligible_up_to(criteria, last)


@kernel
def due_s(table, rules, schedule, now_s):
    return [choose.due_in_s(table, rules, schedule, 0, node, now_s) for node in range(len(table.state))]


@dataclass(frozen=True)
class Node:
    """A row of the table of nodes; times are seconds before noon, `cycles` those of the day `day`, 0 being today."""

    state: int = ACTIVE
    busy: int = 0
    idle_s: int = 0
    awake_s: int = 10**6
    cycles: int = 0
    day: int = 0


def idle_bits(nodes) -> np.ndarray:
    idle = [node.state == ACTIVE and node.busy == 0 for node in nodes]
    bitmap = [sum(bit << at for at, bit in enumerate(idle[first : first + 64])) for first in range(0, len(idle), 64)]
    return np.array(bitmap, dtype=np.uint64)


def table_of(*nodes: Node) -> NodeTable:
    """Return the table of these nodes at noon, as they are numbered."""

    def column(values):
        return np.array(list(values), dtype=np.int64)

    return NodeTable(
        state=np.array([node.state for node in nodes], dtype=np.int8),
        busy=column(node.busy for node in nodes),
        idle=idle_bits(nodes),
        idle_since_s=column(NOON_S - node.idle_s for node in nodes),
        woken_s=column(NOON_S - node.awake_s for node in nodes),
        slept_s=column(0 for _ in nodes),
        sleeps=column(node.cycles for node in nodes),
        day=column(NOON_S // choose.DAY_S - node.day for node in nodes),
    )


def ladder(*after_s) -> CapacitySchedule:
    """Return the course in which each depth comes after that idle time."""
    return CapacitySchedule(np.array([0]), np.array([9]), np.array([0]), np.array([after_s], dtype=np.int64))


after_times_s = st.one_of(st.integers(0, 50), st.just(NEVER))
ladders = st.builds(ladder, after_times_s, after_times_s, after_times_s)
any_nodes = st.builds(
    Node,
    state=st.one_of(st.just(ACTIVE), st.integers(0, STATES - 1)),
    busy=st.sampled_from([0, 0, 0, 2]),
    idle_s=st.integers(0, 60),
    awake_s=st.integers(0, 60),
    cycles=st.integers(0, 4),
    day=st.sampled_from([0, 0, 1]),
)
tables = st.lists(any_nodes, min_size=1, max_size=12)
any_rules = st.builds(
    NO_BOUNDS._replace,
    min_awake_s=st.sampled_from([0, 0, 30]),
    most_sleeps_per_day=st.sampled_from([0, 0, 1, 3]),
    order=st.sampled_from([BY_NUMBER, BY_IDLE_AGE, BY_WEAR]),
)


def plain_depth(schedule, age_s) -> int:
    return max((depth for depth in range(3) if schedule.after_s[0, depth] <= age_s), default=choose.NO_DEPTH)


def is_spent(node, rules) -> bool:
    return 0 < rules.most_sleeps_per_day <= node.cycles and node.day == 0


def plain_allowed(node, rules, schedule, any_age) -> bool:
    is_idle = node.state == ACTIVE and not node.busy and node.awake_s >= rules.min_awake_s
    return is_idle and not is_spent(node, rules) and (any_age or plain_depth(schedule, node.idle_s) != choose.NO_DEPTH)


def plain_key(node, rules) -> int:
    by_order = {BY_NUMBER: 0, BY_IDLE_AGE: NOON_S - node.idle_s, BY_WEAR: node.cycles if node.day == 0 else 0}
    return by_order[rules.order]


def test_the_deepest_depth_whose_time_has_come():
    assert depths_at_ages(ladder(5, NEVER, 60), 0, np.array([0, 4, 5, 59, 60, 10**9])) == ([-1, -1, 0, 0, 2, 2], OFF)
    assert depths_at_ages(ladder(NEVER, 20, NEVER), 0, np.array([19, 20])) == ([-1, STANDBY], STANDBY)
    assert depths_at_ages(ladder(NEVER, NEVER, NEVER), 0, np.array([10**15])) == ([-1], choose.NO_DEPTH)


@given(ladders, st.lists(st.integers(0, 60), min_size=1))
def test_depths_at_any_age(schedule, ages_s):
    found, _ = depths_at_ages(schedule, 0, np.array(ages_s))
    assert found == [plain_depth(schedule, age_s) for age_s in ages_s]


@given(tables, any_rules, ladders, st.booleans())
def test_only_idle_usable_nodes_may_sleep(nodes, rules, schedule, any_age):
    found = allowed(table_of(*nodes), rules, schedule, NOON_S, any_age)
    assert found == [plain_allowed(node, rules, schedule, any_age) for node in nodes]


def test_cycles_of_yesterday_do_not_count():
    rules = NO_BOUNDS._replace(most_sleeps_per_day=2, order=BY_WEAR)
    table = table_of(Node(cycles=2), Node(cycles=2, day=1), Node(cycles=1))
    assert allowed(table, rules, ladder(NEVER, NEVER, 0), NOON_S, False) == [False, True, True]
    assert keys(table, rules, NOON_S) == [2, 0, 1]


def test_nodes_sleep_in_order_of_idle_time():
    table = table_of(Node(idle_s=5, cycles=3), Node(idle_s=50, cycles=1), Node(idle_s=20, cycles=0))
    order = {
        order: np.argsort(keys(table, NO_BOUNDS._replace(order=order), NOON_S), kind="stable").tolist()
        for order in (BY_NUMBER, BY_IDLE_AGE, BY_WEAR)
    }
    assert order == {BY_NUMBER: [0, 1, 2], BY_IDLE_AGE: [1, 2, 0], BY_WEAR: [2, 1, 0]}


@given(tables, any_rules, ladders, st.booleans(), st.data())
def test_the_border_key_splits_those_that_sleep_now_from_the_others(nodes, rules, schedule, any_age, data):
    """All before the border sleep; of those at it, as many as are still wanted."""
    found = sorted(plain_key(node, rules) for node in nodes if plain_allowed(node, rules, schedule, any_age))
    if not found:
        return
    wanted = data.draw(st.integers(1, len(found)))
    last, before, up_to = border(table_of(*nodes), rules, schedule, wanted, NOON_S, any_age)
    assert last == found[wanted - 1]
    assert before == sum(key < last for key in found) < wanted
    assert up_to == sum(key <= last for key in found) >= wanted


def test_the_border_of_equal_nodes():
    table = table_of(*[Node(idle_s=40)] * 3, Node(idle_s=70))
    rules = NO_BOUNDS._replace(order=BY_IDLE_AGE)
    assert border(table, rules, ladder(NEVER, NEVER, 30), 2, NOON_S, False) == (NOON_S - 40, 1, 4)


@given(tables, any_rules, ladders)
def test_next_due_time_of_an_idle_node(nodes, rules, schedule):
    """Second by second: the first later one in which another depth's time comes, or a bound lets go of a due node."""
    found = due_s(table_of(*nodes), rules, schedule, NOON_S)
    for node, due in zip(nodes, found, strict=True):
        depths = [depth for depth in range(3) if node.state == ACTIVE or is_above(node.state, depth)]
        free_s = NOON_S - node.awake_s + rules.min_awake_s
        if is_spent(node, rules):
            free_s = (NOON_S // choose.DAY_S + 1) * choose.DAY_S
        after_s = [int(schedule.after_s[0, depth]) for depth in depths if schedule.after_s[0, depth] != NEVER]
        times = [max(NOON_S - node.idle_s + after, free_s) for after in after_s]
        assert due == min((at_s for at_s in times if at_s > NOON_S), default=NEVER)


def is_above(state, depth) -> bool:
    return state in [asleep(shallower) for shallower in range(depth)]


def test_a_light_sleeper_is_due_for_what_lies_below_it():
    schedule = ladder(0, 100, 300)
    nodes = [Node(state=asleep(depth), idle_s=50) for depth in (POWERSAVE, STANDBY, OFF)]
    found = due_s(table_of(*nodes, Node(state=FAILED), Node(idle_s=50)), NO_BOUNDS, schedule, NOON_S)
    assert found == [NOON_S + 50, NOON_S + 250, NEVER, NEVER, NOON_S + 50]
