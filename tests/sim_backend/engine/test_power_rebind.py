"""Late binding: jobs that wait for their nodes to come up and find others before."""

import numpy as np
from hypothesis import given
from random_logs import PLAIN, log_of
from random_power import (
    BEFORE_ALL_S,
    ON_DEMAND,
    PoweredLog,
    class_of,
    per_second_rules,
    powered,
    powered_logs,
    schedule_of,
)

from offpeak.model.node_states import OFF
from offpeak.plugin.capacity.rules import NEVER
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine

LATE = ON_DEMAND._replace(late=True)
AT_ONCE = schedule_of((BEFORE_ALL_S, 9, 0, [NEVER, NEVER, 0]))


def replayed(rows, capacity, *, nodes=2, fails=0.0):
    """Return the schedule of rows (submit, run, estimate, size, W, user) on nodes that sleep at once, wake in 100 s."""
    machine = PoweredMachine(nodes, 1, class_of((OFF, 1, 100, 0.0, fails)))
    return powered(PoweredLog(log_of(rows, machine_size=nodes), PLAIN, machine, capacity, AT_ONCE))


TWO_JOBS = [(0, 60, 60, 1, 1, 0), (20, 10, 10, 1, 1, 0)]


def test_a_job_takes_a_node_that_becomes_free_before_its_own_is_up():
    early, late = (replayed(TWO_JOBS, capacity) for capacity in (ON_DEMAND, LATE))
    assert early.start_s.tolist() == [0, 120]
    assert late.start_s.tolist() == [0, 60]
    assert late.end_s.tolist() == [60, 70]
    assert early.sleep_delay_s.tolist() == [0, 100]
    assert late.sleep_delay_s.tolist() == [0, 40]


def test_the_nodes_that_were_woken_come_up_all_the_same():
    rows = [*TWO_JOBS, (500, 10, 10, 1, 1, 0)]
    early, late = (replayed(rows, capacity).node_log for capacity in (ON_DEMAND, LATE))
    up = [log.at_s[(log.node == 1) & (log.state == 0)].tolist() for log in (early, late)]
    assert up[0][0] == up[1][0] == 120


def test_job_waits_if_too_few_nodes_become_free():
    rows = [(0, 60, 60, 1, 1, 0), (20, 10, 10, 2, 1, 0)]
    assert replayed(rows, LATE, nodes=3).start_s.tolist() == [0, 120]


def test_the_one_that_was_given_nodes_first_goes_first():
    rows = [(0, 60, 60, 1, 1, 0), (20, 10, 10, 1, 1, 0), (30, 10, 10, 1, 1, 0)]
    assert replayed(rows, LATE, nodes=3).start_s.tolist() == [0, 60, 70]


def test_a_job_is_saved_from_a_node_that_will_fail():
    late = replayed(TWO_JOBS, LATE, fails=1.0)
    assert late.start_s.tolist() == [0, 60]


@given(powered_logs(scheduling=per_second_rules()))
def test_jobs_that_need_not_wait_for_nodes_know_no_difference(case):
    """Where nothing takes time and nothing fails, early and late are the same."""
    machine = PoweredMachine(case.machine.size, case.machine.units_per_node, class_of((OFF, 0, 0)))
    schedule = schedule_of((BEFORE_ALL_S, machine.nodes, 0, [NEVER, NEVER, 0]))
    rules = ON_DEMAND, LATE
    early, late = (powered(PoweredLog(case.log, case.rules, machine, rule, schedule)) for rule in rules)
    assert np.array_equal(early.start_s, late.start_s)
    assert np.array_equal(early.node_log.at_s, late.node_log.at_s)
