"""The capacity policies that need no simulation: rules and courses as the settings and the fleet say."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import OFF
from offpeak.plugin.capacity.policies import (
    always_on,
    break_even,
    energy_aware,
    green_pool,
    priced,
    round_load_up,
    timeout,
    two_level,
)
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.plugin.capacity.rules import BY_WEAR, NEVER
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

FLEET = Fleet(nodes=100, units_per_node=1, node_class=bundled_node_class("sketch"), load=0.69)
DEFAULTS = CapacitySettings()

Make = Callable[[Fleet, CapacitySettings, str], CapacityPolicy]


def test_always_on_lets_no_node_sleep() -> None:
    assert always_on(FLEET, DEFAULTS, "").keeps_all_awake
    assert not timeout(FLEET, DEFAULTS, "").keeps_all_awake


def test_a_time_out_is_the_idle_time_before_the_deepest_depth() -> None:
    capacity = timeout(FLEET, DEFAULTS, "5min")
    assert capacity.name == "timeout:5min"
    assert capacity.schedule.after_s.tolist() == [[NEVER, NEVER, 300]]
    assert capacity.rules.on_demand
    assert timeout(FLEET, DEFAULTS, "").name == "timeout:10min"


def test_energy_aware_sleeps_at_once() -> None:
    assert energy_aware(FLEET, DEFAULTS, "").schedule.after_s[0, OFF] == 0


@pytest.mark.parametrize(("argument", "reserve"), [("7", 7), ("7%", 7), ("0.5%", 1), ("", 5), ("100%", 100)])
def test_a_green_pool_keeps_idle_nodes(argument: str, reserve: int) -> None:
    assert green_pool(FLEET, DEFAULTS, argument).schedule.reserve.tolist() == [reserve]


@pytest.mark.parametrize(("argument", "low"), [("75", 75), ("80%", 80), ("", 70), ("1%", 1)])
def test_policy_two_level_has_a_low_and_a_full_level(argument: str, low: int) -> None:
    capacity = two_level(FLEET, DEFAULTS, argument)
    assert capacity.rules.low == low
    assert not capacity.rules.on_demand
    assert capacity.schedule.target.tolist() == [100]


@pytest.mark.parametrize(
    ("load", "step"), [(0.75, 0.80), (0.82, 0.85), (0.55, 0.60), (0.0, 0.05), (0.99, 1.0), (1.0, 1.0)]
)
def test_the_lower_level_is_a_step_above_the_load(load: float, step: float) -> None:
    """Examples of Lawson and Smirni, section 3.2, and the ends."""
    assert round_load_up(load) == step


def test_the_price_decides_how_long_nodes_stay_idle() -> None:
    at_s, price = np.array([0, 3600, 7200]), np.array([50.0, -5.0, 200.0])
    fleet = replace(FLEET, price_at_s=at_s, price_per_mwh=price)
    schedule = priced(fleet, replace(DEFAULTS, cycle_cost=0.05), "").schedule
    assert schedule.at_s[0] < 0
    assert schedule.at_s[1:].tolist() == [3600, 7200]
    cheap_s, negative_s, dear_s = schedule.after_s[:, OFF]
    assert dear_s < cheap_s < negative_s == NEVER


def test_settings_become_rules() -> None:
    settings = replace(
        DEFAULTS, keep_hot=3, wake_ahead_s=600, min_awake_s=60, min_asleep_s=90, cycles_per_day=4, order="wear"
    )
    rules = break_even(FLEET, settings, "").rules
    assert (rules.keep_hot, rules.ahead_s, rules.min_awake_s, rules.min_asleep_s) == (3, 600, 60, 90)
    assert (rules.most_sleeps_per_day, rules.order) == (4, BY_WEAR)


@pytest.mark.parametrize(
    ("rate", "ramp_w", "expected"), [(0, None, 0), (7, None, 7), (0, 1000.0, 5), (3, 1000.0, 3), (9, 1000.0, 5)]
)
def test_a_ramp_in_watts_is_a_number_of_nodes(rate: int, ramp_w: float | None, expected: int) -> None:
    """A node of the class draws 200 W while it comes up."""
    settings = replace(DEFAULTS, wakes_per_min=rate, wake_ramp_w=ramp_w)
    assert timeout(FLEET, settings, "").rules.wakes_per_min == expected


@pytest.mark.parametrize(
    ("make", "argument", "message"),
    [
        (timeout, "soon", "capacity policy 'timeout': "),
        (green_pool, "many", "capacity policy 'green-pool': 'many' is not a number of nodes"),
        (green_pool, "inf%", "capacity policy 'green-pool': 'inf%' is not a number of nodes"),
        (green_pool, "101", "capacity policy 'green-pool': 101 of 100 nodes"),
        (two_level, "101%", "capacity policy 'two-level': 101% of 100 nodes"),
        (two_level, "0", "capacity policy 'two-level': 0 is not a lower level"),
        (two_level, "-1", "capacity policy 'two-level': -1 of 100 nodes"),
        (always_on, "5", "the capacity policy 'always-on' does not accept a value, but '5' is given"),
        (energy_aware, "5", "the capacity policy 'energy-aware' does not accept a value"),
        (priced, "", "the capacity policy 'priced' needs prices"),
    ],
)
def test_policies_reject_invalid_arguments(make: Make, argument: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as problem:
        make(FLEET, DEFAULTS, argument)
    assert problem.value.hint


def test_more_nodes_than_there_are_cannot_be_kept_hot() -> None:
    assert timeout(FLEET, replace(DEFAULTS, keep_hot=100), "").rules.keep_hot == 100
    with pytest.raises(BadInput, match="--keep-hot 101: the machine has 100 nodes"):
        timeout(FLEET, replace(DEFAULTS, keep_hot=101), "")


def test_a_ramp_below_one_node_is_an_error() -> None:
    with pytest.raises(BadInput, match="--sleep-ramp 100 W a minute allows no node to change"):
        timeout(FLEET, replace(DEFAULTS, sleep_ramp_w=100.0), "")
