"""The registry of capacity policies."""

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.node_class_file import bundled_node_class
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.registry import (
    CAPACITY_POLICIES,
    FRONT,
    check_policy_name,
    expand_front,
    make_capacity_policy,
)
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

FLEET = Fleet(
    nodes=64,
    units_per_node=1,
    node_class=bundled_node_class("server"),
    load=0.5,
    price_at_s=np.array([0]),
    price_per_mwh=np.array([50.0]),
)


@pytest.mark.parametrize("kind", CAPACITY_POLICIES, ids=lambda kind: kind.name)
def test_each_example_makes_a_policy_of_its_kind(kind) -> None:
    check_policy_name(kind.example)
    capacity = make_capacity_policy(kind.example, FLEET, CapacitySettings())
    assert capacity.name.partition(":")[0] == kind.name
    asks = capacity.rules.period_s > 0 and capacity.rules.worth_s == 0
    assert (capacity.decide is not None) == asks


def test_an_unknown_one_gets_the_nearest_as_a_hint() -> None:
    with pytest.raises(BadInput, match="unknown capacity policy 'timout'") as problem:
        check_policy_name("timout:5min")
    assert "timeout" in problem.value.hint


def test_front_is_spelt_out_and_each_name_stands_once() -> None:
    names = expand_front(("timeout:5min", "front", "ols:2h"))
    assert names[0] == "timeout:5min"
    assert names[-1] == "ols:2h"
    assert sorted(names) == sorted({*FRONT, "ols:2h"})
    for name in names:
        make_capacity_policy(name, FLEET, CapacitySettings())
