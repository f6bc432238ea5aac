"""A profile's plan is the engine run on, and its bill the engine's node log and jobs, priced."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_prices import QUICK, prices, prices_of, terms_for, with_latest_ends
from random_snapshots import NOW_S, snapshot_of, snapshots

from offpeak.errors import BadInput
from offpeak.model.node_class import JOB_UTILISATION
from offpeak.model.node_states import ACTIVE, FAILED, OFF, POWERSAVE, asleep, coming_up
from offpeak.power.capacity.price_profile import OfferProfile, offer_everything
from offpeak.power.capacity.profile_simulation import ProfileSimulation
from offpeak.power.whatif import simulate_units

JOB_W = QUICK.running_w(JOB_UTILISATION)
J_PER_MWH = 3.6e9


def profiles(data, snapshot, ahead) -> OfferProfile:
    """Draw a profile of whole nodes."""
    nodes = snapshot.usable_units // snapshot.units_per_node
    offered = data.draw(st.lists(st.integers(0, nodes), min_size=len(ahead.at_s), max_size=len(ahead.at_s)))
    return OfferProfile(ahead.at_s, np.array(offered) * snapshot.units_per_node, ahead.until_s)


@given(snapshots(), prices())
def test_with_all_nodes_up_and_on_offer_it_is_the_plain_what_if(snapshot, ahead):
    up = replace(snapshot, node_state=np.full_like(snapshot.node_state, ACTIVE))
    plan, plain = (
        ProfileSimulation(up, ahead, terms_for(up)).plan(offer_everything(up, ahead)),
        simulate_units(up, up.usable_units),
    )
    assert plan.start_s.tolist() == plain.start_s.tolist()
    assert plan.end_s.tolist() == plain.end_s.tolist()
    assert (plan.slowdown, plan.mean_wait_s) == pytest.approx((plain.slowdown, plain.mean_wait_s))
    assert not plan.late_s.any()


def test_a_node_that_comes_up_with_a_job_is_one_of_those_on_offer():
    running = [(2, NOW_S, NOW_S, NOW_S + 1), (1, NOW_S, NOW_S + 2, NOW_S + 2)]
    state = [ACTIVE, ACTIVE, coming_up(POWERSAVE)]
    snapshot = snapshot_of(running=running, queued=[(1, 950, 0)], node_state=state, ready_s=[NOW_S, NOW_S, NOW_S + 2])
    ahead = prices_of((2, 0.0))
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(
        OfferProfile(ahead.at_s, np.array([1]), ahead.until_s)
    )
    assert plan.start_s[-1] >= NOW_S + 2


@given(snapshots(), prices(), st.data())
def test_no_job_starts_on_nodes_beyond_the_profile(snapshot, ahead, data):
    assume(snapshot.least_units <= snapshot.usable_units)
    assume(snapshot.units_per_node == 1)
    profile = profiles(data, snapshot, ahead)
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(profile)
    size = np.concatenate([snapshot.running.size, snapshot.queued.size])
    held_from_s = np.concatenate(
        [np.full(len(snapshot.running.size), NOW_S), plan.start_s[len(snapshot.running.size) :]]
    )
    for start_s in held_from_s[len(snapshot.running.size) :]:
        assert start_s >= NOW_S
        offered = snapshot.usable_units if start_s >= profile.until_s else profile.units[ahead.interval_at(start_s)]
        assert size[(held_from_s <= start_s) & (start_s < plan.end_s)].sum() <= offered


@given(snapshots(), prices())
def test_the_bill_is_that_of_each_second_where_no_node_sleeps(snapshot, ahead):
    up = replace(snapshot, node_state=np.full_like(snapshot.node_state, ACTIVE))
    plan = ProfileSimulation(up, ahead, terms_for(up)).plan(offer_everything(up, ahead))
    size, per_node = np.concatenate([up.running.size, up.queued.size]), up.units_per_node
    settled_s = ahead.until_s + 8
    cost = energy_j = 0.0
    for second in range(NOW_S, max(settled_s, int(plan.end_s.max(initial=0)))):
        busy = float(size[(np.maximum(plan.start_s, NOW_S) <= second) & (second < plan.end_s)].sum()) / per_node
        idle = len(up.node_state) - busy if second < settled_s else -busy
        price = ahead.per_mwh[ahead.interval_at(second)] if second < ahead.until_s else ahead.mean
        energy_j += JOB_W * busy + QUICK.idle_w * idle
        cost += (JOB_W * busy + QUICK.idle_w * idle) * price / J_PER_MWH
    assert (plan.energy_j, plan.cost) == pytest.approx((energy_j, cost))


def test_a_node_that_is_not_on_offer_sleeps_and_is_woken_behind_the_cap():
    """One idle node, off for 100 s: 3 s down at 100 W, 97 s at 10 W, then 8 s up at 150 W, 92 s idle, and 8 s more."""
    snapshot, ahead = snapshot_of(node_state=[ACTIVE]), prices_of((100, 80), (100, 20))
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(
        OfferProfile(ahead.at_s, np.array([0, 1]), ahead.until_s)
    )
    assert plan.energy_j == pytest.approx(3 * 100 + 97 * 10 + 8 * 150 + 92 * 100 + 8 * 100)
    dear_j, cheap_j, later_j = 3 * 100 + 97 * 10, 8 * 150 + 92 * 100, 8 * 100
    assert plan.cost == pytest.approx((dear_j * 80 + cheap_j * 20 + later_j * 50) / J_PER_MWH)


def test_a_job_waits_for_the_end_of_the_cap_and_for_its_node():
    snapshot, ahead = snapshot_of(queued=[(1, NOW_S, 50)], node_state=[ACTIVE]), prices_of((100, 80), (100, 20))
    capped = OfferProfile(ahead.at_s, np.array([0, 1]), ahead.until_s)
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(capped)
    assert plan.start_s.tolist() == [NOW_S + 108]
    assert plan.slowdown == pytest.approx(1 + 108 / 50)


def test_a_job_that_holds_a_node_keeps_it_until_it_ends():
    running, queued = [(1, NOW_S - 9, NOW_S - 9, NOW_S + 30)], [(1, NOW_S, 10)]
    snapshot, ahead = snapshot_of(running=running, queued=queued, node_state=[ACTIVE]), prices_of((100, 80), (100, 20))
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(
        OfferProfile(ahead.at_s, np.array([0, 1]), ahead.until_s)
    )
    assert plan.start_s.tolist() == [NOW_S - 9, NOW_S + 108]


def test_nodes_on_their_way_and_asleep_are_woken_failed_ones_are_not():
    states, ready_s = [FAILED, asleep(OFF), coming_up(OFF), ACTIVE], [NOW_S, NOW_S, NOW_S + 5, NOW_S]
    snapshot = snapshot_of(queued=[(1, NOW_S, 90)] * 3, node_state=states, ready_s=ready_s)
    ahead = prices_of((100, 80))
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(offer_everything(snapshot, ahead))
    assert plan.start_s.tolist() == [NOW_S, NOW_S + 5, NOW_S + 8]


def test_a_job_with_a_green_sla_waits_for_the_others_while_there_is_a_cap():
    jobs = [(1, NOW_S, 50), (1, NOW_S, 50)]
    snapshot = with_latest_ends(
        snapshot_of(queued=jobs, node_state=[ACTIVE] * 2), [NOW_S + 300, np.iinfo(np.int64).max]
    )
    ahead = prices_of((100, 80), (100, 20))
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(
        OfferProfile(ahead.at_s, np.array([1, 2]), ahead.until_s)
    )
    assert plan.start_s.tolist() == [NOW_S + 50, NOW_S]
    assert plan.slowdown == 1.0
    free = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(offer_everything(snapshot, ahead))
    assert free.start_s.tolist() == [NOW_S, NOW_S]


def test_a_job_whose_latest_end_is_near_keeps_its_place():
    jobs = [(1, NOW_S, 50), (1, NOW_S, 50)]
    snapshot = with_latest_ends(snapshot_of(queued=jobs, node_state=[ACTIVE] * 2), [NOW_S + 60, np.iinfo(np.int64).max])
    ahead = prices_of((100, 80), (100, 20))
    plan = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(
        OfferProfile(ahead.at_s, np.array([1, 2]), ahead.until_s)
    )
    assert plan.start_s.tolist() == [NOW_S, NOW_S + 50]
    assert plan.late_s.tolist() == [0, 0]


@given(snapshots(), prices(), st.data())
def test_a_job_is_late_by_what_its_end_lies_behind_the_latest(snapshot, ahead, data):
    assume(snapshot.least_units <= snapshot.usable_units)
    ends = st.one_of(st.just(np.iinfo(np.int64).max), st.integers(NOW_S, NOW_S + 300))
    latest_s = data.draw(st.lists(ends, min_size=len(snapshot.queued.size), max_size=len(snapshot.queued.size)))
    green = with_latest_ends(snapshot, np.array(latest_s, dtype=np.int64))
    plan = ProfileSimulation(green, ahead, terms_for(green)).plan(profiles(data, green, ahead))
    queued_end_s = plan.end_s[len(snapshot.running.size) :]
    assert plan.late_s.tolist() == [
        max(0, int(end) - latest) for end, latest in zip(queued_end_s, latest_s, strict=True)
    ]


def test_a_job_wider_than_what_has_not_failed_is_bad_input():
    snapshot, ahead = snapshot_of(queued=[(2, NOW_S, 60)], node_state=[ACTIVE, FAILED]), prices_of((100, 80))
    with pytest.raises(BadInput, match="jobs need 2 units and 1 are usable"):
        ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(offer_everything(snapshot, ahead))


def test_more_units_in_use_than_nodes_are_up_is_bad_input():
    running = [(1, NOW_S - 9, NOW_S - 9, NOW_S + 30)]
    snapshot, ahead = snapshot_of(running=running, node_state=[asleep(OFF)]), prices_of((100, 80))
    with pytest.raises(BadInput, match="jobs hold 1 units, nodes that are up have 0"):
        ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(offer_everything(snapshot, ahead))
