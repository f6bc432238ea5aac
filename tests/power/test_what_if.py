"""The what-if is the engine, run on: the plain scheduler agrees, and so does a replay that goes on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_logs import PLAIN, engine, logs, policy_of, starts
from random_snapshots import NOW_S, plain_starts, snapshot_of, snapshots

from offpeak.errors import BadInput
from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, asleep, coming_up, going_down
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from offpeak.power.whatif import simulate_units
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.replay.policy import parse_policy

pytestmark = pytest.mark.quick

disciplines = st.sampled_from(["best-fit", "easy", "fcfs", "first-fit"])
OFF_NODE = asleep(OFF)


def offered(data, snapshot: Snapshot) -> int:
    """Draw a number of units that can be planned with."""
    assume(snapshot.least_units <= snapshot.usable_units)
    return data.draw(st.integers(snapshot.least_units, snapshot.usable_units))


@given(snapshots(), disciplines, st.data())
def test_the_plain_scheduler_starts_every_queued_job_in_the_same_second(snapshot, discipline, data):
    units, policy = offered(data, snapshot), parse_policy(discipline, SchedulingSettings())
    plan = simulate_units(snapshot, units, policy=policy)
    queued = plan.start_s[len(snapshot.running.size) :]
    assert queued.tolist() == plain_starts(snapshot, units, policy.rules)


@given(snapshots(), disciplines, st.data())
def test_nothing_starts_before_now_and_no_more_units_are_held_than_are_on_offer(snapshot, discipline, data):
    units = offered(data, snapshot)
    plan = simulate_units(snapshot, units, policy=parse_policy(discipline, SchedulingSettings()))
    running = len(snapshot.running.size)
    assert (plan.start_s[running:] >= NOW_S).all()
    size = np.concatenate([snapshot.running.size, snapshot.queued.size])
    from_s = np.concatenate([np.full(running, NOW_S), plan.start_s[running:]])
    for second in range(NOW_S, plan.until_s + 1):
        assert size[(from_s <= second) & (second < plan.end_s)].sum() <= units


@given(snapshots(), st.data())
def test_the_means_are_those_of_each_job(snapshot, data):
    plan = simulate_units(snapshot, offered(data, snapshot))
    submit_s = [*snapshot.running.submit_s, *snapshot.queued.submit_s]
    rows = list(zip(submit_s, plan.start_s, plan.end_s, strict=True))
    assume(rows)
    slowdowns = [1 + (start - submit) / max(10, end - start) for submit, start, end in rows]
    assert plan.slowdown == pytest.approx(np.mean(slowdowns))
    assert plan.mean_wait_s == pytest.approx(np.mean([start - submit for submit, start, _ in rows]))
    assert plan.until_s == max(end for _, _, end in rows)


@given(logs(shortest_s=1), disciplines, st.integers(0, 200))
def test_with_everything_awake_it_goes_on_as_the_replay_does(log, discipline, second):
    rules = PLAIN._replace(discipline=parse_policy(discipline, SchedulingSettings()).rules.discipline)
    second += int(log.jobs.submit_s[0])
    log = log.with_exact_estimates()
    jobs = log.jobs.take(log.jobs.submit_s <= second)
    log = replace(log, jobs=jobs, node_power_w=log.node_power_w[: len(jobs)])
    plan, running, queued = plan_from(log, rules, second)
    assert plan.start_s.tolist() == np.array(starts(log, rules))[np.concatenate([running, queued])].tolist()


def plan_from(log, rules, second):
    """Return the what-if from that second of a replay, and which jobs run and wait then."""
    replayed = engine(log, rules)
    replayed.go_on(second)
    state = replayed.state
    slot = state.expected[: state.groups["listed"][0]]
    slot = slot[np.argsort(state.slots.started[slot])]
    running, queued = state.slots.job[slot], np.flatnonzero(state.start_s == NOT_YET)
    jobs = log.jobs
    snapshot = Snapshot(
        second, 1, *all_active(log.machine_size, now_s=second), (1, 1, 1),
        RunningJobs(
            jobs.size[running], jobs.submit_s[running], state.start_s[running], state.slots.expected_end_s[slot]
        ),
        QueuedJobs(jobs.size[queued], jobs.submit_s[queued], jobs.estimate_s[queued]),
    )  # fmt: skip
    return simulate_units(snapshot, log.machine_size, policy=policy_of(rules)), running, queued


def test_a_node_that_is_off_joins_when_it_is_up():
    snapshot = snapshot_of(queued=[(2, NOW_S, 60)], node_state=[ACTIVE, OFF_NODE, OFF_NODE])
    assert simulate_units(snapshot, 2).start_s.tolist() == [NOW_S + 180]


def test_nodes_that_are_up_the_soonest_are_on_offer():
    states = [OFF_NODE, going_down(OFF), coming_up(STANDBY), FAILED, ACTIVE]
    ready_s = [NOW_S, NOW_S + 30, NOW_S + 7, NOW_S, NOW_S]
    job = (1, NOW_S, 500)
    snapshot = snapshot_of(queued=[job] * 4, node_state=states, ready_s=ready_s)
    assert simulate_units(snapshot, 4).start_s.tolist() == [NOW_S, NOW_S + 7, NOW_S + 180, NOW_S + 210]
    assert simulate_units(snapshot, 2).start_s.tolist() == [NOW_S, NOW_S + 7, NOW_S + 500, NOW_S + 507]


def test_a_transition_that_should_be_over_takes_another_second():
    snapshot = snapshot_of(queued=[(1, NOW_S, 5)], node_state=[coming_up(OFF)], ready_s=[NOW_S - 99])
    assert simulate_units(snapshot, 1).start_s.tolist() == [NOW_S + 1]


def test_a_job_that_has_outlived_its_estimate_ends_in_a_second():
    late = (1, NOW_S - 90, NOW_S - 80, NOW_S - 20)
    snapshot = snapshot_of(running=[late], queued=[(1, NOW_S - 9, 10)], node_state=[ACTIVE])
    plan = simulate_units(snapshot, 1)
    assert plan.end_s.tolist() == [NOW_S + 1, NOW_S + 11]
    assert plan.slowdown == pytest.approx((1 + 10 / 81 + 1 + 10 / 10) / 2)


def test_units_on_sleeping_nodes_that_a_running_job_holds_are_not_held_twice():
    held = (2, NOW_S, NOW_S + 20, NOW_S + 50)
    snapshot = snapshot_of(
        running=[held], queued=[(1, NOW_S, 10)], node_state=[coming_up(OFF)] * 2 + [OFF_NODE],
        ready_s=[NOW_S + 20] * 2 + [NOW_S],
    )  # fmt: skip
    assert simulate_units(snapshot, 2).start_s.tolist() == [NOW_S + 20, NOW_S + 50]
    assert simulate_units(snapshot, 3).start_s.tolist() == [NOW_S + 20, NOW_S + 50]


def test_without_jobs_there_is_nothing_to_wait_for():
    plan = simulate_units(snapshot_of(node_state=[ACTIVE, OFF_NODE]), 0)
    assert (plan.slowdown, plan.mean_wait_s, plan.until_s) == (1.0, 0.0, NOW_S)


@pytest.mark.parametrize(("units", "hint"), [(1, "take 2 to 3"), (4, "take 2 to 3")])
def test_too_few_and_too_many_units_are_bad_input(units, hint):
    snapshot = snapshot_of(queued=[(2, NOW_S, 60)], node_state=[ACTIVE, OFF_NODE, OFF_NODE])
    with pytest.raises(BadInput) as caught:
        simulate_units(snapshot, units)
    assert caught.value.hint == hint


def test_a_job_wider_than_what_has_not_failed_is_bad_input():
    snapshot = snapshot_of(queued=[(2, NOW_S, 60)], node_state=[ACTIVE, FAILED])
    with pytest.raises(BadInput, match="jobs need 2 units and 1 are usable"):
        simulate_units(snapshot, 2)
