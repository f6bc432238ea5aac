"""The registry of capacity policies by name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.plugin.capacity.policies import (
    always_on,
    break_even,
    energy_aware,
    forecast,
    forecast_late,
    green_pool,
    planned,
    priced,
    timeout,
    two_level,
)
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.settings.capacity import CapacitySettings
from offpeak.text import did_you_mean

MakeCapacity = Callable[[Fleet, CapacitySettings, str], CapacityPolicy]

FRONT = (
    "always-on",
    *(f"timeout:{idle}" for idle in ("1min", "5min", "10min", "30min", "1h", "2h")),
    *(f"green-pool:{share}" for share in ("2%", "5%", "10%", "20%")),
    *(f"{forecast}:{worth}" for forecast in ("forecast", "forecast-late") for worth in ("40min", "1h", "2h")),
    "break-even",
    "two-level",
    *(f"ols:1h:{sla}" for sla in (5, 20, 50, 200)),
)
"""The meaning of "front": each policy over the range of its parameter, to show the trade-off."""


@dataclass(frozen=True)
class CapacityPolicyKind:
    """A policy: name, example, description; `limits`: it decides the nodes for jobs, not only which idle ones sleep."""

    name: str
    example: str
    doc: str
    make: MakeCapacity
    limits: bool = False


def _ols(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    # It loads the engine, which an agent with another policy does without.
    from offpeak.power.capacity.online_simulation import make_ols_policy

    return make_ols_policy(fleet, settings, argument)


def _profile(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    from offpeak.power.capacity.profile_policy import make_profile_policy

    return make_profile_policy(fleet, settings, argument)


CAPACITY_POLICIES = (
    CapacityPolicyKind("always-on", "always-on", "no node ever sleeps", always_on),
    CapacityPolicyKind("timeout", "timeout:10min", "a node idle for so long sleeps (Slurm's SuspendTime)", timeout),
    CapacityPolicyKind("energy-aware", "energy-aware", "an idle node sleeps at once", energy_aware),
    CapacityPolicyKind(
        "green-pool", "green-pool:5%", "so many idle nodes stay ready, the others sleep (Moab's)", green_pool
    ),
    CapacityPolicyKind(
        "break-even", "break-even", "a node sleeps, and deeper, when that begins to save energy", break_even
    ),
    CapacityPolicyKind("priced", "priced", "as break-even, in money: sooner when electricity is expensive", priced),
    CapacityPolicyKind(
        "forecast", "forecast:1h", "idle nodes stay awake while one is likely needed within so long", forecast
    ),
    CapacityPolicyKind(
        "forecast-late",
        "forecast-late:1h",
        "as forecast; nodes are woken by a plan of the queue",
        forecast_late,
        limits=True,
    ),
    CapacityPolicyKind(
        "planned",
        "planned:20min",
        "as timeout; a plan of the queue wakes nodes, and jobs start on awake ones",
        planned,
        limits=True,
    ),
    CapacityPolicyKind(
        "two-level", "two-level:80%", "all nodes, or so many while they are enough", two_level, limits=True
    ),
    CapacityPolicyKind(
        "ols", "ols:1h", "as many as keep the slowdown SLA in a what-if, each period", _ols, limits=True
    ),
    CapacityPolicyKind(
        "profile",
        "profile:1h",
        "fewer in expensive hours, as the slowdown SLA allows in a what-if",
        _profile,
        limits=True,
    ),
)


def expand_front(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names with "front" expanded, each once."""
    return tuple(dict.fromkeys(each for name in names for each in (FRONT if name == "front" else (name,))))


def check_policy_name(text: str, *, to_limit: bool = False) -> None:
    """Raise BadInput unless the text starts with the name of a policy, which is `to_limit` the nodes for jobs."""
    kind = _find_kind(text)
    if to_limit and not kind.limits:
        which = ", ".join(each.example for each in CAPACITY_POLICIES if each.limits)
        text = f"agent.limit_capacity: the policy {kind.name} decides no number of nodes for jobs"
        raise BadInput(text, hint=f"set capacity below [agent] to one of {which}, or limit_capacity = false")


def make_capacity_policy(text: str, fleet: Fleet, settings: CapacitySettings) -> CapacityPolicy:
    """Return the policy in a notation such as "timeout:10min" for this fleet. Raises BadInput."""
    return _find_kind(text).make(fleet, settings, text.strip().partition(":")[2])


def _find_kind(text: str) -> CapacityPolicyKind:
    name = text.strip().partition(":")[0]
    for kind in CAPACITY_POLICIES:
        if kind.name == name:
            return kind
    known = ("front", *(kind.name for kind in CAPACITY_POLICIES))
    raise BadInput(f"unknown capacity policy {name!r}", hint=did_you_mean(name, known))
