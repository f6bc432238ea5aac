"""The cheapest profile keeps its promises in the what-if's own terms, and costs no more than offering everything."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_prices import prices, prices_of, terms_for, with_latest_ends
from random_snapshots import NOW_S, snapshot_of, snapshots

from offpeak.errors import BadInput
from offpeak.model.node_states import ACTIVE
from offpeak.power.capacity.price_profile import find_fewest_units
from offpeak.power.capacity.profile_policy import MOST_PLANS, find_cheapest_profile
from offpeak.power.capacity.profile_simulation import ProfileSimulation

slas = st.floats(1, 12)
NEVER = np.iinfo(np.int64).max


@given(snapshots(), prices(), slas)
def test_the_sla_is_kept_or_everything_is_on_offer(snapshot, ahead, sla):
    assume(snapshot.least_units <= snapshot.usable_units)
    decision = find_cheapest_profile(snapshot, ahead, terms_for(snapshot), sla=sla)
    assert decision.plan.slowdown <= sla or decision.plan is decision.uncapped
    again = ProfileSimulation(snapshot, ahead, terms_for(snapshot)).plan(decision.plan.profile)
    assert (again.slowdown, again.cost, again.start_s.tolist()) == (
        decision.plan.slowdown, decision.plan.cost, decision.plan.start_s.tolist()
    )  # fmt: skip


@given(snapshots(), prices(), slas)
def test_profile_offers_whole_nodes_and_caps_expensive_intervals_only(snapshot, ahead, sla):
    assume(snapshot.least_units <= snapshot.usable_units)
    decision = find_cheapest_profile(snapshot, ahead, terms_for(snapshot), sla=sla)
    units = decision.plan.profile.units
    assert (find_fewest_units(snapshot, ahead) <= units).all()
    assert (units <= snapshot.usable_units).all()
    assert units[0] >= snapshot.units_in_use
    assert (units % snapshot.units_per_node == 0).all()
    assert (units[~ahead.is_expensive] == snapshot.usable_units).all()


@given(snapshots(), prices(), slas, st.integers(1, MOST_PLANS))
def test_more_plans_never_cost_more_and_none_costs_more_than_everything_on_offer(snapshot, ahead, sla, most):
    assume(snapshot.least_units <= snapshot.usable_units)
    few = find_cheapest_profile(snapshot, ahead, terms_for(snapshot), sla=sla, most_plans=most)
    many = find_cheapest_profile(snapshot, ahead, terms_for(snapshot), sla=sla)
    assert many.plan.cost <= few.plan.cost <= few.uncapped.cost
    assert few.plans <= most


@given(snapshots(), st.integers(-100, 100), slas)
def test_at_a_flat_price_nothing_is_capped_and_nothing_changes(snapshot, price, sla):
    assume(snapshot.least_units <= snapshot.usable_units)
    decision = find_cheapest_profile(snapshot, prices_of((300, price)), terms_for(snapshot), sla=sla)
    assert decision.plan is decision.uncapped
    assert decision.plan.profile.units.tolist() == [snapshot.usable_units]
    assert decision.plans == 1


@given(snapshots(), prices(), st.data())
def test_no_green_job_is_later_than_its_latest_end_or_than_with_everything_on_offer(snapshot, ahead, data):
    assume(snapshot.least_units <= snapshot.usable_units)
    ends = st.integers(NOW_S, NOW_S + 200) | st.just(NEVER)
    latest_s = data.draw(st.lists(ends, min_size=len(snapshot.queued.size), max_size=len(snapshot.queued.size)))
    green = with_latest_ends(snapshot, np.array(latest_s, dtype=np.int64))
    decision = find_cheapest_profile(green, ahead, terms_for(green), sla=50)
    first = len(snapshot.running.size)
    allowed_s = np.maximum(green.queued.latest_end_s, decision.uncapped.end_s[first:])
    assert (decision.plan.end_s[first:] <= allowed_s).all()


def test_a_job_is_moved_behind_the_dear_hour_as_far_as_the_sla_allows():
    snapshot = snapshot_of(queued=[(1, NOW_S, 100)], node_state=[ACTIVE])
    ahead = prices_of((100, 200), (300, 20))
    held = find_cheapest_profile(snapshot, ahead, terms_for(snapshot), sla=2.1)
    assert held.plan.profile.units.tolist() == [0, 1]
    assert held.plan.start_s.tolist() == [NOW_S + 108]
    at_once = find_cheapest_profile(snapshot, ahead, terms_for(snapshot), sla=2)
    assert at_once.plan.profile.units.tolist() == [1, 1]


def test_a_green_job_is_held_where_the_sla_of_the_others_holds_nobody():
    other, green = (1, NOW_S, 40), (1, NOW_S, 40)
    snapshot = with_latest_ends(snapshot_of(queued=[green, other], node_state=[ACTIVE] * 2), [NOW_S + 400, NEVER])
    decision = find_cheapest_profile(snapshot, prices_of((100, 200), (300, 20)), terms_for(snapshot), sla=1)
    assert decision.plan.start_s[1] == NOW_S
    assert decision.plan.start_s[0] >= NOW_S + 40
    assert decision.plan.cost < decision.uncapped.cost


def test_idle_nodes_sleep_in_expensive_intervals_without_queued_jobs():
    snapshot = snapshot_of(node_state=[ACTIVE] * 4)
    decision = find_cheapest_profile(snapshot, prices_of((100, 200), (300, 20)), terms_for(snapshot))
    assert decision.plan.profile.units.tolist() == [0, 4]


@pytest.mark.parametrize("sla", [0.5, float("nan")])
def test_an_sla_below_1_is_bad_input(sla):
    snapshot = snapshot_of(node_state=[ACTIVE])
    with pytest.raises(BadInput, match="no job has a slowdown of"):
        find_cheapest_profile(snapshot, prices_of((100, 200)), terms_for(snapshot), sla=sla)
