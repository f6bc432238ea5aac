"""A virtual node: its states by its class's times, orders that come at the wrong time, and energy that adds up."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import NotSupported
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, asleep, coming_up, going_down
from offpeak.sim_backend.virtual.node import LiveNode, VirtualNode, advance

pytestmark = pytest.mark.quick

SERVER = bundled_node_class("server")
NODE = VirtualNode(SERVER)
ORDERS = {"work": lambda live: live.use(0.7), "rest": lambda live: live.use(0.0)} | {
    name: getattr(LiveNode, name) for name in ("on", "soft_off", "hard_off", "suspend", "reset")
}


def live_at(node: VirtualNode, at_s: float) -> LiveNode:
    return LiveNode("n1", lambda: at_s, random.Random(1), node)


def ordered(order: str, node: VirtualNode, at_s: float, *, fails: bool = False) -> VirtualNode:
    live = live_at(node, at_s)
    if fails:
        live.fail_next()
    ORDERS[order](live)
    return live.node


RECORDS = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(sorted(ORDERS)), st.booleans()), max_size=20)
"""Orders, each so many seconds after the one before, and whether a transition that it begins fails."""


def states_of(node: VirtualNode, *times_s: float) -> list[int]:
    return [advance(node, at_s).state for at_s in times_s]


def test_a_shutdown_and_a_boot_last_as_long_as_the_class_says() -> None:
    down = ordered("soft_off", NODE, 100.0)
    assert states_of(down, 100, 159.9, 160) == [going_down(OFF), going_down(OFF), asleep(OFF)]
    up = ordered("on", down, 200.0)
    assert states_of(up, 200, 499.9, 500) == [coming_up(OFF), coming_up(OFF), ACTIVE]
    assert [advance(node, 1000).power_w for node in (NODE, down, up)] == [200, 15, 200]
    assert [live_at(node, 210).powered for node in (NODE, down, up)] == [True, False, True]


def test_standby_is_entered_and_left_faster() -> None:
    asleep_node = ordered("suspend", replace(NODE, utilisation=1.0), 0)
    assert states_of(asleep_node, 14, 15) == [going_down(STANDBY), asleep(STANDBY)]
    up = ordered("on", asleep_node, 100)
    assert states_of(up, 144, 145) == [coming_up(STANDBY), ACTIVE]
    assert (advance(asleep_node, 50).power_w, advance(up, 145).power_w) == (30, 700)


def test_on_during_the_shutdown_is_dropped_or_waits() -> None:
    down = ordered("soft_off", NODE, 0)
    assert states_of(ordered("on", down, 30), 60, 1000) == [asleep(OFF), asleep(OFF)]
    patient = replace(down, drops_early_on=False)
    assert states_of(ordered("on", patient, 30), 59, 60, 360) == [going_down(OFF), coming_up(OFF), ACTIVE]


def test_hard_off_is_at_once_and_what_ran_does_not_run_after_a_boot() -> None:
    busy = replace(NODE, utilisation=1.0)
    cut = ordered("hard_off", busy, 10)
    assert cut.state == asleep(OFF)
    assert advance(ordered("on", cut, 20), 320).power_w == 200
    assert advance(ordered("reset", busy, 20), 320).power_w == 200


def test_a_wake_that_fails_hangs_switched_on_until_its_power_is_cut() -> None:
    hung = advance(ordered("on", ordered("hard_off", NODE, 0), 0, fails=True), 1000)
    assert (hung.state, hung.power_w, live_at(hung, 1000).powered) == (FAILED, 200, True)
    assert ordered("on", hung, 1001) == ordered("soft_off", hung, 1001) == hung
    assert ordered("hard_off", hung, 1001).state == asleep(OFF)


def test_a_class_without_a_depth_cannot_enter_it() -> None:
    with pytest.raises(NotSupported, match="juggle: this node class has no"):
        ordered("suspend", VirtualNode(replace(bundled_node_class("juggle"), depths=())), 0)


@given(RECORDS)
def test_energy_is_the_sum_of_what_is_drawn_in_each_second(events: list[tuple[int, str, bool]]) -> None:
    node, now_s, drawn_j = NODE, 0, 0.0
    for pause_s, order, fails in [*events, (1000, "rest", False)]:
        for second in range(now_s, now_s + pause_s):
            drawn_j += advance(node, second).power_w
        now_s += pause_s
        node = ordered(order, node, now_s, fails=fails)
    assert math.isclose(node.energy_at(now_s), drawn_j, rel_tol=1e-9)


@given(RECORDS, st.lists(st.integers(0, 8000)))
def test_node_state_is_independent_of_observations(events: list[tuple[int, str, bool]], looks: list[int]) -> None:
    node, watched, now_s = NODE, NODE, 0
    for pause_s, order, _ in events:
        for look_s in sorted(looks):
            watched = advance(watched, look_s) if now_s <= look_s < now_s + pause_s else watched
        now_s += pause_s
        node, watched = (ordered(order, each, now_s) for each in (node, watched))
    assert watched == node
    least_w, most_w = min(node.least_w, node.power_w), max(node.most_w, node.power_w)
    assert least_w * now_s <= node.energy_at(now_s) * (1 + 1e-9) <= most_w * now_s * (1 + 1e-6)
