"""The capacity policy that follows a forecast."""

import pytest

from offpeak.errors import BadInput
from offpeak.model.node_class import break_even_s
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import OFF
from offpeak.plugin.capacity.policies import forecast, forecast_late, planned
from offpeak.plugin.capacity.port import Fleet
from offpeak.plugin.capacity.sleepers import STEP_S
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

NODES = 10
FLEET = Fleet(NODES, units_per_node=2, node_class=bundled_node_class("sketch"))


def test_rules_and_name():
    capacity = forecast(FLEET, CapacitySettings(), "40min")
    assert capacity.name == "forecast:40min"
    assert capacity.rules.period_s == STEP_S
    assert capacity.rules.ahead_s == 180
    assert capacity.rules.worth_s == 2400
    assert capacity.schedule.after_s[0, OFF] == 600
    ahead_s = [forecast(FLEET, CapacitySettings(wake_ahead_s=setting_s), "").rules.ahead_s for setting_s in (60, 600)]
    assert ahead_s == [180, 600], "the setting shortens no lead of the rule"
    late = forecast_late(FLEET, CapacitySettings(), "40min")
    assert late.name == "forecast-late:40min"
    assert late.rules == capacity.rules._replace(plan_s=planned(FLEET, CapacitySettings(), "").rules.plan_s, ahead_s=0)
    assert late.rules.plan_s >= break_even_s(FLEET.node_class, OFF)
    assert planned(FLEET, CapacitySettings(), "").name == "planned:20min"


@pytest.mark.parametrize(
    ("argument", "message"), [("soon", "capacity policy 'forecast': "), ("0s", "the idle time is zero")]
)
def test_forecast_rejects_invalid_arguments(argument, message):
    with pytest.raises(BadInput, match=message):
        forecast(FLEET, CapacitySettings(), argument)
