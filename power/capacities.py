"""All capacity policies by name: the registry."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.settings.capacity import CapacitySettings
from offpeak.text import did_you_mean
from plugin.capacity.policies import (
    always_on,
    break_even,
    energy_aware,
    forecast,
    forecast_late,
    green_pool,
    priced,
    timeout,
    two_level,
)
from plugin.capacity.port import CapacityPolicy, Fleet
from power.ols import ols
from power.profile_policy import price_profile

Make = Callable[[Fleet, CapacitySettings, str], CapacityPolicy]


@dataclass(frozen=True)
class Kind:
    """A policy by name, an example of how it is written, and what it does in a line."""

    name: str
    example: str
    doc: str
    make: Make


CAPACITIES = (
    Kind("always-on", "always-on", "no node ever sleeps", always_on),
    Kind("timeout", "timeout:10min", "a node idle for so long sleeps (Slurm's SuspendTime)", timeout),
    Kind("energy-aware", "energy-aware", "an idle node sleeps at once", energy_aware),
    Kind("green-pool", "green-pool:5%", "so many idle nodes stay ready, the others sleep (Moab's)", green_pool),
    Kind("break-even", "break-even", "a node sleeps, and deeper, when that begins to save energy", break_even),
    Kind("priced", "priced", "as break-even, in money: sooner when electricity is dear", priced),
    Kind("forecast", "forecast:1h", "idle nodes stay awake while one is likely needed within so long", forecast),
    Kind("forecast-late", "forecast-late:1h", "as forecast; jobs start on whatever nodes are up first", forecast_late),
    Kind("two-level", "two-level:80%", "all nodes, or so many while they are enough", two_level),
    Kind("ols", "ols:1h", "as many as keep the slowdown SLA in a what-if, each period", ols),
    Kind("profile", "profile:1h", "fewer in dear hours, as the slowdown SLA allows in a what-if", price_profile),
)


FRONT = (
    "always-on",
    *(f"timeout:{idle}" for idle in ("1min", "5min", "10min", "30min", "1h", "2h")),
    *(f"green-pool:{share}" for share in ("2%", "5%", "10%", "20%")),
    *(f"{forecast}:{worth}" for forecast in ("forecast", "forecast-late") for worth in ("40min", "1h", "2h")),
    "break-even",
    "two-level",
    *(f"ols:1h:{sla}" for sla in (5, 20, 50, 200)),
)
"""What "front" stands for: each policy over the range of its parameter, to see what is traded for what."""


def spelt_out(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names with "front" replaced by what it stands for, each once."""
    return tuple(dict.fromkeys(each for name in names for each in (FRONT if name == "front" else (name,))))


def check_name(text: str) -> None:
    """Raise BadInput unless the text begins with the name of a policy."""
    _kind(text)


def capacity_named(text: str, fleet: Fleet, settings: CapacitySettings) -> CapacityPolicy:
    """Return the policy that the text means for this fleet, such as "timeout:10min"; BadInput if it means none."""
    return _kind(text).make(fleet, settings, text.strip().partition(":")[2])


def _kind(text: str) -> Kind:
    name = text.strip().partition(":")[0]
    for kind in CAPACITIES:
        if kind.name == name:
            return kind
    known = ("front", *(kind.name for kind in CAPACITIES))
    raise BadInput(f"unknown capacity policy {name!r}", hint=did_you_mean(name, known))
