"""The plan of the queue, kept from cycle to cycle: repaired when something happens, and handed to the queue loop.

The inputs of a plan come from the site's settings, the scheduler, the caps on power and the weather.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord
from offpeak.model.constants import HOUR_S
from offpeak.model.facility import Facility, PowerCap, facility_named
from offpeak.model.step_series import Series
from offpeak.settings.table import Settings
from plugin.day_plan.day_plan import DayPlan, StartChange
from plugin.day_plan.inputs import PlanFacility, PlanInputs
from plugin.queue_hook.facts import PLAN, QueueFacts, QueueRules, format_clock
from plugin.scheduler.node import Node
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from services.agent.feed_loops import OutsideLoop
from services.agent.loop import DecisionFilter, ProblemLog
from services.agent.queue_loop import queue_rules
from services.agent.site_context import SiteContext


def make_plan_inputs(
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
    facility = facility_named(plan.facility, full_power_w=full_power_w) if plan.facility else uncooled_facility()
    room = PlanFacility(
        facility, settings.power.idle_node_w, plan.revenue_per_core_h, plan.outside_c, plan.revenues or ()
    )
    rules = replace(rules, policy=PLAN)
    return PlanInputs(
        queue=replace(facts, planned=None),
        rules=rules,
        nodes=tuple(nodes),
        shared_nodes=shared_nodes,
        room=room,
        caps=caps,
        weather=weather,
    )


def uncooled_facility() -> Facility:
    """Return a machine room in which cooling costs nothing, as far as anybody has said."""
    return Facility("none", np.zeros(1), np.array([-100.0, 100.0]), np.ones((1, 2)))


SEARCH_S = 1.0
"""So long other orders are tried each cycle; the repair itself is not bounded by it."""


MOVES_S = HOUR_S
"""Of each job that is planned anew in every cycle one move in so long is recorded."""


class PlanLoop:
    """`standing` is the latest plan, None before the first."""

    def __init__(self, ledger: Ledger, problem_log: ProblemLog, outside: OutsideLoop) -> None:
        self._ledger, self._problem_log, self._outside = ledger, problem_log, outside
        self.standing: DayPlan | None = None
        self._changed = DecisionFilter(again_after_s=MOVES_S)

    async def with_plan(
        self, facts: QueueFacts, view: SchedulerView, traits: SchedulerTraits, parts: SiteContext
    ) -> QueueFacts:
        """Return the facts with what the plan wants; without prices as they are."""
        # It loads the planner's kernels, which an agent with another policy does without.
        from plugin.day_plan.day_plan import planned_of
        from plugin.day_plan.make import plan_day
        from plugin.planner.searches import budget_of

        sight = make_plan_inputs(
            facts,
            queue_rules(parts),
            parts.settings,
            nodes=view.nodes,
            shared_nodes=traits.shared_nodes,
            caps=self._outside.caps(),
            weather=self._outside.weather,
        )
        plan = await asyncio.to_thread(plan_day, sight, self.standing, budget_of(SEARCH_S))
        self._problem_log.report("plan", "no price is known" if plan is None else _plan_problem(plan))
        if plan is None:
            return facts
        moves = [_move_decision(move, facts, parts) for move in plan.moves]
        self._ledger.write_decisions(self._changed.of(moves, {f"job {job.job_id}" for job in facts.jobs}))
        self.standing = plan
        return replace(facts, planned=planned_of(plan))


def _plan_problem(plan: DayPlan) -> str | None:
    """Return what an operator has to see of a plan: a cap that cannot hold, a plan that the verifier refuses."""
    broken = [remark for remark in plan.remarks if remark.startswith("the cap of")]
    return "; ".join((*plan.violations[:1], *broken)) or None


def _move_decision(move: StartChange, facts: QueueFacts, parts: SiteContext) -> DecisionRecord:
    from_text, to_text = (
        "no start" if at_s is None else format_clock(at_s, facts.now_s, parts.zone) for at_s in (move.from_s, move.to_s)
    )
    inputs = (("planned_start_s", float(move.to_s)),) if move.to_s is not None else ()
    reason = f"from {from_text} to {to_text}: {move.why}"
    return DecisionRecord(facts.now_s, f"job {move.job_id}", "planned anew", reason, inputs)
