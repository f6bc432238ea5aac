"""The registry of capacity policies."""

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.node_class_file import bundled_node_class
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.port import Fleet
from power.capacities import CAPACITIES, FRONT, capacity_named, check_name, spelt_out

FLEET = Fleet(
    nodes=64,
    units_per_node=1,
    node_class=bundled_node_class("server"),
    load=0.5,
    price_at_s=np.array([0]),
    price_per_mwh=np.array([50.0]),
)


@pytest.mark.parametrize("kind", CAPACITIES, ids=lambda kind: kind.name)
def test_each_example_makes_a_policy_of_its_kind(kind) -> None:
    check_name(kind.example)
    capacity = capacity_named(kind.example, FLEET, CapacitySettings())
    assert capacity.name.partition(":")[0] == kind.name
    asks = capacity.rules.period_s > 0 and capacity.rules.worth_s == 0
    assert (capacity.decide is not None) == asks


def test_an_unknown_one_is_told_the_nearest() -> None:
    with pytest.raises(BadInput, match="unknown capacity policy 'timout'") as problem:
        check_name("timout:5min")
    assert "timeout" in problem.value.hint


def test_front_is_spelt_out_and_each_name_stands_once() -> None:
    names = spelt_out(("timeout:5min", "front", "ols:2h"))
    assert names[0] == "timeout:5min"
    assert names[-1] == "ols:2h"
    assert sorted(names) == sorted({*FRONT, "ols:2h"})
    for name in names:
        capacity_named(name, FLEET, CapacitySettings())
