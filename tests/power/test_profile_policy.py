"""The profile over the prices as a capacity policy, alone and in a replay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import PLAIN, log_of, policy_of
from random_prices import QUICK, fleet_of, terms_for
from random_snapshots import NOW_S, snapshot_of, snapshots

from offpeak.errors import BadInput
from offpeak.model.node_states import ACTIVE
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.profile_policy import ProfilePolicy, make_profile_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered

HOUR_S = 3600
DEAR_THEN_CHEAP = (NOW_S - 10, NOW_S + 3 * HOUR_S), (200, 20)


def decide(snapshot, at_s, per_mwh, period_s=HOUR_S) -> int:
    """Return the nodes that are to be awake."""
    policy = ProfilePolicy(fleet_of(snapshot, at_s, per_mwh), terms_for(snapshot), 3.0, period_s)
    return policy(snapshot).awake


def test_idle_nodes_leave_in_a_dear_hour_and_come_back_in_a_cheap_one():
    idle = snapshot_of(node_state=[ACTIVE] * 4)
    assert decide(idle, *DEAR_THEN_CHEAP) == 0
    assert decide(idle, (NOW_S - 10, NOW_S + 3 * HOUR_S), (20, 200)) == 4


def test_the_interval_counts_that_most_of_the_period_lies_in():
    idle = snapshot_of(node_state=[ACTIVE] * 4)
    soon_cheap = (NOW_S - 10, NOW_S + HOUR_S // 2, NOW_S + 5 * HOUR_S), (200, 20, 210)
    assert decide(idle, *soon_cheap) == 4
    assert decide(idle, *soon_cheap, period_s=HOUR_S // 2) == 0


@given(snapshots(), st.integers(-50, 50))
def test_at_a_flat_price_all_nodes_are_to_be_awake(snapshot, price):
    assert decide(snapshot, (0,), (price,)) == len(snapshot.node_state)


def test_in_a_replay_a_job_waits_for_the_cheap_hour_and_its_node_sleeps_meanwhile():
    jobs = log_of([(0, 1800, 2 * HOUR_S, 1, 100)], machine_size=1)
    fleet = Fleet(1, 1, QUICK, 0.5, np.array([-10, HOUR_S + 10]), np.array([300.0, 10.0]))
    machine = PoweredMachine(1, 1, QUICK)
    capacity = make_profile_policy(fleet, CapacitySettings(), "10min:2")
    schedule = replay_powered(jobs.jobs, jobs.node_power_w, machine, policy_of(PLAIN), capacity)
    assert HOUR_S <= schedule.start_s[0] <= HOUR_S + 600 + 8
    at_once = make_profile_policy(fleet, CapacitySettings(), "10min:1")
    assert replay_powered(jobs.jobs, jobs.node_power_w, machine, policy_of(PLAIN), at_once).start_s[0] == 0


def test_profile_policy_needs_prices():
    fleet = Fleet(4, 1, QUICK)
    with pytest.raises(BadInput, match="'profile' needs prices"):
        make_profile_policy(fleet, CapacitySettings(), "1h")


def test_a_period_and_an_sla_of_its_own():
    fleet = Fleet(4, 1, QUICK, 0.5, np.array([0]), np.array([50.0]))
    capacity = make_profile_policy(fleet, CapacitySettings(), "2h:5")
    assert (capacity.name, capacity.rules.period_s) == ("profile:2h:5", 7200)
    assert isinstance(capacity.decide, ProfilePolicy)
    assert capacity.decide.sla == 5
    with pytest.raises(BadInput, match="capacity policy 'profile'"):
        make_profile_policy(fleet, CapacitySettings(), "soon")
