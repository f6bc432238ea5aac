"""Nodes of pools sleep: on one pool as those of the engine for equal nodes, bit for bit, and on several pools."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_clusters import cases, rules
from random_logs import PLAIN, policy_of
from random_power import (
    BEFORE_ALL_S,
    ON_DEMAND,
    PoweredLog,
    class_of,
    node_classes,
    per_second_rules,
    powered,
    powered_logs,
    schedule_of,
)
from test_one_pool import one_pool
from test_windows import small_case

from offpeak.model.node_states import ACTIVE, OFF
from plugin.capacity.port import CapacityPolicy
from plugin.capacity.rules import NEVER
from plugin.window_policy import ARRIVAL
from sim_backend.engine.state import EASY, EXACT_RUNTIME, FCFS, USER_ESTIMATE
from sim_backend.mixed.powered import PoweredMixedReplay, PoweredMixedSchedule
from sim_backend.mixed.replay import replay_mixed, rules_of

CLASSES = node_classes(failures=st.just(0.0), repairs_s=st.none())
RULES = per_second_rules(disciplines=[FCFS, EASY], estimates=[USER_ESTIMATE, EXACT_RUNTIME])
LOGS = powered_logs(scheduling=RULES, classes=CLASSES).filter(lambda case: case.machine.units_per_node == 1)


def mixed_powered(case: PoweredLog) -> PoweredMixedSchedule:
    policy = policy_of(case.rules)
    capacity, classes = (case.policy(),), (case.machine.node_class,)
    replay = PoweredMixedReplay(one_pool(case.log), policy, rules_of(policy), capacity, classes, peaks=case.log.peaks)
    replay.run()
    return replay.schedule()


def with_rules_of_pools(case: PoweredLog) -> PoweredLog:
    capacity = case.capacity._replace(late=False, sleeps_per_min=0, wakes_per_min=0)
    return replace(case, capacity=capacity)


@given(LOGS.map(with_rules_of_pools))
def test_one_pool_is_replayed_as_equal_nodes_are(case):
    expected, found = powered(case), mixed_powered(case)
    assert found.start_s.tolist() == expected.start_s.tolist()
    (log,) = found.node_logs
    for column in ("at_s", "node", "state"):
        assert getattr(log, column).tolist() == getattr(expected.node_log, column).tolist()
    if case.rules.policy == ARRIVAL:
        assert found.sleep_delay_s.tolist() == expected.sleep_delay_s.tolist()


def powered_on_pools(random, scheduling, after_s: int, leave_s: int) -> PoweredMixedSchedule:
    node_class = class_of((OFF, 2, leave_s))
    capacity = [
        CapacityPolicy("under test", ON_DEMAND, schedule_of((BEFORE_ALL_S, pool.nodes, 0, (NEVER, NEVER, after_s))))
        for pool in random.cluster.pools
    ]
    classes = [node_class] * len(capacity)
    replay = PoweredMixedReplay(random.case, policy_of(PLAIN), scheduling, capacity, classes)
    replay.run()
    return replay.schedule()


@given(cases() | cases(preempts=True, exempt_s=4), rules(timed=True))
def test_nodes_that_never_sleep_change_nothing_on_several_pools(random, scheduling):
    expected = replay_mixed(random.case, policy_of(PLAIN), scheduling)
    found = powered_on_pools(random, scheduling, NEVER, 5)
    assert found.start_s.tolist() == expected.start_s.tolist()
    assert [column.tolist() for column in found.runs] == [column.tolist() for column in expected.runs]
    assert all(len(log) == 0 for log in found.node_logs)


@given(cases() | cases(preempts=True), rules(timed=True), st.sampled_from([0, 5]), st.sampled_from([0, 3, 40]))
def test_each_job_starts_on_nodes_that_are_up(random, scheduling, after_s, leave_s):
    found = powered_on_pools(random, scheduling, after_s, leave_s)
    submit_s = random.case.workload.submit_s
    assert (found.start_s >= submit_s).all()
    assert ((found.sleep_delay_s >= 0) & (found.sleep_delay_s <= found.start_s - submit_s)).all()
    for pool, log in enumerate(found.node_logs):
        counts = log.counts(int(submit_s.min(initial=0)))
        _, start_s, end_s = found.runs
        runs = found.placed_run[found.placed_pool == pool]
        for run in runs[end_s[runs] > start_s[runs]].tolist():
            moment = np.searchsorted(counts.at_s, start_s[run], side="right") - 1
            assert counts.nodes[moment, ACTIVE] > 0


def test_a_job_on_woken_nodes_starts_when_the_scheduler_checks_them():
    case = small_case([0, 100, 101], [1.0, 1.0, 1.0])
    capacity = CapacityPolicy("under test", ON_DEMAND, schedule_of((BEFORE_ALL_S, 1, 0, (NEVER, NEVER, 5))))
    checks = rules_of(policy_of(PLAIN))._replace(boot_check_s=30)
    replay = PoweredMixedReplay(case, policy_of(PLAIN), checks, [capacity], [class_of((OFF, 2, 3))])
    replay.run()
    assert replay.schedule().start_s.tolist() == [0, 120, 130]
