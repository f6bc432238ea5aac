"""OLS: finds the fewest units on offer, of those tried, with which the known jobs keep a slowdown SLA; and its policy.

Source: Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS 2005,
section 3.3.1: start at the fewest possible units and halve the distance to all units until the mean slowdown is no
larger than the SLA. The policy decides once a period. Its argument is the period, "1h", or period and SLA, "1h:50".
"""

from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.model.snapshot import Snapshot
from offpeak.model.units import parse_duration_s
from offpeak.plugin.capacity.policies import capacity_rules, constant_schedule, idle_before_depth_s, used_depths
from offpeak.plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from offpeak.power.whatif import EASY_POLICY, WhatIfPlan, check_units, simulate_units
from offpeak.settings.capacity import DEFAULT_SLA, CapacitySettings
from offpeak.sim_backend.replay.policy import Policy
from offpeak.text import counted

DEFAULT_PERIOD = "1h"


@dataclass(frozen=True, eq=False)
class OlsDecision:
    """The plans `tried` in the order of OLS, the last one chosen: it keeps the SLA or has all units."""

    tried: tuple[WhatIfPlan, ...]

    @property
    def plan(self) -> WhatIfPlan:
        """The chosen plan."""
        return self.tried[-1]

    @property
    def units(self) -> int:
        """The units to keep on offer."""
        return self.plan.units


def find_ols_units(snapshot: Snapshot, sla: float = DEFAULT_SLA, *, policy: Policy = EASY_POLICY) -> OlsDecision:
    """Return how many units to offer so that the known jobs' mean slowdown is at most `sla`.

    Raises BadInput for an SLA below 1, which no job can keep, or if jobs need more units than are usable.
    """
    check_sla(sla)
    tried: list[WhatIfPlan] = []
    for units in list_offers(snapshot):
        tried.append(simulate_units(snapshot, units, policy=policy))
        if tried[-1].slowdown <= sla:
            break
    return OlsDecision(tuple(tried))


def check_sla(sla: float) -> None:
    """Raise BadInput unless `sla` is a slowdown that a job can have."""
    if not sla >= 1:
        raise BadInput(f"no job has a slowdown of {sla:g}", hint=f"give 1 or more; {DEFAULT_SLA:g} is usual")


def list_offers(snapshot: Snapshot) -> tuple[int, ...]:
    """Return the units OLS tries in turn: L, then ceil((l + U) / 2), to U, in whole nodes. Raises BadInput if L > U."""
    most, whole = snapshot.usable_units, snapshot.units_per_node
    check_units(snapshot, most)
    steps = [snapshot.least_units]
    while steps[-1] < most:
        halfway = -(-(steps[-1] + most) // 2)
        steps.append(-(-halfway // whole) * whole)
    return tuple(steps)


def parse_period_and_sla(name: str, argument: str, sla: float) -> tuple[int, float]:
    """Return the argument's period [s] and SLA, by default an hour and `sla`. Raises BadInput, naming the policy."""
    period, _, own_sla = (argument or DEFAULT_PERIOD).partition(":")
    try:
        period_s = parse_duration_s(period)
    except BadInput as problem:
        raise BadInput(f"capacity policy {name!r}: {problem}", hint=f"write it like {name}:1h") from None
    if period_s == 0:
        raise BadInput(f"capacity policy {name!r}: the period is zero", hint=f"write it like {name}:1h")
    return period_s, _parse_sla(name, own_sla) if own_sla else sla


def _parse_sla(name: str, text: str) -> float:
    try:
        sla = float(text)
    except ValueError:
        hint = f"write it like {name}:1h:50"
        raise BadInput(f"capacity policy {name!r}: {text!r} is not a slowdown", hint=hint) from None
    check_sla(sla)
    return sla


@dataclass(frozen=True)
class OnlineSimulation:
    """Decides by a what-if under EASY; the SLA bounds the mean slowdown of the known jobs."""

    sla: float

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the fewest nodes that keep the SLA, of the numbers that the bisection tries."""
        decision = find_ols_units(snapshot.without_too_wide(), self.sla)
        awake, all_nodes = (units // snapshot.units_per_node for units in (decision.units, snapshot.usable_units))
        jobs, slowdown = counted(len(decision.plan.start_s), "job"), decision.plan.slowdown
        why = f"{awake} of {all_nodes} nodes for {jobs}: a mean slowdown of {slowdown:.1f} (bound {self.sla:g})"
        return CapacityTargets(awake, why=why)


def make_ols_policy(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """Make the policy that keeps as many nodes awake as the slowdown SLA needs in a simulation of the known jobs, each
    period.

    The argument is the period, and optionally an SLA that overrides the settings: "1h", "1h:50".
    """
    period_s, sla = parse_period_and_sla("ols", argument, settings.sla)
    rules = capacity_rules(fleet, settings, on_demand=False)._replace(period_s=period_s, raise_for_wide=True)
    after_s = idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    return CapacityPolicy(
        f"ols:{argument or DEFAULT_PERIOD}", rules, constant_schedule(fleet, after_s), OnlineSimulation(sla)
    )
