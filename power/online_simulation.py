"""OLS: the fewest units on offer, of those tried, with which the jobs that are known keep a slowdown SLA.

Source: Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS 2005,
section 3.3.1: from the fewest possible, halve the distance to all until the mean slowdown is no larger than the SLA.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.model.snapshot import Snapshot
from offpeak.settings.capacity import DEFAULT_SLA
from power.what_if import EASY_RULES, Plan, check_units, what_if
from sim_backend.engine.rules import SchedulingRules


@dataclass(frozen=True, eq=False)
class Decision:
    """`tried` are the plans in the order of OLS up to the one chosen, the last. `met` says whether that keeps the SLA.

    Where none does, the last has all units on offer.
    """

    sla: float
    tried: tuple[Plan, ...]

    @property
    def plan(self) -> Plan:
        """The plan that was chosen."""
        return self.tried[-1]

    @property
    def units(self) -> int:
        """The units to keep on offer."""
        return self.plan.units

    @property
    def met(self) -> bool:
        """Whether the plan keeps the SLA."""
        return self.plan.slowdown <= self.sla


def ols_units(snapshot: Snapshot, sla: float = DEFAULT_SLA, *, rules: SchedulingRules = EASY_RULES) -> Decision:
    """Return how many units to keep on offer so that the known jobs' mean slowdown is at most `sla`.

    BadInput for an SLA below 1, which no job can keep, and where jobs need more units than are usable.
    """
    check_sla(sla)
    tried: list[Plan] = []
    for units in offers(snapshot):
        tried.append(what_if(snapshot, units, rules=rules))
        if tried[-1].slowdown <= sla:
            break
    return Decision(sla, tuple(tried))


def curve(snapshot: Snapshot, *, rules: SchedulingRules = EASY_RULES) -> tuple[Plan, ...]:
    """Return the plan of every number of units that OLS may try, fewest first, worked out on all cores at once."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return tuple(threads.map(lambda units: what_if(snapshot, units, rules=rules), offers(snapshot)))


def chosen(plans: tuple[Plan, ...], sla: float = DEFAULT_SLA) -> Decision:
    """Return what `ols_units` decides, from a curve. BadInput for an SLA below 1."""
    check_sla(sla)
    kept = [plan.slowdown <= sla for plan in plans]
    return Decision(sla, plans[: kept.index(True) + 1] if any(kept) else plans)


def check_sla(sla: float) -> None:
    """Raise BadInput unless `sla` is a slowdown that a job can have."""
    if not sla >= 1:
        raise BadInput(f"no job has a slowdown of {sla:g}", hint=f"give 1 or more; {DEFAULT_SLA:g} is usual")


def offers(snapshot: Snapshot) -> tuple[int, ...]:
    """Return the numbers of units that OLS tries in turn: L, then ceil((l + U) / 2), to U, in whole nodes.

    BadInput where L is above U.
    """
    most, whole = snapshot.usable_units, snapshot.units_per_node
    check_units(snapshot, most)
    steps = [snapshot.least_units]
    while steps[-1] < most:
        halfway = -(-(steps[-1] + most) // 2)
        steps.append(-(-halfway // whole) * whole)
    return tuple(steps)
