"""Idle times before each depth: the rungs that the settings name, and when each pays."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.node_class import NodeClass, break_even_s
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import OFF, POWERSAVE, STANDBY
from offpeak.plugin.capacity.policies import break_even_idle_s, idle_before_depth_s, priced_idle_s, used_depths
from offpeak.plugin.capacity.rules import NEVER
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

SERVER = bundled_node_class("server")
SKETCH = bundled_node_class("sketch")
J_PER_MWH = 3.6e9


def depths(*names: str) -> CapacitySettings:
    return CapacitySettings(depths=names)


def test_the_deepest_is_the_default() -> None:
    assert used_depths(SERVER, CapacitySettings()) == (OFF,)
    assert used_depths(bundled_node_class("juggle"), CapacitySettings()) == (STANDBY,)


def test_sleep_depths_are_ordered_and_named_once() -> None:
    assert used_depths(SERVER, depths("off", "standby", "deepest")) == (STANDBY, OFF)


@pytest.mark.parametrize(
    ("node_class", "name", "message", "hint"),
    [
        (SERVER, "of", "unknown sleep depth 'of'", "off"),
        (SKETCH, "standby", "the node class 'sketch' has no depth 'standby'", "it has off"),
        (replace(SKETCH, depths=()), "off", "the node class 'sketch' has no sleep depth", r"\[off\]"),
    ],
)
def test_a_depth_that_is_not_there(node_class: NodeClass, name: str, message: str, hint: str) -> None:
    with pytest.raises(BadInput, match=message) as problem:
        used_depths(node_class, depths(name))
    assert hint.replace("\\", "") in problem.value.hint


def test_the_first_depth_comes_after_the_idle_time_and_a_deeper_one_when_it_pays() -> None:
    after_s = idle_before_depth_s(SERVER, (STANDBY, OFF), 60)
    assert after_s.tolist() == [NEVER, 60, math.ceil(break_even_s(SERVER, OFF))]
    assert idle_before_depth_s(SERVER, (STANDBY, OFF), 7200).tolist() == [NEVER, 7200, 7200]


def test_break_even_waits_as_long_as_sleeping_costs() -> None:
    after_s = break_even_idle_s(SKETCH, (OFF,))
    assert after_s[OFF] == math.ceil(break_even_s(SKETCH, OFF))
    assert after_s[POWERSAVE] == after_s[STANDBY] == NEVER


def test_a_depth_that_never_pays_is_never_entered() -> None:
    useless = replace(SKETCH, depths=(replace(SKETCH.depths[0], power_w=SKETCH.idle_w),))
    assert break_even_idle_s(useless, (OFF,))[OFF] == NEVER


@given(price=st.floats(0.01, 1000), cycle_cost=st.floats(0, 1))
def test_wear_and_electricity_break_even(price: float, cycle_cost: float) -> None:
    """What an idle node costs beyond the energetic break-even equals the wear of a cycle, to a second."""
    longer_s = priced_idle_s(SKETCH, (OFF,), price, cycle_cost)[OFF] - break_even_idle_s(SKETCH, (OFF,))[OFF]
    saved_per_s = (SKETCH.idle_w - SKETCH.depths[0].power_w) * price / J_PER_MWH
    assert saved_per_s * (longer_s - 1) <= cycle_cost * (1 + 1e-9)
    assert saved_per_s * longer_s >= cycle_cost * (1 - 1e-9)


@given(cheap=st.floats(0.01, 500), more=st.floats(0.01, 500))
def test_the_dearer_the_sooner(cheap: float, more: float) -> None:
    assert (priced_idle_s(SKETCH, (OFF,), cheap + more, 0.05) <= priced_idle_s(SKETCH, (OFF,), cheap, 0.05)).all()


@pytest.mark.parametrize("price", [0.0, -80.0, np.nan])
def test_at_a_price_of_nothing_or_an_unknown_one_nodes_stay_up(price: float) -> None:
    assert (priced_idle_s(SKETCH, (OFF,), price, 0.0) == NEVER).all()
