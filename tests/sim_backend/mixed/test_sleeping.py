"""With one pool of whole nodes the starts and the node states are those of the engine for equal nodes, bit for bit."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from random_logs import policy_of
from random_power import PoweredLog, node_classes, per_second_rules, powered, powered_logs
from test_one_pool import one_pool

from plugin.window_policy import ARRIVAL
from sim_backend.engine.state import EASY, EXACT_RUNTIME, FCFS, USER_ESTIMATE
from sim_backend.mixed.powered import PoweredMixedReplay, PoweredMixedSchedule
from sim_backend.mixed.replay import rules_of

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
