"""The capacity policy that keeps, and wakes ahead, as many idle nodes as are likely to be needed soon."""

from dataclasses import replace

from offpeak.errors import BadInput
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.capacity import Capacity
from plugin.capacity.fleet import Fleet
from plugin.capacity.ladder import ladder_s, used_depths
from plugin.capacity.need import STEP_S
from plugin.capacity.policies import duration_s, rules_of, steady

DEFAULT_WORTH = "1h"
FIRST_IDLE_S = 600


def forecast(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """An idle node stays awake where a need of it is likely within the time given, by hour, rank and idle time.

    A need of a narrow job counts up to eleven times that of a node of a very wide one.
    """
    worth_s = duration_s("forecast", argument, DEFAULT_WORTH)
    if worth_s == 0:
        raise BadInput("capacity policy 'forecast': no idle time is worth a need", hint="energy-aware sleeps at once")
    depths = used_depths(fleet.node_class, settings)
    wake_s = max(depth.leave.duration_s for depth in fleet.node_class.depths if depth.depth in depths)
    ahead_s = settings.wake_ahead_s or wake_s
    rules = rules_of(fleet, settings, on_demand=True)._replace(period_s=STEP_S, ahead_s=ahead_s, worth_s=worth_s)
    course = steady(fleet, ladder_s(fleet.node_class, depths, FIRST_IDLE_S))
    return Capacity(f"forecast:{argument or DEFAULT_WORTH}", rules, course)


def forecast_late(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """As forecast; a job whose nodes come up starts on others if these become free before."""
    early = forecast(fleet, settings, argument)
    name = early.name.replace("forecast", "forecast-late")
    return replace(early, name=name, rules=early.rules._replace(late=True))
