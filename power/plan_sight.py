"""What a plan is made from, put together from a site's settings and what its scheduler says."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from offpeak.model.facility import Facility, PowerCap, facility_named
from offpeak.model.step_series import Series
from offpeak.settings.table import Settings
from plugin.day_plan.inputs import PlanFacility, PlanInputs
from plugin.queue_hook.facts import PLAN, QueueFacts, QueueRules
from plugin.scheduler.node import Node


def plan_sight(
    facts: QueueFacts,
    rules: QueueRules,
    settings: Settings,
    *,
    nodes: Sequence[Node],
    shared_nodes: bool,
    caps: tuple[PowerCap, ...],
    weather: Series | None,
) -> PlanInputs:
    """Return the sight; BadInput for a facility that cannot be read."""
    full_power_w = max([settings.power.idle_node_w, *facts.node_power_w.values()]) * max(len(nodes), 1)
    plan = settings.plan
    facility = facility_named(plan.facility, full_power_w=full_power_w) if plan.facility else uncooled()
    room = PlanFacility(
        facility, settings.power.idle_node_w, plan.revenue_per_core_h, plan.outside_c, plan.revenues or ()
    )
    rules = replace(rules, policy=PLAN)
    return PlanInputs(replace(facts, planned=None), rules, tuple(nodes), shared_nodes, room, caps, weather)


def uncooled() -> Facility:
    """Return a machine room in which cooling costs nothing, as far as anybody has said."""
    return Facility("none", np.zeros(1), np.array([-100.0, 100.0]), np.ones((1, 2)))
