"""What nodes draw, and from when on sleeping saves."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from offpeak.model.node_class import DepthPower, EnclosurePower, NodeClass, Transition, break_even_s
from offpeak.model.node_states import ACTIVE, FAILED, OFF, POWERSAVE, STANDBY, STATES, asleep, coming_up, going_down

DOWN, UP = Transition(60, 150, 0), Transition(180, 200, 0)
NODE = NodeClass("node", 150, ((0, 150), (0.5, 270), (1, 300)), (DepthPower(OFF, 10, DOWN, UP),))

TWELVE = replace(NODE, enclosure=EnclosurePower(12, 120.0))
"""150 W of an idle node include 10 W of the fans of its enclosure, which run until all twelve are off."""

powers = st.floats(0, 2000).map(lambda power_w: round(power_w, 2))
transitions = st.builds(Transition, st.integers(1, 3600), powers, st.just(0.0))


def node(idle_w: float, power_w: float, enter: Transition, leave: Transition) -> NodeClass:
    return NodeClass("any", idle_w, ((0, idle_w), (1, idle_w)), (DepthPower(OFF, power_w, enter, leave),))


def slept_j(sleep: DepthPower, idle_s: float) -> float:
    """Return what a node takes that sleeps for as long as the idle time allows."""
    asleep_s = idle_s - sleep.enter.duration_s - sleep.leave.duration_s
    return sleep.enter.energy_j + asleep_s * sleep.power_w + sleep.leave.energy_j


@pytest.mark.parametrize(("used", "power_w"), [(0, 150), (0.25, 210), (0.5, 270), (0.75, 285), (1, 300)])
def test_the_draw_lies_on_lines_between_the_points(used: float, power_w: float) -> None:
    assert NODE.running_w(used) == power_w


def test_a_state_has_its_draw() -> None:
    power_w = NODE.state_w()
    assert power_w.shape == (STATES,)
    assert (power_w[ACTIVE], power_w[FAILED]) == (150, 150)
    assert (power_w[going_down(OFF)], power_w[asleep(OFF)], power_w[coming_up(OFF)]) == (150, 10, 200)
    assert not power_w[
        [state(depth) for state in (going_down, asleep, coming_up) for depth in (POWERSAVE, STANDBY)]
    ].any()


def test_break_even_by_hand() -> None:
    """The boot takes 50 W more than idling for 180 s, and sleeping gains 140 W: 240 s + 9000 J / 140 W."""
    assert break_even_s(NODE, OFF) == pytest.approx(240 + 9000 / 140)


def test_the_first_of_twelve_saves_less_than_the_last() -> None:
    """The first saves 140 W - 10 W, the last the 120 W of all besides; twelve at once save as much as in turn."""
    off = TWELVE.depths[0]
    assert [TWELVE.saved_w(off), TWELVE.saved_w(off, 1), TWELVE.saved_w(off, 12)] == [130, 250, 140]
    assert 11 * TWELVE.saved_w(off) + TWELVE.saved_w(off, 1) == 12 * NODE.saved_w(off)
    assert break_even_s(TWELVE, OFF) == pytest.approx(240 + 9000 / 130)
    assert break_even_s(TWELVE, OFF, last=1) == pytest.approx(240 + 9000 / 250)
    assert break_even_s(TWELVE, OFF, last=12) == pytest.approx(240 + 9000 / 140)


def test_a_node_that_saves_power_stays_awake_for_its_enclosure() -> None:
    powersave = DepthPower(POWERSAVE, 100, DOWN, UP)
    assert replace(TWELVE, depths=(powersave,)).saved_w(powersave) == 50


@given(idle_w=powers, power_w=powers, enter=transitions, leave=transitions, last=st.integers(0, 12))
def test_without_an_enclosure_nothing_is_shared(
    idle_w: float, power_w: float, enter: Transition, leave: Transition, last: int
) -> None:
    made = node(idle_w, power_w, enter, leave)
    assert break_even_s(made, OFF, last=last) == break_even_s(made, OFF)


def test_a_depth_that_is_not_there_never_saves() -> None:
    assert NODE.find_depth(STANDBY) is None
    assert break_even_s(NODE, STANDBY) == math.inf


def test_a_depth_that_draws_as_much_as_idle_never_saves() -> None:
    assert break_even_s(node(150, 150, DOWN, UP), OFF) == math.inf
    assert break_even_s(node(150, 150, DOWN, DOWN), OFF) == math.inf


@given(idle_w=powers, power_w=powers, enter=transitions, leave=transitions)
def test_energy_asleep_is_energy_idle_at_break_even(
    idle_w: float, power_w: float, enter: Transition, leave: Transition
) -> None:
    assume(power_w < idle_w)
    made = node(idle_w, power_w, enter, leave)
    sleep, even_s = made.depths[0], break_even_s(made, OFF)
    assert even_s >= enter.duration_s + leave.duration_s
    if even_s > enter.duration_s + leave.duration_s:
        assert slept_j(sleep, even_s) == pytest.approx(idle_w * even_s)
    assert slept_j(sleep, 2 * even_s) <= idle_w * 2 * even_s * (1 + 1e-9)


@given(idle_w=powers, power_w=powers, enter=transitions, leave=transitions, longer_s=st.integers(0, 3600))
def test_a_longer_boot_is_worth_it_later(
    idle_w: float, power_w: float, enter: Transition, leave: Transition, longer_s: int
) -> None:
    assume(power_w < idle_w)
    longer = replace(leave, duration_s=leave.duration_s + longer_s, power_w=max(leave.power_w, idle_w))
    sooner_s = break_even_s(node(idle_w, power_w, enter, leave), OFF)
    assert break_even_s(node(idle_w, power_w, enter, longer), OFF) >= sooner_s * (1 - 1e-9)
