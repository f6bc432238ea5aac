"""The power loop: decides which nodes sleep and wake, polls all nodes, and takes each one a step further.

`PowerLoop` is the loop of the agent. `PowerController` keeps the records of the nodes, decides, and carries the
decisions out. `NodeChanges` reports nodes to the scheduler through the door; it repeats a refused change after a pause.
"""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.display import duration_text
from offpeak.door.effect import ADMIN, Hold, Mode, Outcome, Refusal
from offpeak.errors import ListRefused, OffpeakError, SchedulerError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord
from offpeak.machines.node_sets import fold
from offpeak.model.clock import backoff_s
from offpeak.model.orders import NodeChange, NodeOrder, NodeState, PowerState
from offpeak.plugin.contract.rules import Contract
from offpeak.plugin.scheduler.node import SchedulerState, scheduler_states
from offpeak.plugin.scheduler.port import start_patience_s
from offpeak.power.door.scheduler_orders import SchedulerOrders
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.power.lifecycle.decisions import NodeContexts, NodeRecords, record_poll
from offpeak.power.lifecycle.node_context import NodeContext, make_retry_policy
from offpeak.power.lifecycle.node_record import (
    DesiredStateChange,
    Event,
    HoldChange,
    Instant,
    Opened,
    is_goal,
    make_state_row,
)
from offpeak.power.lifecycle.sweep import SweepContext, ledger_fields, poll_nodes, sweep
from offpeak.power.lifecycle.transitions import apply_event
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, NodeMemory, PowerSite, shift_node_memory
from offpeak.power.live.cycle_watch import CycleStep, CycleText, CycleWatch, describe_cycle, watch_to_json
from offpeak.power.live.decide import PoolOffer
from offpeak.power.live.power_cap import PowerBudget
from offpeak.power.live.power_plan import PowerMemory, PowerPlan, plan_power
from offpeak.power.live.steps import SchedulerUpdate
from offpeak.services.agent.accounting_loops import JobAccounts
from offpeak.services.agent.cycles import CycleStarter
from offpeak.services.agent.demand_response import Surroundings
from offpeak.services.agent.loop import LOG, DecisionFilter, Loop, ProblemLog
from offpeak.services.agent.node_memory import WATCH_KEY, load_node_records, read_watch, save_node_records
from offpeak.services.agent.observer import SAME_READING_PAUSES, Observer, find_undecided_jobs, without_jobs
from offpeak.services.agent.site_context import RuleInputs, SiteContext, SiteOrders

SHADOW_PAUSE_S = 600.0
"""The pause after a change that is only recorded, because of mode shadow."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
"""The pause before a change is sent again that the scheduler did not make, or that had no effect; it doubles."""
POWER_CHANGES = frozenset({NodeChange.POWER_UP, NodeChange.POWER_DOWN})
COMPLAINTS = frozenset({error.__name__ for error in (SchedulerError, ListRefused)})
"""The errors by which a scheduler that answers refuses a change."""


class NodeChanges:
    """Reports nodes to the scheduler, and remembers the changes that had no effect so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[tuple[str, NodeChange], tuple[int, float]] = {}
        """How often each was sent in a row, and when it may be sent again."""
        self._complaints: dict[tuple[str, NodeChange], str] = {}

    @property
    def refused(self) -> Mapping[str, str]:
        """What the scheduler has said twice in a row about nodes that it was to power up or down."""
        return {
            node: f"{change}: {self._complaints[node, change]}"
            for (node, change), (times, _) in self._sent.items()
            if times > 1 and change in POWER_CHANGES and (node, change) in self._complaints
        }

    async def request(self, updates: Sequence[SchedulerUpdate], orders: SchedulerOrders) -> frozenset[NodeChange]:
        """Send all updates that are not paused; return the kinds of the changes that were made."""
        now_s = self._clock()
        wanted = {(update.node, update.change) for update in updates}
        self._sent = {key: sent for key, sent in self._sent.items() if key in wanted}
        self._complaints = {key: text for key, text in self._complaints.items() if key in wanted}
        due = [update for update in updates if self._sent.get((update.node, update.change), (0, now_s))[1] <= now_s]
        done = await asyncio.gather(*(self._send(update, orders) for update in due))
        return frozenset(update.change for update, is_done in zip(due, done, strict=True) if is_done)

    async def _send(self, update: SchedulerUpdate, orders: SchedulerOrders) -> bool:
        result = await orders.change_node(update.node, update.change, why=update.reason)
        key = update.node, update.change
        times = self._sent.get(key, (0, 0.0))[0] + 1
        by_mode = isinstance(result.answer, Refusal) and result.answer.rule == "mode"
        self._complaints.pop(key, None)
        if isinstance(result.answer, Outcome) and result.answer.error_kind in COMPLAINTS:
            self._complaints[key] = result.answer.message
        pause_s = SHADOW_PAUSE_S if by_mode else backoff_s(times, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
        self._sent[key] = times, self._clock() + pause_s
        return result.done


POLL_TIMEOUTS = 4
"""The longest duration of a poll of all nodes, as a multiple of the time-out of one device."""


class PowerController:
    """Keeps the records of the nodes, decides about them, and carries the decisions out.

    `records` are those of the last poll, `changed` has the last decision about each node, `made` are the kinds of
    changes that the scheduler made in the last round, `offers` those of the last plan about pools, `budget` the cap
    on power that it obeys, `overdue` the nodes that do not follow their order to sleep, and `boot_ends_s` when the
    boots in progress are expected to end [Unix s]. Nodes in `left` are on and lost for jobs: their state in the
    scheduler, and what to type.
    """

    def __init__(
        self,
        site: Callable[[], SiteContext],
        ledger: Ledger,
        problem_log: ProblemLog,
        clock: Callable[[], float],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._site, self._ledger, self._problem_log = site, ledger, problem_log
        self._clock, self._steady = clock, steady
        self._memory, self._chance = PowerMemory(watch=CycleWatch(is_proven=False)), random.Random()
        self._requested_cycle: tuple[str, str] | None = None
        self._woken = frozenset[str]()
        self._planned: Instant | None = None
        self._changes = NodeChanges(self._steady)
        self.made = frozenset[NodeChange]()
        self._holds: Mapping[str, Hold] = {}
        self._hold_changes = 0
        self._received: list[tuple[str, Event]] = []
        self.records, self._is_polled, self._saved = NodeRecords(), False, NodeRecords()
        self.left: Mapping[str, str] = {}
        self.offers: tuple[PoolOffer, ...] = ()
        self.budget: PowerBudget | None = None
        self.overdue: Mapping[str, float] = {}
        self.boot_ends_s: Mapping[str, int] = {}
        self.changed = DecisionFilter()

    @property
    def is_urgent(self) -> bool:
        """Whether an order of an admin is not carried out yet, or a node is to come up and is not up yet."""
        return any(
            (desired.order is NodeOrder.ON or desired.by.startswith(ADMIN)) and not is_goal(desired.order, state)
            for desired, state, fault in (
                (each.desired, each.observed.state, each.fault) for each in self.records.nodes.values()
            )
            if desired is not None and fault is None
        )

    @property
    def known(self) -> RuleInputs:
        """What the rules of the doors look up."""
        return RuleInputs(self._read_state, lambda node: self._holds.get(node))

    def state_of(self, node: str) -> NodeState | None:
        """Return the state of a node at its last poll, None before the first one."""
        record = self.records.nodes.get(node)
        return None if record is None else record.observed.state

    @property
    def memories(self) -> Mapping[str, NodeMemory]:
        """What earlier rounds learned about nodes, by name."""
        return self._memory.nodes

    @property
    def now(self) -> Instant:
        """The present instant."""
        return Instant(self._steady(), self._clock())

    def load(self) -> None:
        """Load the records of the nodes from the ledger. Raises CannotWrite or BadLedger. It waits for the ledger."""
        machines = self._site().machines
        loaded = load_node_records(self._ledger, machines, unix_s=self._clock(), monotonic_s=self._steady())
        nodes = {node: self.records.nodes.get(node, record) for node, record in loaded.nodes.items()}
        self.records = self._saved = NodeRecords(nodes, {**loaded.times, **self.records.times})
        self._is_polled = False
        # Nodes whose boots were measured have gone through cycles, before these were watched.
        watch = read_watch(self._ledger.remembered(WATCH_KEY)) or CycleWatch(is_proven=False, is_first=not loaded.times)
        self._memory = replace(self._memory, watch=watch)

    async def poll_first(self, scheduler_states: Mapping[str, SchedulerState]) -> None:
        """Poll all nodes once after they were loaded: nothing is decided by a state from before a restart."""
        if not self._is_polled:
            site = self._site()
            timeout_s = POLL_TIMEOUTS * site.transport.timeout_s
            polled = await poll_nodes(site.poller, self.records, clock=lambda: self.now, timeout_s=timeout_s)
            contexts = NodeContexts(site.machines, self._context())
            self.records = record_poll(self.records, polled, scheduler_states, self.now, contexts)
            self._save()
            self._is_polled = True

    async def read_holds(self) -> None:
        """Read which nodes admins hold; while the ledger does not answer, the last answer counts."""
        try:
            changes = -1
            while changes != self._hold_changes:
                # A hold that was set while the ledger was read may be missing in the result.
                changes = self._hold_changes
                holds = await asyncio.to_thread(self._ledger.holds, self._clock())
            self._holds = holds
        except OffpeakError as problem:
            self._problem_log.report("ledger", f"{problem}; {problem.hint}")
            return
        self._problem_log.report("ledger", None)
        for node, record in self.records.nodes.items():
            if record.hold != self._holds.get(node):
                self._apply(node, HoldChange(self._holds.get(node)))

    def set_hold(self, node: str, hold: Hold | None) -> None:
        """Put a hold that the ledger has, or None for its end, in force for the rules of the doors."""
        self._hold_changes += 1
        others = {name: other for name, other in self._holds.items() if name != node}
        self._holds = others if hold is None else {**others, node: hold}

    async def plan(self, snapshot: ClusterSnapshot, site: PowerSite) -> PowerPlan:
        """Decide, and record the decisions that are new."""
        self._received.clear()
        self._follow_clock(snapshot.now)
        before = self._memory.watch
        self._memory = replace(self._memory, watch=self._apply_requests(int(snapshot.now.unix_s)))
        snapshot = replace(snapshot, refused=self._changes.refused)
        plan = await asyncio.to_thread(plan_power, snapshot, site=site, memory=self._memory)
        self._memory, self.offers, self.budget, self.overdue = plan.memory, plan.offers, plan.budget, plan.overdue
        self.boot_ends_s = plan.boot_ends_s
        self._problem_log.report("capacity", "; ".join(f"{what}; {hint}" for what, hint in plan.problems) or None)
        self._report_cycle(before)
        decisions = [
            DecisionRecord(snapshot.now.unix_s, decision.node, decision.what, decision.reason)
            for decision in plan.decisions
        ]
        self._ledger.write_decisions(self.changed.of(decisions, {node.name for node in snapshot.view.nodes}))
        return plan

    def _apply_requests(self, now_s: int) -> CycleWatch:
        """Return the watch with what admins and the scheduler's program have requested since the last plan."""
        cycle, woken = self._requested_cycle, self._woken
        self._requested_cycle, self._woken = None, frozenset()
        watch = self._memory.watch if cycle is None else self._memory.watch.begin(*cycle, now_s)
        if watch.node in woken and watch.next_step in (CycleStep.POWERED_DOWN, CycleStep.WOKEN):
            for step in (CycleStep.POWERED_DOWN, CycleStep.WOKEN)[watch.next_step is CycleStep.WOKEN :]:
                watch = watch.reach(step, now_s)
        return watch

    def _report_cycle(self, before: CycleWatch) -> None:
        """Keep the watch in the ledger, and report what is to say about it."""
        watch, state = self._memory.watch, self.cycle_text
        self._problem_log.report("cycle", f"{state.text}; {state.hint}" if state.is_problem else None)
        if watch == before:
            return
        self._ledger.remember(WATCH_KEY, json.dumps(watch_to_json(watch)))
        if state.text and not state.is_problem and state.text != describe_cycle(before).text:
            LOG.info("cycle: %s", state.text)

    @property
    def watch(self) -> CycleWatch:
        """The watch over whole cycles of nodes."""
        return self._memory.watch

    @property
    def cycle_text(self) -> CycleText:
        """What is to say about it."""
        return describe_cycle(self._memory.watch)

    @property
    def cycle_notes(self) -> tuple[str, ...]:
        """A text for the cycle that is under way, or that the next sleeper goes through."""
        watch, state = self._memory.watch, self.cycle_text
        is_open = watch.next_step is not None or not watch.is_proven
        return (state.text,) if state.text and is_open and not state.is_problem else ()

    def begin_cycle(self, node: str, by: str) -> None:
        """Let a node go through a whole cycle from the next plan on."""
        self._requested_cycle = node, by

    def note_woken(self, nodes: Sequence[str]) -> None:
        """Note that the scheduler's program has requested these nodes."""
        self._woken |= set(nodes)

    def report_left(self, plan: PowerPlan, contract: Contract) -> None:
        """Report the nodes that are on and lost for jobs, with what to type."""
        by_state: dict[str, list[str]] = {}
        for node, (state, _) in plan.left.items():
            by_state.setdefault(state, []).append(node)
        texts = []
        for state, nodes in by_state.items():
            for_s, names = max(plan.left[node][1] for node in nodes), fold(nodes)
            what = f"{names}: on, and {state} in the scheduler for {duration_text(for_s)}"
            texts.append(f"{what}; {contract.remedy(state, names)}")
        self._problem_log.report("lost for jobs", "; ".join(texts) or None)
        self.left = {
            node: f"{state} in the scheduler for {duration_text(for_s)}: {contract.remedy(state, node)}"
            for node, (state, for_s) in plan.left.items()
        }

    async def carry_out(self, plan: PowerPlan, orders: SiteOrders) -> bool:
        """Take each node its next step, and poll the nodes; return whether a change is under way.

        A node of which an event was received after the plan was begun waits for the next plan, which informs the
        scheduler first.
        """
        received = {node for node, _ in self._received}
        for node, desired in plan.desired_states.items():
            if node not in received:
                self._apply(node, DesiredStateChange(desired))
        for node in plan.opened - received:
            self._apply(node, Opened())
        updates = [update for update in plan.changes if update.node not in received]
        self.made = await self._changes.request(updates, orders.scheduler)
        await self._sweep(orders, plan.scheduler_states)
        return bool(self.made) or any(record.attempts.pending is not None for record in self.records.nodes.values())

    async def sweep(self, orders: SiteOrders, scheduler_states: Mapping[str, SchedulerState]) -> None:
        """Poll all nodes and give the orders that are due; there are no scheduler states while it is silent."""
        self._received.clear()
        await self._sweep(orders, scheduler_states)

    async def _sweep(self, orders: SiteOrders, scheduler_states: Mapping[str, SchedulerState]) -> None:
        site = self._site()
        context = SweepContext(
            site.poller,
            orders.nodes.order,
            self._context(),
            lambda: self.now,
            POLL_TIMEOUTS * site.transport.timeout_s,
            self._publish,
        )
        orders.nodes.door.history.begin_sweep()
        received = {node for node, event in self._received if isinstance(event, DesiredStateChange)}
        free = {node: replace(self.records.nodes[node], desired=None) for node in received & self.records.nodes.keys()}
        self._publish(
            await sweep(context, NodeRecords({**self.records.nodes, **free}, self.records.times), scheduler_states)
        )
        self._is_polled = True
        self._save()

    def receive(self, node: str, event: Event) -> None:
        """Apply an event that was reported of a node, at any time, also in the middle of a round."""
        self._received.append((node, event))
        self._apply(node, event)
        self._save()

    def context_of(self, node: str) -> NodeContext:
        """Return the hardware and the retry policy of a node that may be switched."""
        return NodeContexts(self._site().machines, self._context()).of(node, self.records.times)

    def forget_refusals(self) -> None:
        """Request all changes again that the door has refused, because the door was reopened."""
        self._changes = NodeChanges(self._steady)

    def _follow_clock(self, now: Instant) -> None:
        """Let waits go on as if the clock had not been set; in the time that it left out no state is known."""
        stepped_s, self._planned = now.stepped_s(self._planned or now), now
        if not stepped_s:
            return
        nodes = {name: shift_node_memory(node, stepped_s) for name, node in self._memory.nodes.items()}
        self._memory = replace(self._memory, nodes=nodes, watch=self._memory.watch.shifted(stepped_s))
        before, records = replace(now, unix_s=now.unix_s - max(stepped_s, 0)), self.records.nodes.values()
        gaps = [replace(make_state_row(each, before), observed=str(NodeState.UNKNOWN)) for each in records]
        self._ledger.write_states([*(gaps if stepped_s > 0 else ()), *(make_state_row(each, now) for each in records)])

    def _save(self) -> None:
        """Write the records that have changed since they were last written."""
        before, self._saved = self._saved, self.records
        changed = [
            record
            for node, record in self.records.nodes.items()
            if ledger_fields(record) != ledger_fields(before.nodes.get(node))
        ]
        self._ledger.write_states([make_state_row(record, self.now) for record in changed])
        save_node_records(self._ledger, before, self.records, monotonic_s=self._steady())

    def _apply(self, node: str, event: Event) -> None:
        if node in self.records.nodes:
            record = apply_event(self.records.nodes[node], event, self.now, self.context_of(node))
            self.records = NodeRecords({**self.records.nodes, node: record}, self.records.times)

    def _context(self) -> NodeContext:
        site = self._site()
        # Each node's own hardware takes the place of this one.
        any_hardware = next(iter(site.machines.values())).hardware
        return NodeContext(any_hardware, self._chance, retry=make_retry_policy(site.settings.agent))

    def _publish(self, records: NodeRecords) -> None:
        self.records = records
        for node, event in self._received:
            self._apply(node, event)

    def _read_state(self, node: str) -> StateReading | None:
        record = self.records.nodes.get(node)
        return None if record is None else StateReading(record.observed.state, record.observed.at_unix_s)


INDEPENDENT_ROUND_PAUSES = 1.25
"""Rounds of the queue begin those of nodes, which then need no reading of their own; alone they begin later."""
ON_THEIR_WAY_S = 5.0
"""The period while nodes are on their way up or down."""
OPENED_S = 1.0
"""The period while jobs wait for a scheduling cycle on nodes that have just been opened."""
GO_DOWN = frozenset({PowerState.OFF_REQUESTED, PowerState.POWERING_OFF})
LATE_S = 60.0
"""If the last round ended longer ago than two cycles and this, the agent promises no wakes."""
POWER_SAVING_IS_OFF = "the scheduler's power saving is off"
NO_WAKES_S = 600.0
"""After this time without a successful round, the agent publishes that it wakes no nodes."""


@dataclass
class PowerLoop(Loop):
    """Takes each node that may be switched a step further, once a cycle, more often while nodes are on their way.

    `doors` opens the doors to nodes and scheduler, `cycles` starts those of the scheduler. `decided` gives the jobs
    that the queue loop has decided about, `surroundings` the caps on power and the draw of measured nodes.
    `wake_problem` says why the last round could wake no node, "" if it could; `could_wake_s` is the last time that one
    could, on the clock of `steady`.
    """

    site: Callable[[], SiteContext]
    observer: Observer
    accounts: JobAccounts
    doors: Callable[[], Awaitable[SiteOrders]]
    controller: PowerController
    cycles: CycleStarter
    decided: Callable[[], frozenset[str]]
    surroundings: Callable[[], Awaitable[Surroundings]]
    steady: Callable[[], float]

    name = "power"

    def __post_init__(self) -> None:
        """Begin without a round."""
        self.wake_problem, self.could_wake_s = "no round of nodes has ended yet", self.steady()
        self._on_their_way, self._opens, self._took_s = False, False, 0.0

    @property
    def period_s(self) -> float:
        """The cycle of the agent, or a shorter time while nodes are on their way; a busy scheduler stretches both."""
        cycle_s, pace = self.site().settings.agent.cycle_s, self.observer.pace
        if not self._on_their_way:
            return INDEPENDENT_ROUND_PAUSES * pace.period_s(cycle_s)
        way_s = min(cycle_s, OPENED_S if self._opens else ON_THEIR_WAY_S)
        return pace.urgent_s(way_s) if self.controller.is_urgent else pace.period_s(way_s)

    @property
    def is_late(self) -> bool:
        """Whether the last successful round is too long ago for a promise to wake nodes."""
        cycle_s = self.observer.pace.period_s(self.site().settings.agent.cycle_s)
        return self.steady() - self.could_wake_s > 2 * cycle_s + LATE_S

    @property
    def wakes_nodes(self) -> bool:
        """Whether the agent can wake nodes, or could a short time ago."""
        cycle_s = self.site().settings.agent.cycle_s
        stretch_s = self.observer.pace.period_s(cycle_s) - cycle_s
        return self.steady() - self.could_wake_s <= NO_WAKES_S + stretch_s

    async def round(self) -> None:
        """Take each node a step further once."""
        begun_s = time.monotonic()
        try:
            self.wake_problem = await self._round()
        except BaseException as problem:
            self.wake_problem = f"the last round of nodes failed: {type(problem).__name__}: {problem}"
            raise
        finally:
            self._took_s = time.monotonic() - begun_s
        if not self.wake_problem:
            self.could_wake_s = self.steady()

    async def _round(self) -> str:
        """Return why no node could be woken for the scheduler, "" if it could."""
        if not self.site().machines:
            return "no node may be switched"
        orders, controller = await self.doors(), self.controller
        await controller.read_holds()
        decided, around = self.decided(), await self.surroundings()
        observed = await self.observer.observe(at_most_s=SAME_READING_PAUSES * self.period_s)
        if observed is None:
            # Pending orders are followed; without the states of the scheduler no node gets a new desired state.
            await controller.sweep(orders, {})
            return "the scheduler cannot be read"
        # A job that starts now keeps its nodes.
        starts = await self.cycles.follow(observed, orders.scheduler)
        site, view, curve = self.site(), observed.view, observed.prices
        await controller.poll_first(scheduler_states(view.nodes))
        power_site = PowerSite(
            site.inventory,
            site.settings.agent,
            site.settings.capacity,
            site.class_of,
            observed.traits.shared_nodes,
            site.awake_partitions,
            start_patience_s(observed.traits.cycle_s),
            observed.traits.power_terms if Mode.ACTIVE in site.modes.in_use else None,
            "" if observed.traits.power_saving else POWER_SAVING_IS_OFF,
        )
        at_s, per_mwh = (curve.series.start_s, curve.series.value) if curve else (np.empty(0, np.int64), np.empty(0))
        flexibility = site.flexibility
        run_s, took_s = await self.accounts.run_s(view), self._took_s * site.clock.factor
        undecided = find_undecided_jobs(view, decided, flexibility, is_capped=bool(around.caps))
        draws = await self.accounts.draws(view) if around.caps else {}
        view = without_jobs(view, undecided)
        snapshot = ClusterSnapshot(
            now=controller.now,
            view=view,
            records=controller.records,
            run_s=run_s,
            price_at_s=at_s,
            price_per_mwh=per_mwh,
            cycle_took_s=took_s,
            caps=around.caps,
            measured_w=around.measured_w,
            capped_w=around.capped_w,
            kept_awake=observed.kept_awake,
            job_w={job: draw.node_w for job, draw in draws.items()},
            undelayable=frozenset(
                job.job_id
                for job in view.jobs
                if around.caps
                and (flexibility.of(job).now or not any(cap.holds(view.at_s - job.submit_s) for cap in around.caps))
            ),
        )
        plan = await controller.plan(snapshot, power_site)
        controller.report_left(plan, observed.traits.contract)
        # Slurm 22.05 opens a node that it powers down, until the agent withdraws it again.
        opens = any(node.power in GO_DOWN for node in view.nodes if node.name in plan.withdrawn)
        self._on_their_way = await controller.carry_out(plan, orders) or opens or starts
        self._opens = observed.traits.needs_cycles and NodeChange.OPEN in controller.made
        if self._on_their_way:
            self.observer.forget()
        return power_site.unable
