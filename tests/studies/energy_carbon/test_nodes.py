"""The testbeds' nodes and policies."""

import pytest

from offpeak.model.node_states import DEPTHS, POWERSAVE, STANDBY
from plugin.capacity.rules import NEVER
from studies.energy_carbon.paper import TESTBEDS
from studies.energy_carbon.run import depth_of, energy_aware, node_class_of

WAYS = [(name, way) for name, testbed in TESTBEDS.items() for way in testbed.rows]


def test_standby_with_the_governor_draws_a_little_less() -> None:
    both, standby = (depth_of(node_class_of("juggle", way), way) for way in ("both", "standby"))
    assert (both.depth, standby.depth) == (STANDBY, STANDBY)
    assert both.power_w == pytest.approx(1280 / 12)
    assert both.power_w < standby.power_w
    assert depth_of(node_class_of("juggle", "powersave"), "powersave").depth == POWERSAVE


@pytest.mark.parametrize(("testbed", "way"), WAYS)
def test_the_policy_uses_that_depth_alone_and_at_once(testbed: str, way: str) -> None:
    node_class = node_class_of(testbed, way)
    capacity = energy_aware(TESTBEDS[testbed].nodes, node_class, way, keeps=False)
    expected = [0 if depth == depth_of(node_class, way).depth else NEVER for depth in range(len(DEPTHS))]
    assert capacity.schedule.after_s.tolist() == [expected]
    assert capacity.rules.ahead_s == 0


def test_a_node_that_is_soon_needed_is_kept_for_as_long_as_sleep_would_not_pay() -> None:
    kept_s = {way: energy_aware(12, node_class_of(name, way), way, keeps=True).rules.ahead_s for name, way in WAYS}
    assert kept_s == {"off": 259, "standby": 30, "powersave": 2, "both": 30}
