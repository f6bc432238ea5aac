"""The cap that looks at prices alone."""

import numpy as np

from offpeak.model.node_class_file import bundled_node_class
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.port import Fleet
from studies.price_capacity.run import blind

HOUR_S = 3600


def test_half_of_the_nodes_in_the_dearest_six_hours_of_each_day() -> None:
    at_s = HOUR_S * np.arange(-3, 45)
    price = np.concatenate([np.arange(24.0), np.arange(24.0)[::-1]])
    capacity = blind(Fleet(11, 1, bundled_node_class("server"), 0.5, at_s, price), CapacitySettings())
    assert capacity.schedule.target.tolist() == [11] * 18 + [5] * 6 + [5] * 6 + [11] * 18
    assert capacity.schedule.at_s[1:].tolist() == at_s[1:].tolist()
    assert not capacity.rules.on_demand
