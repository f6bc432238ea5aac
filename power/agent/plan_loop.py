"""The plan of the queue, kept from cycle to cycle: repaired as things happen, and handed to the queue loop."""

import asyncio
from dataclasses import replace

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord
from plugin.day_plan.day_plan import DayPlan, StartChange
from plugin.queue_hook.facts import QueueFacts, format_clock
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from power.agent.changed import Changed
from power.agent.facts import queue_rules
from power.agent.outside_loop import OutsideLoop
from power.agent.parts import Parts
from power.agent.voice import Voice
from power.plan_sight import plan_sight

SEARCH_S = 1.0
"""So long other orders are tried each cycle; the repair itself is not bounded by it."""


MOVES_S = 3600.0
"""Of each job that is planned anew in every cycle one move in so long is recorded."""


class PlanLoop:
    """`standing` is the latest plan, None before the first."""

    def __init__(self, ledger: Ledger, voice: Voice, outside: OutsideLoop) -> None:
        self._ledger, self._voice, self._outside = ledger, voice, outside
        self.standing: DayPlan | None = None
        self._changed = Changed(again_after_s=MOVES_S)

    async def with_plan(
        self, facts: QueueFacts, view: SchedulerView, traits: SchedulerTraits, parts: Parts
    ) -> QueueFacts:
        """Return the facts with what the plan wants; without prices as they are."""
        # It loads the planner's kernels, which an agent with another policy does without.
        from plugin.day_plan.day_plan import planned_of
        from plugin.day_plan.make import plan_day
        from plugin.planner.searches import budget_of

        sight = plan_sight(
            facts,
            queue_rules(parts),
            parts.settings,
            nodes=view.nodes,
            shared_nodes=traits.shared_nodes,
            caps=self._outside.caps(),
            weather=self._outside.weather,
        )
        plan = await asyncio.to_thread(plan_day, sight, self.standing, budget_of(SEARCH_S))
        self._voice.trouble("plan", "no price is known" if plan is None else _trouble(plan))
        if plan is None:
            return facts
        moves = [_moved(move, facts, parts) for move in plan.moves]
        self._ledger.write_decisions(self._changed.of(moves, {f"job {job.job_id}" for job in facts.jobs}))
        self.standing = plan
        return replace(facts, planned=planned_of(plan))


def _trouble(plan: DayPlan) -> str | None:
    """Return what an operator has to see of a plan: a cap that cannot hold, a plan that the verifier refuses."""
    broken = [remark for remark in plan.remarks if remark.startswith("the cap of")]
    return "; ".join((*plan.violations[:1], *broken)) or None


def _moved(move: StartChange, facts: QueueFacts, parts: Parts) -> DecisionRecord:
    from_text, to_text = (
        "no start" if at_s is None else format_clock(at_s, facts.now_s, parts.zone) for at_s in (move.from_s, move.to_s)
    )
    inputs = (("planned_start_s", float(move.to_s)),) if move.to_s is not None else ()
    reason = f"from {from_text} to {to_text}: {move.why}"
    return DecisionRecord(facts.now_s, f"job {move.job_id}", "planned anew", reason, inputs)
