"""Replays on nodes that sleep: as the plain machine does it, and what holds whatever the rules."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_nodes import chance as plain_chance
from random_logs import BACKFILLING, DISCIPLINES, PLAIN, log_of, logs, rules, schedule
from random_power import (
    BEFORE_ALL_S,
    DAY_S,
    ON_DEMAND,
    PoweredLog,
    bits,
    class_of,
    held_units,
    node_classes,
    per_second_rules,
    plain_power,
    powered,
    powered_logs,
    powered_replay,
    schedule_of,
    stepped,
)

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.node_states import ACTIVE, FAILED, OFF, POWERSAVE, STANDBY, asleep, coming_up, going_down
from offpeak.plugin.capacity.rules import BY_WEAR, NEVER
from offpeak.plugin.window_policy import ARRIVAL, EXTERNAL, WindowPolicy
from offpeak.sim_backend.engine.power_transitions import chance
from offpeak.sim_backend.engine.rules import CONSERVATIVE, FCFS
from offpeak.sim_backend.engine.state import BREAKPOINTS, SLOTS
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import Policy

ONE_W = 1
DOWN, ASLEEP, UP = (np.array([state(depth) for depth in range(3)]) for state in (going_down, asleep, coming_up))
any_rules = per_second_rules(disciplines=DISCIPLINES)


def node_paths(result) -> list[list[tuple[int, int]]]:
    """Return (second, state entered) of each node."""
    log = result.node_log
    paths = [[] for _ in range(log.nodes)]
    for at_s, node, state in zip(log.at_s.tolist(), log.node.tolist(), log.state.tolist(), strict=True):
        paths[node].append((at_s, state))
    return paths


def seconds_of(case, result) -> list[int]:
    """Return all seconds in which something happens."""
    times = [case.log.jobs.submit_s, result.node_log.at_s, result.start_s, result.end_s]
    return np.unique(np.concatenate(times)).tolist()


def one_depth(
    rows, *, nodes, after_s, way_s=(3, 5), capacity=ON_DEMAND, depth=OFF, capacity_schedule=None, discipline=None
):
    """Return a powered log: nodes of one unit that go into one depth, all of them to be awake."""
    after = [after_s if number == depth else NEVER for number in range(3)]
    scheduling = PLAIN if discipline is None else PLAIN._replace(discipline=discipline)
    machine = PoweredMachine(nodes, 1, class_of((depth, *way_s)))
    capacity_schedule = capacity_schedule or schedule_of((BEFORE_ALL_S, nodes, 0, after))
    return PoweredLog(log_of(rows, machine_size=nodes), scheduling, machine, capacity, capacity_schedule)


@given(powered_logs(scheduling=per_second_rules(disciplines=BACKFILLING)))
def test_starts_node_logs_and_delays_are_those_of_the_plain_machine(case):
    plain = plain_power(case)
    start_s = plain.run()
    result = powered(case)
    assert result.start_s.tolist() == start_s
    assert node_paths(result) == [node.log for node in plain.nodes]
    delay_s = [start_s[job] - plain.wanted_s[job] if start_s[job] >= 0 else 0 for job in range(len(start_s))]
    assert result.sleep_delay_s.tolist() == delay_s


@given(logs(), rules(disciplines=DISCIPLINES), st.booleans(), st.integers(0, 70))
def test_nodes_that_are_always_on_change_nothing(log, rules, on_demand, after_s):
    """Neither where no depth is in use, nor where all nodes are kept hot."""
    rules = rules._replace(pass_per_event=False)
    never = schedule_of((BEFORE_ALL_S, log.machine_size, 0, [NEVER] * 3))
    sleepy = schedule_of((BEFORE_ALL_S, log.machine_size, 0, [NEVER, NEVER, after_s]))
    machine = PoweredMachine(log.machine_size, 1, class_of((OFF, 3, 5)))
    expected = schedule(log, rules)
    for capacity, capacity_schedule in ((ON_DEMAND, never), (ON_DEMAND._replace(keep_hot=log.machine_size), sleepy)):
        result = powered(PoweredLog(log, rules, machine, capacity._replace(on_demand=on_demand), capacity_schedule))
        assert result.start_s.tolist() == expected.start_s.tolist()
        assert result.end_s[result.start_s >= 0].tolist() == expected.end_s[expected.start_s >= 0].tolist()
        assert not result.sleep_delay_s.any()
        assert len(result.node_log) == 0


@given(powered_logs(scheduling=any_rules))
def test_a_job_runs_on_active_nodes_and_shares_no_unit(case):
    case = replace(case, capacity=case.capacity._replace(period_s=0))
    result = powered(case)
    k, jobs = case.machine.units_per_node, case.log.jobs
    seconds = seconds_of(case, result)
    for second, state in zip(seconds, stepped(case, seconds), strict=True):
        power, held = state.sleeping.power, held_units(state)
        units = [unit for numbers in held.values() for unit in numbers]
        assert len(set(units)) == len(units)
        assert {job: len(numbers) for job, numbers in held.items()} == {job: jobs.size[job] for job in held}
        running = (result.start_s >= 0) & (result.start_s <= second) & (second < result.end_s)
        assert set(np.flatnonzero(running)) <= set(held)
        assert all(power.table.state[unit // k] == ACTIVE for job in np.flatnonzero(running) for unit in held[job])


@given(powered_logs(scheduling=any_rules))
def test_running_counts_equal_a_recount(case):
    case = replace(case, capacity=case.capacity._replace(period_s=0))
    k, size = case.machine.units_per_node, case.machine.size
    jobs_wake = case.capacity.on_demand and case.capacity.plan_s == 0
    for state in stepped(case, seconds_of(case, powered(case))):
        power = state.sleeping.power
        node_state, busy, deeper = power.table.state, power.table.busy, power.deeper >= 0
        units = [unit for numbers in held_units(state).values() for unit in numbers]
        assert busy.tolist() == np.bincount(np.array(units, dtype=int) // k, minlength=size // k).tolist()
        free = {unit for unit in range(size) if node_state[unit // k] == ACTIVE} - set(units)
        assert bits(state.sleeping.nodes.free) == free
        assert bits(power.spare) == set(range(size)) - set(units) - free
        rising = np.isin(node_state, UP)
        nodes = power.scalars[0]
        assert power.nodes_in[0].tolist() == np.bincount(node_state, minlength=power.nodes_in.shape[1]).tolist()
        assert nodes["idle_nodes"] == ((node_state == ACTIVE) & (busy == 0)).sum()
        assert nodes["idle_units"] == len(free)
        assert nodes["spare_units"] == (k - busy)[rising | np.isin(node_state, ASLEEP)].sum()
        assert nodes["rising_idle"] == (rising & ~deeper & (busy == 0)).sum()
        assert nodes["passing"] == (rising & deeper).sum() == deeper.sum()
        assert state.free[SLOTS, 0] == nodes["idle_units"] + jobs_wake * nodes["spare_units"]


@given(powered_logs(scheduling=per_second_rules(disciplines=[CONSERVATIVE])))
def test_conservatives_calendar_never_has_more_units_than_the_machine_and_is_empty_in_the_end(case):
    case = replace(case, capacity=case.capacity._replace(period_s=0))
    for state in stepped(case, seconds_of(case, powered(case))):
        length = state.promises.counts[BREAKPOINTS]
        at_s, free = state.promises.at_s[:length], state.promises.free[:length]
        assert (free <= case.machine.size).all()
    ahead = np.append(at_s[1:] > state.scalars["now_s"][0], True)
    assert (free[ahead] == case.machine.size).all()


@given(powered_logs(scheduling=any_rules))
def test_every_job_ends_unless_it_needs_more_nodes_than_have_not_failed(case):
    result = powered(case)
    jobs, k = case.log.jobs, case.machine.units_per_node
    failed = sum(path[-1][1] == FAILED for path in node_paths(result) if path)
    too_wide = jobs.size > (case.machine.nodes - failed) * k
    never = result.start_s < 0
    assert not (never & ~too_wide).any()
    assert (result.end_s[never] == -1).all()
    assert (result.end_s - result.start_s == jobs.runtime_s)[~never].all()
    assert (result.start_s >= jobs.submit_s)[~never].all()
    assert (result.sleep_delay_s >= 0).all()
    assert (result.sleep_delay_s <= (result.start_s - jobs.submit_s))[~never].all()
    if case.machine.node_class.repair_s is not None:
        assert not never.any()


@given(powered_logs(scheduling=any_rules))
def test_each_node_goes_a_legal_way_in_its_class_time(case):
    result = powered(case)
    node_class = case.machine.node_class
    assert (np.diff(result.node_log.at_s) >= 0).all()
    depths = {depth.depth: depth for depth in node_class.depths}
    for path in node_paths(result):
        for (from_s, state), (to_s, following) in pairwise([(BEFORE_ALL_S, ACTIVE), *path]):
            depth = depths.get((state - 2) // 3)
            if state == ACTIVE:
                assert following in DOWN
            elif state == FAILED:
                assert (following, to_s - from_s) == (ACTIVE, node_class.repair_s)
            elif state in DOWN:
                assert following in (asleep(depth.depth), FAILED)
                assert to_s - from_s == depth.enter.duration_s
            elif state == asleep(POWERSAVE):
                assert following in (coming_up(POWERSAVE), going_down(STANDBY), going_down(OFF))
            elif state in ASLEEP:
                assert following == coming_up(depth.depth)
            else:
                assert following in (ACTIVE, FAILED, *DOWN[depth.depth + 1 :])
                assert to_s - from_s == depth.leave.duration_s


@given(powered_logs(scheduling=any_rules))
def test_the_bounds_hold(case):
    result = powered(case)
    bounds, log = case.capacity, result.node_log
    rises_s = log.at_s[np.isin(log.state, UP)]
    fell_asleep: Counter[int] = Counter()
    cycles: Counter[tuple[int, int]] = Counter()
    for node, path in enumerate(node_paths(result)):
        last_s = {}
        for (_, state), (at_s, following) in pairwise([(BEFORE_ALL_S, ACTIVE), *path]):
            if state == ACTIVE:
                fell_asleep[at_s // 60] += 1
                assert at_s - last_s.get(ACTIVE, BEFORE_ALL_S) >= bounds.min_awake_s
            if following in DOWN[1:]:
                cycles[node, at_s // DAY_S] += 1
            if following in UP and not bounds.on_demand and len(case.machine.node_class.depths) == 1:
                assert at_s - last_s[DOWN[0]] >= bounds.min_asleep_s
            last_s[DOWN[0] if following in DOWN else following] = at_s
    if bounds.sleeps_per_min:
        assert max(fell_asleep.values(), default=0) <= bounds.sleeps_per_min
    if bounds.most_sleeps_per_day:
        assert max(cycles.values(), default=0) <= bounds.most_sleeps_per_day
    if bounds.wakes_per_min:
        assert (rises_s[bounds.wakes_per_min :] - rises_s[: -bounds.wakes_per_min] >= 60).all()


@given(powered_logs(scheduling=any_rules), st.lists(st.integers(0, 500), max_size=10))
def test_pausing_changes_nothing_nor_does_a_log_that_is_often_full(case, pauses):
    case = replace(case, capacity=case.capacity._replace(period_s=0))
    result = powered(case)
    seconds = [int(case.log.jobs.submit_s[0]) + pause for pause in sorted(pauses)]
    with mock.patch("offpeak.sim_backend.engine.pools.LEAST_ENTRIES", 0):
        paused = powered_replay(case)
        for second in [*seconds, NEVER - 1]:
            paused.go_on(second)
    again, log = paused.schedule(), result.node_log
    assert again.start_s.tolist() == result.start_s.tolist()
    for column in ("at_s", "node", "state"):
        assert getattr(again.node_log, column).tolist() == getattr(log, column).tolist()


@given(powered_logs(scheduling=per_second_rules(policies=[ARRIVAL])))
def test_a_policy_from_outside_that_leaves_the_order_alone_changes_nothing(case):
    own = WindowPolicy("own", EXTERNAL, "", order=lambda _: [])
    policy = Policy("own", case.rules._replace(policy=EXTERNAL), own, kill_at_estimate=False)
    log = case.log
    result = replay_powered(log.jobs, log.node_power_w, case.machine, policy, case.policy())
    assert result.start_s.tolist() == powered(case).start_s.tolist()


@given(powered_logs(scheduling=any_rules))
def test_equal_input_gives_equal_output(case):
    once, again = powered(case), powered(case)
    assert once.start_s.tolist() == again.start_s.tolist()
    assert node_paths(once) == node_paths(again)


@given(powered_logs(classes=node_classes(failures=st.just(1.0), repairs_s=st.none()), scheduling=any_rules))
def test_where_all_transitions_fail_what_is_left_does_the_work(case):
    """Down to no node at all: jobs that no node is left for never start, and nothing hangs."""
    for path in node_paths(powered(case)):
        assert [state for _, state in path[1:]] == [FAILED] * len(path[1:])


def test_when_no_wake_succeeds_jobs_go_to_the_nodes_that_are_awake():
    rows = [(0, 100, 100, 2, ONE_W), (50, 10, 10, 2, ONE_W), (60, 10, 10, 3, ONE_W), (70, 10, 10, 4, ONE_W)]
    case = one_depth(rows, nodes=4, after_s=7)
    machine = replace(case.machine, node_class=class_of((OFF, 3, 5, 0.0, 1.0)))
    result = powered(replace(case, machine=machine))
    assert node_paths(result)[2:] == [[(7, 8), (10, 9), (50, 10), (55, FAILED)]] * 2
    assert result.start_s.tolist() == [0, 100, -1, -1]
    assert result.sleep_delay_s.tolist() == [0, 50, 0, 0]


@kernel
def compiled_chance(seed, node, draw):
    return chance(seed, node, draw)


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**6), st.integers(0, 10**6))
def test_chance_is_as_published_with_numbers_of_any_length(seed, node, draw):
    assert compiled_chance(seed, node, draw) == plain_chance(seed, node, draw)
    assert 0 <= plain_chance(seed, node, draw) < 1


def test_chance_is_spread_evenly_over_nodes_and_draws():
    drawn = np.sort([plain_chance(1, node, draw) for node in range(100) for draw in range(50)])
    assert np.abs(drawn - np.arange(5000) / 5000).max() < 1.63 / np.sqrt(5000)


def test_units_that_are_no_whole_nodes_are_refused():
    with pytest.raises(OffpeakError, match=r"^1,025 units are not whole nodes of 4$") as error:
        PoweredMachine(1025, 4, class_of((OFF, 3, 5)))
    assert error.value.hint == "leave out the last 1 units"


def test_a_job_runs_when_the_last_of_its_nodes_is_up():
    rows = [(0, 1, 1, 1, ONE_W), (5, 30, 30, 1, ONE_W), (40, 10, 10, 3, ONE_W)]
    result = powered(one_depth(rows, nodes=3, after_s=8))
    assert result.start_s.tolist() == [0, 5, 45]
    assert result.sleep_delay_s.tolist() == [0, 0, 5]
    assert node_paths(result)[2] == [(8, 8), (11, 9), (40, 10), (45, ACTIVE)]


def test_a_falling_node_is_down_before_it_comes_up():
    rows = [(0, 1, 1, 1, ONE_W), (10, 10, 10, 2, ONE_W)]
    result = powered(one_depth(rows, nodes=2, after_s=8, way_s=(4, 5)))
    assert result.start_s.tolist() == [0, 18]
    assert result.sleep_delay_s.tolist() == [0, 8]


def test_in_a_quiet_night_nodes_go_ever_deeper():
    case = one_depth([(0, 1, 1, 1, ONE_W), (0, 900, 900, 1, ONE_W)], nodes=2, after_s=0)
    machine = replace(case.machine, node_class=class_of((POWERSAVE, 1, 1), (STANDBY, 4, 6), (OFF, 20, 50)))
    capacity_schedule = schedule_of((BEFORE_ALL_S, 2, 0, [10, 60, 300]))
    path = node_paths(powered(replace(case, machine=machine, schedule=capacity_schedule)))[0]
    assert path == [(11, 2), (12, 3), (61, 5), (65, 6), (301, 7), (307, 8), (327, 9)]


def test_sleeping_nodes_follow_the_schedule_into_a_depth_that_comes_into_use():
    case = one_depth([(0, 900, 900, 1, ONE_W)], nodes=2, after_s=0)
    machine = replace(case.machine, node_class=class_of((STANDBY, 4, 6), (OFF, 20, 50)))
    capacity_schedule = schedule_of((BEFORE_ALL_S, 2, 0, [NEVER, 10, NEVER]), (400, 2, 0, [NEVER, NEVER, 10]))
    path = node_paths(powered(replace(case, machine=machine, schedule=capacity_schedule)))[1]
    assert path == [(10, 5), (14, 6), (400, 7), (406, 8), (426, 9)]


def test_the_lightest_sleepers_wake_first():
    rows = [(0, 20, 20, 1, ONE_W), (0, 1, 1, 2, ONE_W), (70, 9, 9, 2, ONE_W)]
    case = one_depth(rows, nodes=3, after_s=0)
    machine = replace(case.machine, node_class=class_of((STANDBY, 1, 2), (OFF, 1, 90)))
    capacity_schedule = schedule_of((BEFORE_ALL_S, 3, 0, [NEVER, 30, 65]))
    result = powered(replace(case, machine=machine, schedule=capacity_schedule))
    assert result.start_s.tolist() == [0, 0, 160]
    assert [path[-2:] for path in node_paths(result)[:2]] == [[(70, 7), (72, ACTIVE)], [(70, 10), (160, ACTIVE)]]


def test_nodes_come_up_ahead_of_a_reservation():
    rows = [(0, 100, 100, 2, ONE_W), (20, 10, 10, 3, ONE_W)]
    late, ahead = (
        powered(one_depth(rows, nodes=3, after_s=8, capacity=ON_DEMAND._replace(ahead_s=ahead_s)))
        for ahead_s in (0, 30)
    )
    assert (late.start_s[1], late.sleep_delay_s[1]) == (105, 5)
    assert (ahead.start_s[1], ahead.sleep_delay_s[1]) == (100, 0)
    assert node_paths(ahead)[2] == [(8, 8), (11, 9), (70, 10), (75, ACTIVE)]


def test_nodes_stay_up_for_a_reservation_that_is_near():
    rows = [(0, 100, 100, 2, ONE_W), (95, 10, 10, 2, ONE_W)]
    result = powered(one_depth(rows, nodes=3, after_s=96, capacity=ON_DEMAND._replace(ahead_s=60)))
    assert result.start_s.tolist() == [0, 100]
    assert node_paths(result)[2] == [(100, 8), (103, 9)]


def test_two_levels_follow_the_widest_job_in_the_queue():
    rows = [(0, 20, 20, 1, ONE_W), (30, 9, 9, 3, ONE_W), (100, 1, 1, 2, ONE_W)]
    capacity = ON_DEMAND._replace(on_demand=False, low=2)
    result = powered(one_depth(rows, nodes=3, after_s=0, capacity=capacity))
    assert result.start_s.tolist() == [0, 35, 100]
    assert node_paths(result) == [[], [], [(0, 8), (3, 9), (30, 10), (35, ACTIVE), (44, 8), (47, 9)]]


def test_a_node_that_must_stay_asleep_is_woken_when_it_may_be_though_nothing_else_happens_then():
    rows = [(0, 5, 5, 1, ONE_W), (10, 9, 9, 2, ONE_W)]
    capacity = ON_DEMAND._replace(on_demand=False, low=1, min_asleep_s=60)
    result = powered(one_depth(rows, nodes=2, after_s=0, capacity=capacity))
    assert result.start_s.tolist() == [0, 65]


def test_nodes_beyond_the_target_leave_as_the_rate_allows():
    capacity = ON_DEMAND._replace(on_demand=False, low=1, sleeps_per_min=1)
    result = powered(one_depth([(0, 500, 500, 1, ONE_W)], nodes=4, after_s=0, capacity=capacity))
    assert [path[0][0] for path in node_paths(result)[1:]] == [120, 60, 0]


def test_nodes_with_fewer_cycles_today_sleep_first():
    rows = [(0, 1, 1, 1, ONE_W), (50, 30, 30, 4, ONE_W), (100, 300, 300, 1, ONE_W)]
    capacity = ON_DEMAND._replace(order=BY_WEAR, keep_hot=2)
    result = powered(one_depth(rows, nodes=4, after_s=8, capacity=capacity))
    assert [[at_s for at_s, state in path if state == 8] for path in node_paths(result)] == [[93], [93], [8], [8]]


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_job_too_wide_for_what_is_left_keeps_no_place(discipline):
    """Of four nodes two fail; who needs three goes, and who needs one starts as soon as there is one."""
    rows = [
        (0, 1, 1, 4, ONE_W),
        (20, 60, 60, 2, ONE_W),
        (21, 50, 50, 3, ONE_W),
        (22, 50, 50, 3, ONE_W),
        (23, 9, 9, 2, ONE_W),
    ]
    case = one_depth(rows, nodes=4, after_s=8, capacity=ON_DEMAND._replace(keep_hot=2), discipline=discipline)
    machine = replace(case.machine, node_class=class_of((OFF, 3, 5, 0.0, 1.0)))
    result = powered(replace(case, machine=machine))
    assert result.start_s.tolist() == [0, 20, -1, -1, 90 if discipline == FCFS else 80]


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_three_hundred_jobs_on_nodes_that_fail_now_and_then(discipline):
    random = np.random.default_rng(discipline)
    submit_s, size = np.cumsum(random.integers(0, 20, 300)), random.integers(1, 9, 300)
    run_s = random.integers(0, 30, 300)
    rows = [(*row, ONE_W) for row in zip(submit_s, run_s, 2 * run_s, size, strict=True)]
    case = one_depth(rows, nodes=12, after_s=10, discipline=discipline)
    machine = replace(case.machine, node_class=class_of((OFF, 3, 5, 0.02, 0.2), repair_s=200))
    result = powered(replace(case, machine=machine))
    assert (result.start_s >= submit_s).all()
    assert (result.node_log.state == FAILED).sum() > 5
    if discipline != CONSERVATIVE:
        assert result.start_s.tolist() == plain_power(replace(case, machine=machine)).run()


def test_a_wide_job_starts_although_some_of_its_nodes_fail_each_time():
    """Nodes that came up stay up while the others are repaired: else it would need luck with seventy wakes at once."""
    node_class = class_of((OFF, 1, 1, 0.0, 0.3), repair_s=6)
    log = log_of([(0, 5, 5, 1, ONE_W), (10, 5, 5, 70, ONE_W)], machine_size=70)
    capacity_schedule = schedule_of((BEFORE_ALL_S, 70, 0, (NEVER, NEVER, 0)))
    at_once = PoweredLog(log, PLAIN, PoweredMachine(70, 1, node_class), ON_DEMAND, capacity_schedule)
    assert powered(at_once).start_s.tolist() == [0, 17]
