"""OLS keeps its promise by its own simulation, or has everything on offer."""

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_snapshots import NOW_S, plain_starts, snapshot_of, snapshots

from offpeak.errors import BadInput
from offpeak.model.node_states import ACTIVE, OFF, asleep
from offpeak.power.capacity.online_simulation import find_ols_units, list_offers
from offpeak.power.whatif import EASY_POLICY, simulate_units
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.policy import parse_policy

disciplines = st.sampled_from(["best-fit", "easy", "fcfs", "first-fit"])
slas = st.floats(1, 12)


@given(snapshots(), disciplines, slas)
def test_the_sla_is_kept_in_the_what_ifs_own_terms_or_all_units_are_on_offer(snapshot, discipline, sla):
    assume(snapshot.least_units <= snapshot.usable_units)
    policy = parse_policy(discipline, SchedulingSettings())
    decision = find_ols_units(snapshot, sla, policy=policy)
    assert decision.plan.slowdown <= sla or decision.units == snapshot.usable_units
    assert (decision.plan.slowdown <= sla) == (simulate_units(snapshot, decision.units, policy=policy).slowdown <= sla)
    assert all(plan.slowdown > sla for plan in decision.tried[:-1])


@given(snapshots(), slas)
def test_online_simulation_equals_the_papers_algorithm(snapshot, sla):
    assume(snapshot.least_units <= snapshot.usable_units)
    assume(snapshot.units_per_node == 1)
    most = snapshot.usable_units
    units = max([snapshot.units_in_use, *snapshot.queued.size.tolist()])
    while units < most and plain_slowdown(snapshot, units) > sla:
        units = math.ceil((units + most) / 2)
    assert find_ols_units(snapshot, sla).units == units


def plain_slowdown(snapshot, units) -> float:
    """Return the mean slowdown of all jobs from the plain scheduler's starts."""
    running, queued = snapshot.running, snapshot.queued
    rows = [
        (start - submit, max(end, NOW_S + 1) - start)
        for submit, start, end in zip(running.submit_s, running.start_s, running.expected_end_s, strict=True)
    ]
    starts = plain_starts(snapshot, units, EASY_POLICY.rules)
    rows += [
        (start - submit, max(run, 1))
        for submit, start, run in zip(queued.submit_s, starts, queued.estimate_s, strict=True)
    ]
    return sum(1 + wait / max(10, run) for wait, run in rows) / len(rows) if rows else 1.0


@given(snapshots())
def test_offers_are_whole_nodes_from_what_jobs_need_to_everything(snapshot):
    assume(snapshot.least_units <= snapshot.usable_units)
    tried = list_offers(snapshot)
    assert (tried[0], tried[-1]) == (snapshot.least_units, snapshot.usable_units)
    assert all(a < b for a, b in pairwise(tried))
    assert all(units % snapshot.units_per_node == 0 for units in tried)


def test_waking_a_node_is_paid_for():
    """Two jobs in a row on the node that is up do better than one of them on a node that first has to boot."""
    snapshot = snapshot_of(queued=[(1, NOW_S, 60), (1, NOW_S, 60)], node_state=[ACTIVE, asleep(OFF)])
    assert [simulate_units(snapshot, units).mean_wait_s for units in list_offers(snapshot)] == [30, 30]
    awake = snapshot_of(queued=[(1, NOW_S, 60), (1, NOW_S, 60)], node_state=[ACTIVE, ACTIVE])
    assert [simulate_units(awake, units).mean_wait_s for units in list_offers(awake)] == [30, 0]
    assert (find_ols_units(awake, 1.4).units, find_ols_units(awake, 1.5).units) == (2, 1)


@pytest.mark.parametrize("sla", [0.99, -1, math.nan])
def test_an_sla_below_1_is_bad_input(sla):
    with pytest.raises(BadInput, match="no job has a slowdown of"):
        find_ols_units(snapshot_of(node_state=[ACTIVE]), sla)


def test_jobs_that_need_more_than_there_is_are_bad_input():
    with pytest.raises(BadInput, match="jobs need 3 units and 1 are usable") as caught:
        find_ols_units(snapshot_of(queued=[(3, NOW_S, 60)], node_state=[ACTIVE]))
    assert "repair" in caught.value.hint
