"""The power loop: decides which nodes sleep and wake, probes all nodes, and takes each one a step further.

The scheduler is informed about nodes through the door. A change that was refused is tried again after a pause.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from offpeak.door.effect import Hold, Refusal
from offpeak.errors import OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord
from offpeak.model.orders import NodeChange
from plugin.scheduler.node import SchedulerState
from power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders
from power.interlocks.preconditions import StateReading
from power.lifecycle.decisions import NodeContexts, NodeRecords, record_poll
from power.lifecycle.node_context import NodeContext, make_retry_policy
from power.lifecycle.node_record import DesiredStateChange, Event, HoldChange, Instant, make_state_row
from power.lifecycle.sweep import SweepContext, ledger_fields, poll_nodes, sweep
from power.lifecycle.transitions import apply_event
from power.live.cluster_snapshot import ClusterSnapshot, PowerSite
from power.live.cycle_memory import PowerMemory
from power.live.power_plan import PowerPlan, SchedulerUpdate, plan_power
from services.agent.loop import DecisionFilter, ProblemLog
from services.agent.node_memory import load_node_records, save_node_records
from services.agent.site_context import RuleInputs, SiteContext, SiteOrders

AT_ONCE = 8
SHADOW_PAUSE_S = 600.0
"""A shadow mode is recorded, but not in each cycle."""
FAILURE_PAUSE_S = 10.0
"""What the scheduler has not done it may do soon: it may have been away."""


class NodeChanges:
    """Tells; knows what was refused."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before_s: dict[tuple[str, NodeChange], float] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def tell(self, changes: Sequence[SchedulerUpdate], orders: SchedulerOrders) -> bool:
        """Tell of all that is not paused; returns whether anything was changed."""
        now_s = self._clock()
        wanted = {(told.node, told.change) for told in changes}
        self._not_before_s = {key: at_s for key, at_s in self._not_before_s.items() if key in wanted}
        due = [told for told in changes if self._not_before_s.get((told.node, told.change), now_s) <= now_s]
        done = await asyncio.gather(*(self._tell(told, orders) for told in due))
        return any(done)

    async def _tell(self, told: SchedulerUpdate, orders: SchedulerOrders) -> bool:
        async with self._turn:
            answer = await orders.change_node(told.node, told.change, why=told.reason)
        if not answer.done:
            self._not_before_s[told.node, told.change] = self._clock() + _pause_s(answer)
        return answer.done


def _pause_s(answer: SchedulerOrderResult) -> float:
    by_mode = isinstance(answer.answer, Refusal) and answer.answer.rule == "mode"
    return SHADOW_PAUSE_S if by_mode else FAILURE_PAUSE_S


LONGEST_LOOKS = 4
"""A look at all nodes takes at most so many times what one device may take."""


class PowerLoop:
    """`lives` are the nodes' by the last look, `changed` knows what was decided last of each."""

    def __init__(
        self,
        ledger: Ledger,
        problem_log: ProblemLog,
        clock: Callable[[], float],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger, self._problem_log, self._clock, self._steady = ledger, problem_log, clock, steady
        self._memory, self._chance = PowerMemory(), random.Random()
        self._changes = NodeChanges(self._steady)
        self._holds: Mapping[str, Hold] = {}
        self._hold_changes = 0
        self._heard: list[tuple[str, Event]] = []
        self.lives, self._is_seen, self._kept = NodeRecords(), False, NodeRecords()
        self.changed = DecisionFilter()

    @property
    def known(self) -> RuleInputs:
        """What the door's rules look up."""
        return RuleInputs(self._sighting_of, lambda node: self._holds.get(node))

    @property
    def now(self) -> Instant:
        """The present instant."""
        return Instant(self._steady(), self._clock())

    def take_up(self, parts: SiteContext) -> None:
        """Take up the lives of the nodes as a run before has left them; CannotWrite or BadLedger. It waits."""
        kept = load_node_records(self._ledger, parts.machines, unix_s=self._clock(), monotonic_s=self._steady())
        nodes = {node: self.lives.nodes.get(node, life) for node, life in kept.nodes.items()}
        self.lives = self._kept = NodeRecords(nodes, {**kept.times, **self.lives.times})
        self._is_seen = False

    async def look_first(self, parts: SiteContext, words: Mapping[str, SchedulerState]) -> None:
        """Look at all nodes once after they were taken up: by what a run before has left nothing is decided."""
        if not self._is_seen:
            timeout_s = LONGEST_LOOKS * parts.wire.timeout_s
            looks = await poll_nodes(parts.lookout, self.lives, clock=lambda: self.now, timeout_s=timeout_s)
            rules = NodeContexts(parts.machines, self._terms(parts))
            self.lives = record_poll(self.lives, looks, words, self.now, rules)
            self._keep()
            self._is_seen = True

    async def read_holds(self, parts: SiteContext) -> None:
        """Take in which nodes admins hold; while nobody can tell, the last answer counts."""
        try:
            changes = -1
            while changes != self._hold_changes:
                # A hold that was set while the ledger was read may be missing in what was read.
                changes = self._hold_changes
                holds = await asyncio.to_thread(self._ledger.holds, self._clock())
            self._holds = holds
        except OffpeakError as problem:
            self._problem_log.report("ledger", f"{problem}; {problem.hint}")
            return
        self._problem_log.report("ledger", None)
        for node, life in self.lives.nodes.items():
            if life.hold != self._holds.get(node):
                self._happens(node, HoldChange(self._holds.get(node)), parts)

    def set_hold(self, node: str, hold: Hold | None) -> None:
        """Put a hold, or None, that the ledger has by now in force for the door's rules."""
        self._hold_changes += 1
        others = {name: each for name, each in self._holds.items() if name != node}
        self._holds = others if hold is None else {**others, node: hold}

    async def plan(self, sight: ClusterSnapshot, site: PowerSite) -> PowerPlan:
        """Decide, and book what is new."""
        self._heard.clear()
        plan = await asyncio.to_thread(plan_power, sight, site=site, memory=self._memory)
        self._memory = plan.memory
        self._problem_log.report("capacity", "; ".join(f"{what}; {hint}" for what, hint in plan.problems) or None)
        decisions = [DecisionRecord(sight.now.unix_s, each.node, each.what, each.reason) for each in plan.decisions]
        self._ledger.write_decisions(self.changed.of(decisions, {node.name for node in sight.view.nodes}))
        return plan

    async def carry_out(self, plan: PowerPlan, parts: SiteContext, orders: SiteOrders) -> bool:
        """Have the next step of each node done, and look what became of the last; returns whether one is under way.

        The plan does not know what was told of a node since it was begun: that node waits for the next one, which tells
        the scheduler first what is going to happen.
        """
        heard = {node for node, _ in self._heard}
        for node, wish in plan.desired_states.items():
            if node not in heard:
                self._happens(node, DesiredStateChange(wish), parts)
        told = await self._changes.tell([each for each in plan.changes if each.node not in heard], orders.scheduler)
        await self._look(parts, orders, plan.scheduler_states)
        courses = any(life.attempts.pending is not None for life in self.lives.nodes.values())
        return told or courses

    async def look(self, parts: SiteContext, orders: SiteOrders, words: Mapping[str, SchedulerState]) -> None:
        """Look at all nodes and give the orders that are due; `words` are the scheduler's, none where it is silent."""
        self._heard.clear()
        await self._look(parts, orders, words)

    async def _look(self, parts: SiteContext, orders: SiteOrders, words: Mapping[str, SchedulerState]) -> None:
        timeout_s, publish = LONGEST_LOOKS * parts.wire.timeout_s, partial(self._publish, parts)
        means = SweepContext(
            parts.lookout, orders.nodes.order, self._terms(parts), lambda: self.now, timeout_s, publish
        )
        orders.nodes.door.history.begin_sweep()
        publish((await sweep(means, self._without_new_wishes(), words)).records)
        self._is_seen = True
        self._keep()

    def hear(self, node: str, event: Event, parts: SiteContext) -> None:
        """Take in what somebody has told of a node, at any time: also in the middle of a round."""
        self._heard.append((node, event))
        self._happens(node, event, parts)
        self._keep()

    def terms_of(self, node: str, parts: SiteContext) -> NodeContext:
        """Return what the life of a node that may be switched goes by."""
        return NodeContexts(parts.machines, self._terms(parts)).of(node, self.lives.times)

    def ask_anew(self) -> None:
        """Ask the door again for all that it has refused: it has been made anew."""
        self._changes = NodeChanges(self._steady)

    def _without_new_wishes(self) -> NodeRecords:
        """Return the lives in which nothing is wanted of nodes that were told to be something else in this round."""
        told = {node for node, event in self._heard if isinstance(event, DesiredStateChange)} & self.lives.nodes.keys()
        free = {node: replace(self.lives.nodes[node], desired=None) for node in told}
        return NodeRecords({**self.lives.nodes, **free}, self.lives.times)

    def _keep(self) -> None:
        """Write what has changed since it was written last, whatever changed it."""
        before, self._kept = self._kept, self.lives
        changed = [
            life
            for node, life in self.lives.nodes.items()
            if ledger_fields(life) != ledger_fields(before.nodes.get(node))
        ]
        self._ledger.write_states([make_state_row(life, self.now) for life in changed])
        save_node_records(self._ledger, before, self.lives, monotonic_s=self._steady())

    def _happens(self, node: str, event: Event, parts: SiteContext) -> None:
        if node in self.lives.nodes:
            life = apply_event(self.lives.nodes[node], event, self.now, self.terms_of(node, parts))
            self.lives = NodeRecords({**self.lives.nodes, node: life}, self.lives.times)

    def _terms(self, parts: SiteContext) -> NodeContext:
        # Each node's own hardware takes the place of this one.
        any_hardware = next(iter(parts.machines.values())).hardware
        return NodeContext(any_hardware, self._chance, retry=make_retry_policy(parts.settings.agent))

    def _publish(self, parts: SiteContext, lives: NodeRecords) -> None:
        self.lives = lives
        for node, event in self._heard:
            self._happens(node, event, parts)

    def _sighting_of(self, node: str) -> StateReading | None:
        life = self.lives.nodes.get(node)
        return None if life is None else StateReading(str(life.observed.state), life.observed.at_unix_s)
