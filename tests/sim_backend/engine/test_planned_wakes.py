"""Jobs that start on awake nodes only, which a plan of the queue wakes."""

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

from offpeak.model.node_states import OFF, coming_up
from offpeak.plugin.capacity.rules import NEVER
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.rules import FCFS
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine

PLANNED = ON_DEMAND._replace(plan_s=101)
ENTER_S, LEAVE_S = 1, 100


def replayed(rows, capacity=PLANNED, *, nodes=2, fails=0.0, idle_s=0):
    """Return the schedule of rows (submit, run, estimate, size, W, user) on nodes that sleep and wake in 100 s."""
    machine = PoweredMachine(nodes, 1, class_of((OFF, ENTER_S, LEAVE_S, 0.0, fails)))
    schedule = schedule_of((BEFORE_ALL_S, nodes, 0, [NEVER, NEVER, idle_s]))
    return powered(PoweredLog(log_of(rows, machine_size=nodes), PLAIN, machine, capacity, schedule))


def times(schedule, state):
    """Return when a node entered the state."""
    log = schedule.node_log
    return sorted(log.at_s[log.state == state].tolist())


def test_a_job_waits_for_a_node_that_is_free_before_another_could_be_up():
    rows = [(0, 60, 60, 1, 1, 0), (20, 10, 10, 1, 1, 0)]
    early, planned = replayed(rows, ON_DEMAND), replayed(rows)
    assert early.start_s.tolist() == [0, 120]
    assert planned.start_s.tolist() == [0, 60]
    assert planned.sleep_delay_s.tolist() == [0, 40]
    assert times(early, coming_up(OFF)) == [20]
    assert times(planned, coming_up(OFF)) == []


def test_a_node_is_woken_where_that_starts_the_job_earlier():
    assert replayed([(0, 160, 160, 1, 1, 0), (20, 10, 10, 1, 1, 0)]).start_s.tolist() == [0, 120]


def test_jobs_behind_count_on_the_nodes_of_planned_ones():
    rows = [(0, 60, 60, 1, 1, 0), (20, 10, 10, 1, 1, 0), (30, 10, 10, 1, 1, 0), (31, 10, 90, 1, 1, 0)]
    planned = replayed(rows)
    assert planned.start_s.tolist() == [0, 60, 70, 80]
    assert times(planned, coming_up(OFF)) == []


def test_only_the_nodes_that_are_missing_when_the_others_are_free_are_woken_in_time():
    planned = replayed([(0, 500, 500, 1, 1, 0), (20, 10, 10, 2, 1, 0)])
    assert planned.start_s.tolist() == [0, 500]
    assert times(planned, coming_up(OFF)) == [400]


def test_an_idle_node_stays_awake_for_a_job_that_starts_before_it_could_come_up_again():
    planned = replayed([(0, 90, 90, 1, 1, 0), (0, 20, 20, 1, 1, 0), (10, 5, 5, 2, 1, 0)])
    assert planned.start_s.tolist() == [0, 0, 90]
    assert planned.node_log.at_s.min() > 90
    long = replayed([(0, 190, 190, 1, 1, 0), (0, 20, 20, 1, 1, 0), (10, 5, 5, 2, 1, 0)])
    assert long.start_s.tolist() == [0, 0, 190]
    assert times(long, coming_up(OFF)) == [90]


def test_a_job_that_outlasts_the_boot_does_not_pass_the_one_for_which_nodes_are_woken():
    rows = [(0, 300, 300, 1, 1, 0), (10, 10, 10, 3, 1, 0), (20, 50, 50, 1, 1, 0), (21, 900, 900, 1, 1, 0)]
    planned = replayed(rows, nodes=4, idle_s=1000)
    assert planned.start_s.tolist() == [0, 10, 20, 21]
    planned = replayed(rows, nodes=3, idle_s=1000)
    assert planned.start_s.tolist() == [0, 300, 20, 310]


def test_a_node_that_fails_to_come_up_leaves_the_job_waiting_for_the_next():
    planned = replayed([(0, 300, 300, 1, 1, 0), (20, 10, 10, 1, 1, 0)], fails=1.0)
    assert planned.start_s.tolist() == [0, 300]


@given(powered_logs(scheduling=per_second_rules(policies=(ARRIVAL,), disciplines=(FCFS,))))
def test_jobs_that_start_in_order_and_need_not_wait_for_nodes_know_no_difference(case):
    """Where nothing takes time and nothing fails, waking by jobs and by a plan start the same jobs."""
    machine = PoweredMachine(case.machine.size, case.machine.units_per_node, class_of((OFF, 0, 0)))
    schedule = schedule_of((BEFORE_ALL_S, machine.nodes, 0, [NEVER, NEVER, 0]))
    early, planned = (
        powered(PoweredLog(case.log, case.rules, machine, rule, schedule)) for rule in (ON_DEMAND, PLANNED)
    )
    assert np.array_equal(early.start_s, planned.start_s)
