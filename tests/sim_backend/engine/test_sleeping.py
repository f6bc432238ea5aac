"""Nodes of pools sleep: those of one pool as where its units are only counted, bit for bit, and those of several."""

from dataclasses import replace
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_clusters import cases, rules
from random_logs import PLAIN, Log, logs, many, one_pool, policy_of
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
from test_priorities import TWO_USERS
from test_windows import small_case

from offpeak.model.jobs import make_jobs
from offpeak.model.limits import PriorityWeights
from offpeak.model.node_states import ACTIVE, OFF
from offpeak.model.snapshot import Snapshot
from offpeak.plugin.capacity.port import CapacityPolicy, CapacityTargets
from offpeak.plugin.capacity.rules import NEVER
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.case import EngineCase
from offpeak.sim_backend.engine.priorities import Priorities
from offpeak.sim_backend.engine.rules import NO_PEAKS, NOT_YET, EngineRules, PeakTimes
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.replay import Replay, SleepingNodes, replay_case, rules_of
from offpeak.sim_backend.replay.schedule import Schedule

CLASSES = node_classes(failures=st.just(0.0), repairs_s=st.none())
RULES = per_second_rules()
PLACED = mock.patch("offpeak.sim_backend.replay.replay.counted", lambda tables, *_: tables)
"""Compiled without counted units."""
LOGS = powered_logs(scheduling=RULES, classes=CLASSES).filter(lambda case: case.machine.units_per_node == 1)


def placed(case: PoweredLog) -> Schedule:
    policy = replace(policy_of(case.rules), capacity=(case.policy(),))
    with PLACED:
        return powered_replay(one_pool(case.log), policy, rules_of(policy), [case.machine.node_class], case.log.peaks)


def powered_replay(
    case: EngineCase, policy: Policy, rules: EngineRules, classes, peaks=NO_PEAKS, priorities=None
) -> Schedule:
    replay = Replay(case, policy, rules, SleepingNodes(tuple(classes)), peaks=peaks, priorities=priorities)
    replay.run()
    return replay.schedule()


def with_rules_of_pools(case: PoweredLog) -> PoweredLog:
    return replace(case, capacity=case.capacity._replace(plan_s=0))


@given(LOGS.map(with_rules_of_pools))
def test_one_pool_is_replayed_as_counted_units_are(case):
    expected, found = powered(case), placed(case)
    assert found.start_s.tolist() == expected.start_s.tolist()
    (log,) = found.node_logs
    for column in ("at_s", "node", "state"):
        assert getattr(log, column).tolist() == getattr(expected.node_log, column).tolist()
    if case.rules.policy == ARRIVAL:
        assert found.sleep_delay_s.tolist() == expected.sleep_delay_s.tolist()


def test_only_jobs_that_end_by_the_last_expected_end_pass_one_that_lacks_sleeping_nodes():
    jobs = make_jobs(
        *(np.array(column) for column in ([0, 1, 2, 2], [1, 3, 1, 1], [100, 5, 200, 98], [100, 5, 200, 98]))
    )
    log = Log(jobs, np.ones(len(jobs)), 3, PeakTimes(np.array([], np.int64), np.array([], np.int8)))
    schedule = schedule_of((BEFORE_ALL_S, 2, 0, (NEVER, NEVER, 5)), (150, 3, 0, (NEVER, NEVER, 5)))
    machine = PoweredMachine(3, 1, class_of((OFF, 2, 3)), 0)
    case = PoweredLog(log, PLAIN, machine, ON_DEMAND._replace(on_demand=False), schedule)
    assert placed(case).start_s.tolist() == powered(case).start_s.tolist() == [0, 153, 158, 2]


def powered_on_pools(random, scheduling, after_s: int, leave_s: int, priorities=None) -> Schedule:
    node_class = class_of((OFF, 2, leave_s))
    capacity = tuple(
        CapacityPolicy("under test", ON_DEMAND, schedule_of((BEFORE_ALL_S, pool.nodes, 0, (NEVER, NEVER, after_s))))
        for pool in random.cluster.pools
    )
    classes = [node_class] * len(capacity)
    policy = replace(policy_of(PLAIN), capacity=capacity)
    return powered_replay(random.case, policy, scheduling, classes, priorities=priorities)


@given(cases() | cases(preempts=True, exempt_s=4), rules(timed=True), st.booleans())
def test_nodes_that_never_sleep_change_nothing_on_several_pools(random, scheduling, is_ranked):
    user = np.arange(int(random.case.kept.max(initial=0)) + 1) % 2
    none = np.zeros(len(user))
    weights = PriorityWeights(fair_share=1000, calc_period_s=7)
    priorities = Priorities(weights, TWO_USERS, user, none, none, user * 0) if is_ranked else None
    expected = replay_case(random.case, policy_of(PLAIN), scheduling, priorities=priorities)
    found = powered_on_pools(random, scheduling, NEVER, 5, priorities)
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
        runs = found.places.run[found.places.pool == pool]
        for run in runs[end_s[runs] > start_s[runs]].tolist():
            moment = np.searchsorted(counts.at_s, start_s[run], side="right") - 1
            assert counts.nodes[moment, ACTIVE] > 0


def test_a_job_on_woken_nodes_starts_when_the_scheduler_checks_them():
    case = small_case([0, 100, 101], [1.0, 1.0, 1.0])
    capacity = CapacityPolicy("under test", ON_DEMAND, schedule_of((BEFORE_ALL_S, 1, 0, (NEVER, NEVER, 5))))
    checks = rules_of(policy_of(PLAIN))._replace(boot_check_s=30)
    found = powered_replay(case, replace(policy_of(PLAIN), capacity=(capacity,)), checks, [class_of((OFF, 2, 3))])
    assert found.start_s.tolist() == [0, 120, 130]


def test_the_first_jobs_are_ranked_before_they_start():
    case, user, none = small_case([1, 1], [1.0, 1.0]), np.array([0, 1]), np.zeros(2)
    priorities = Priorities(PriorityWeights(calc_period_s=7), TWO_USERS, user, none, none, nice=np.array([100, 0]))
    capacity = CapacityPolicy("under test", ON_DEMAND, schedule_of((BEFORE_ALL_S, 1, 0, (NEVER, NEVER, NEVER))))
    policy = replace(policy_of(PLAIN), capacity=(capacity,))
    found = powered_replay(case, policy, rules_of(policy), [class_of((OFF, 2, 3))], priorities=priorities)
    assert found.start_s.tolist() == [11, 1]


class Watch:
    """A decision that offers all nodes and keeps what it has seen."""

    def __init__(self) -> None:
        self.seen: list[Snapshot] = []

    def __call__(self, snapshot: Snapshot, /) -> CapacityTargets:
        self.seen.append(snapshot)
        return CapacityTargets(len(snapshot.node_state))

    def rows(self, until_s: int = NEVER) -> list:
        """Return the jobs of all that was seen up to a second."""
        return [
            [column.tolist() for jobs in (each.running, each.queued) for column in vars(jobs).values()]
            for each in self.seen
            if each.now_s <= until_s
        ]


def watched(watch: Watch, nodes: int) -> CapacityPolicy:
    rules = ON_DEMAND._replace(on_demand=False, period_s=3)
    return CapacityPolicy("watched", rules, schedule_of((BEFORE_ALL_S, nodes, 0, (NEVER, NEVER, 5))), watch)


def watch_pools(random, case: EngineCase, scheduling) -> tuple[Watch, Schedule]:
    """Replay on pools whose nodes sleep and return what a decision every three seconds sees, and the schedule."""
    watch, pools = Watch(), random.cluster.pools
    classes = [class_of((OFF, 2, 3))] * len(pools)
    policy = replace(policy_of(PLAIN), capacity=tuple(watched(watch, pool.nodes) for pool in pools))
    return watch, powered_replay(case, policy, scheduling, classes)


@given(cases(most_jobs=90) | cases(most_jobs=90, preempts=True), rules(timed=True), st.floats(0, 1))
def test_no_decision_knows_the_end_of_a_job_that_has_not_ended(random, scheduling, share):
    """Arrays, jobs of several chunks, and jobs that others stop: what has not ended yet changes no prediction."""
    workload = random.case.workload
    watch, schedule = watch_pools(random, random.case, scheduling)
    moment = int(workload.submit_s.min(initial=0) + share * 150)
    has_ended = (schedule.start_s != NOT_YET) & (schedule.end_s <= moment)
    run_s = np.where(has_ended, workload.runtime_s, np.maximum(moment - workload.submit_s, 0) + 30)
    changed = replace(random.case, workload=workload._replace(runtime_s=run_s))
    other, _ = watch_pools(random, changed, scheduling)
    assert other.rows(moment) == watch.rows(moment)


@given(logs(shortest_s=1).map(many))
def test_decisions_see_the_same_of_one_pool_as_of_counted_units(log):
    node_class, policy = class_of((OFF, 2, 3)), policy_of(PLAIN)
    equal, pool = Watch(), Watch()
    machine = PoweredMachine(log.machine_size, 1, node_class)
    replay_powered(log.jobs, log.node_power_w, machine, policy, watched(equal, log.machine_size))
    policy = replace(policy, capacity=(watched(pool, log.machine_size),))
    with PLACED:
        powered_replay(one_pool(log), policy, rules_of(policy), [node_class])
    assert pool.rows() == equal.rows()
