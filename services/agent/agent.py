"""The agent: puts its loops together, with what is observed, what is decided from it, and the doors for the effects."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np

from offpeak.door.effect import Effect, Mode, Refusal, refused_by_mode
from offpeak.errors import BadInput, CannotWrite, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.machines.node_sets import fold
from offpeak.model.constants import HOUR_S
from offpeak.model.orders import NodeOrder
from plugin.queue_hook.facts import PLAN, QueueFacts
from plugin.scheduler.node import scheduler_states
from plugin.scheduler.port import SchedulerView
from power.door.node_orders import reconcile
from power.door.scheduler_orders import SchedulerOrders
from power.interlocks.preconditions import HELD, UNKNOWN, StateReading
from power.lifecycle.node_record import DesiredState, DesiredStateChange, Release
from power.live.cluster_snapshot import ClusterSnapshot, PowerSite
from power.live.node_demand import find_undecided_jobs, without_jobs
from services.agent.accounting_loops import JobAccounts, MeterLoop, SavingsLoop, meter_period_s, savings_period_s
from services.agent.feed_loops import OUTSIDE_EVERY_S, PRICES_EVERY_S, OutsideLoop, PriceLoop
from services.agent.loop import LOG, Loop, ProblemLog
from services.agent.observer import Observer
from services.agent.plan_loop import PlanLoop
from services.agent.power_loop import PowerLoop
from services.agent.queue_loop import QueueLoop, queue_facts, queue_rules
from services.agent.requests import NodeRequest, parse_order
from services.agent.site_context import PartitionModes, SiteContext, SiteOrders, open_doors, open_scheduler_door
from services.agent.wake_reply import WakeOutlook, WakeReply, make_wake_reply

SAME_MOMENT_S = 1.0
"""Loops that ask within so long get the same answer of the scheduler."""
ON_THEIR_WAY_S = 5.0
"""While nodes are on their way the next look follows so soon."""
LATE_S = 60.0
"""A round of nodes that ended longer ago than two cycles and this promises nothing of the next one."""
NO_WAKES_S = 600.0
"""After so long without a round that could wake nodes, the agent says that it wakes none."""
PRUNE_EVERY_S = 6 * HOUR_S
LOG_OUT_S = 5.0
SLOW_S = 3.0
"""Real seconds between two rounds of what takes long, where the clock runs faster."""


class SiteAgent:
    """A site's agent: `rounds` are what it does. `parts` may be exchanged between them.

    `next_modes` are those of settings that were read and whose parts still wait for the rounds under way.
    """

    def __init__(
        self, parts: SiteContext, ledger: Ledger, problem_log: ProblemLog, clock: Callable[[], float] | None = None
    ) -> None:
        clock, steady = clock or parts.clock.unix_s, parts.clock.steady_s
        self.parts, self.ledger, self.problem_log, self._clock = parts, ledger, problem_log, clock
        self.observer = Observer(parts.scheduler, problem_log, steady)
        self.prices = PriceLoop(ledger, problem_log, clock)
        self.accounts = JobAccounts(parts, ledger, problem_log)
        self.queue = QueueLoop(ledger, problem_log)
        self.outside = OutsideLoop(problem_log, clock)
        self.plan = PlanLoop(ledger, problem_log, self.outside)
        self.power = PowerLoop(ledger, problem_log, clock, steady)
        self.meters = MeterLoop(ledger, clock, steady)
        self.savings = SavingsLoop(ledger, clock)
        self.facts: QueueFacts | None = None
        self._decided: frozenset[str] = frozenset()
        self._orders: SiteOrders | None = None
        self.next_modes: PartitionModes | None = None
        self._taking_up, self._on_their_way = asyncio.Lock(), False
        self._steady, self._could_wake_s = steady, steady()
        self._wake_trouble = "no round of nodes has ended yet"
        self._power_rounds = self._rounds("power", self.power_round, self._power_every_s)
        self._queue_rounds = self._rounds("queue", self.queue_round, lambda: self.parts.settings.agent.cycle_s)
        self.rounds = (
            self._rounds(
                "prices", lambda: self.prices.round(self.parts), lambda: PRICES_EVERY_S, least_s=SLOW_S, fetches=True
            ),
            self._rounds("outside", self._outside_round, lambda: OUTSIDE_EVERY_S, least_s=SLOW_S, fetches=True),
            self._queue_rounds,
            self._power_rounds,
            self._rounds("meters", lambda: self.meters.round(self.parts), lambda: meter_period_s(self.parts)),
            self._rounds(
                "savings", lambda: self.savings.round(self.parts), lambda: savings_period_s(self.parts), least_s=SLOW_S
            ),
            self._rounds("ledger's age", self._prune, lambda: PRUNE_EVERY_S),
        )

    async def queue_round(self) -> None:
        """Put the queue in order, and book the jobs that have ended."""
        view = await self.observer.view(at_most_s=SAME_MOMENT_S)
        traits = self.observer.traits
        if view is None or traits is None:
            return
        orders = await self.orders()
        draws = await self.accounts.draws(view, self.parts)
        self.facts = queue_facts(
            view,
            traits.ranking,
            self.prices.curve,
            draws=draws,
            run_s=await self.accounts.run_s(view),
            marks=await self.queue.marks(),
            told=self.queue.told,
        )
        if self.parts.settings.agent.queue == PLAN:
            self.facts = await self.plan.with_plan(self.facts, view, traits, self.parts)
        await self.queue.round(self.facts, queue_rules(self.parts), orders.scheduler, self.modes)
        self._has_decided(view)
        await self.accounts.book(view, self.parts)

    async def power_round(self) -> None:
        """Bring each node that may be switched a step further."""
        try:
            self._wake_trouble = await self._power_round()
        except BaseException as problem:
            self._wake_trouble = f"the last round of nodes failed: {type(problem).__name__}: {problem}"
            raise
        if not self._wake_trouble:
            self._could_wake_s = self._steady()

    async def _power_round(self) -> str:
        """Return why no node could be woken for the scheduler, "" if it could."""
        if not self.parts.machines:
            return "no node may be switched"
        orders = await self.orders()
        await self.power.read_holds(self.parts)
        decided = self._decided
        view = await self.observer.view(at_most_s=SAME_MOMENT_S)
        traits = self.observer.traits
        if view is None or traits is None or not traits.power_saving:
            # What is under way is followed; without the scheduler's word nothing more is wanted.
            await self.power.look(self.parts, orders, {})
            return "the scheduler cannot be read" if view is None else "the scheduler's power saving is off"
        settings, parts = self.parts.settings, self.parts
        await self.power.look_first(parts, scheduler_states(view.nodes))
        site = PowerSite(parts.inventory, settings.agent, settings.capacity, parts.class_of, traits.shared_nodes)
        curve = self.prices.curve
        at_s, per_mwh = (curve.series.start_s, curve.series.value) if curve else (np.empty(0, np.int64), np.empty(0))
        run_s, took_s = await self.accounts.run_s(view), self._power_rounds.took_s * parts.clock.factor
        view = without_jobs(view, find_undecided_jobs(view, decided, parts.zone))
        sight = ClusterSnapshot(
            now=self.power.now,
            view=view,
            records=self.power.lives,
            run_s=run_s,
            price_at_s=at_s,
            price_per_mwh=per_mwh,
            cycle_took_s=took_s,
        )
        plan = await self.power.plan(sight, site)
        self._on_their_way = await self.power.carry_out(plan, parts, orders)
        if self._on_their_way:
            self.observer.forget()
        return ""

    async def orders(self) -> SiteOrders:
        """Return the ways through the doors, which know what was ordered before; CannotWrite or BadLedger if not.

        AlreadyRunning where another agent has taken the ledger: then nothing is done.
        """
        try:
            await asyncio.to_thread(self.ledger.confirm_claim)
        except CannotWrite:
            # Without its record nothing is switched off, and nodes are woken all the same.
            if self._orders is None:
                raise
        async with self._taking_up:
            if self._orders is None:
                parts = self.parts
                await reconcile(self.ledger, self._look_at, self._clock)
                await asyncio.to_thread(self.power.take_up, parts)
                await asyncio.to_thread(self.accounts.take_up)
                self._orders = await asyncio.to_thread(
                    open_doors, parts, self.ledger, self.observer, self.power.known, lambda: self.modes
                )
                self.power.ask_anew()
            return self._orders

    def _has_decided(self, view: SchedulerView) -> None:
        """Have the power loop look anew, at once, where it has waited for what becomes of new jobs."""
        if find_undecided_jobs(view, self._decided, self.parts.zone):
            self.observer.forget()
            self._power_rounds.hurry()
        self._decided = frozenset(job.job_id for job in view.jobs)

    def hear(self, told: NodeRequest) -> WakeReply | None:
        """Take in what is told of nodes, and look at once what the scheduler says; BadInput for an order to others.

        Returns what is promised of nodes that the scheduler wants up.
        """
        LOG.info("told of %s: %s", ",".join(told.nodes), told.what)
        if told.what == "order":
            self._order(told)
        if told.what == "release":
            for node in told.nodes:
                self.power.hear(node, Release(), self.parts)
        reply = make_wake_reply(told.nodes, self._wake_outlook(), told.asked_unix_s) if told.what == "resume" else None
        self.observer.forget()
        self._power_rounds.hurry()
        return reply

    @property
    def orders_in_use(self) -> SiteOrders | None:
        """The ways through the doors, None before they were first needed."""
        return self._orders

    def look_soon(self) -> None:
        """Begin the next round of nodes at once."""
        self.observer.forget()
        self._power_rounds.hurry()

    @property
    def now_unix_s(self) -> float:
        """What its clock shows."""
        return self._clock()

    @property
    def first_round_until_unix_s(self) -> float | None:
        """When the first round of the queue, if it is under way, counts as one that hangs; None once it has ended."""
        if self._queue_rounds.count:
            return None
        left_s = self._queue_rounds.stuck_s - time.monotonic()
        return self.now_unix_s + left_s * self.parts.clock.factor

    def wakes(self) -> tuple[str, ...]:
        """Return the nodes that the agent wakes by itself when jobs need them; none while it cannot for long."""
        if self._steady() - self._could_wake_s > NO_WAKES_S:
            return ()
        modes, partitions_of = self.modes, self.observer.partitions_of_node
        return tuple(node for node in self.parts.machines if modes.of(partitions_of(node)) is Mode.ACTIVE)

    def _wake_outlook(self) -> WakeOutlook:
        parts, view, orders = self.parts, self.observer.latest, self._orders
        late = self._steady() - self._could_wake_s > 2 * parts.settings.agent.cycle_s + LATE_S
        trouble = "the last round of nodes was too long ago" if late else ""
        if orders is None:
            trouble = "the ledger has not answered since the start, or since the settings were read"
        return WakeOutlook(
            trouble=self._wake_trouble or trouble,
            now=self.power.now,
            machines=parts.machines,
            lives=self.power.lives.nodes,
            nodes={node.name: node for node in view.nodes} if view else {},
            view_unix_s=float(view.at_s) if view else 0.0,
            terms_of=lambda node: self.power.terms_of(node, parts),
            foresee=orders.nodes.door.foresee if orders else lambda _: None,
        )

    @property
    def modes(self) -> PartitionModes:
        """The modes in force: settings that were just read close a door at once, and open none before their parts."""
        return self.parts.modes if self.next_modes is None else self.parts.modes.narrowed(self.next_modes)

    def undoing(self, modes: PartitionModes) -> SchedulerOrders:
        """Return the way to undo what was done in these modes, whatever modes hold by now."""
        return open_scheduler_door(self.parts, self.ledger, self.observer, self.power.known, lambda: modes)

    @asynccontextmanager
    async def between_rounds(self) -> AsyncIterator[None]:
        """Wait for the rounds under way, and let none begin until the block ends. What only fetches is broken off."""
        async with AsyncExitStack() as still:
            for rounds in self.rounds:
                if rounds.fetches:
                    rounds.break_off()
                await still.enter_async_context(rounds.turn)
            yield

    async def exchange(self, parts: SiteContext) -> None:
        """Work with other parts from now on; whoever calls it is between rounds."""
        await self.meters.close()
        await asyncio.to_thread(self.accounts.close)
        old, self.parts, self._orders = self.parts, parts, None
        self._wake_trouble = "the settings were just read again"
        if self.next_modes is parts.modes:
            self.next_modes = None
        self.observer = Observer(parts.scheduler, self.problem_log, parts.clock.steady_s)
        self.accounts = JobAccounts(parts, self.ledger, self.problem_log)
        await old.close()
        for rounds in self.rounds:
            rounds.hurry()

    async def close(self) -> int:
        """Keep what is worth it and log out; returns how many rows did not reach the ledger."""
        try:
            async with asyncio.timeout(LOG_OUT_S):
                await self.meters.close()
                await self.parts.close()
        except TimeoutError:
            LOG.warning("not logged out of all devices within %g s", LOG_OUT_S)
        await asyncio.to_thread(self.accounts.close)
        return await asyncio.to_thread(self.ledger.close)

    def _order(self, told: NodeRequest) -> None:
        order, by, reason = parse_order(told.text)
        for node in told.nodes:
            self._can_be_ordered(node)
        unrecorded = None if order is NodeOrder.ON else self.ledger.trouble()
        if unrecorded is not None and unrecorded.said:
            # The door would refuse it in the next round, when nobody waits for the answer any more.
            said = f"{fold(told.nodes)}: nothing is switched off that cannot be recorded: {unrecorded.said}"
            raise OffpeakError(said, hint=unrecorded.hint)
        for node in told.nodes:
            effect = Effect(node, order, by, reason)
            if refusal := self._lasting_refusal(effect):
                self.ledger.write_refusal(effect, refusal, self._clock())
                raise OffpeakError(f"{refusal.said} (rule {refusal.rule})", hint=refusal.hint)
        for node in told.nodes:
            self.power.hear(node, DesiredStateChange(DesiredState(order, by, self._clock(), reason)), self.parts)

    def _lasting_refusal(self, effect: Effect) -> Refusal | None:
        """Return the refusal of an admin's order that no later round would change: by the mode, or by a hold."""
        # Until the scheduler has been read, the partitions of a node and with them their own modes are not known.
        if self.observer.latest or not self.modes.own:
            mode = self.modes.of(self.observer.partitions_of_node(effect.subject))
            if refusal := refused_by_mode(mode, effect, put_to_sleep=False):
                return refusal
        refusal = self._orders.nodes.door.foresee(effect) if self._orders else None
        return refusal if refusal and refusal.rule == HELD else None

    def _can_be_ordered(self, node: str) -> None:
        if node not in self.parts.machines:
            raise BadInput(f"{node}: is not ours to touch", hint="add it to nodes below [agent]")
        if node not in self.power.lives.nodes:
            hint = "it has just started, or has just heard of the node: try again in a minute"
            raise OffpeakError(f"{node}: the agent has not looked at it yet", hint=hint)

    def _rounds(
        self,
        name: str,
        round_: Callable[[], Awaitable[None]],
        every_s: Callable[[], float],
        *,
        least_s: float = 0.0,
        fetches: bool = False,
    ) -> Loop:
        def real_s() -> float:
            return max(least_s, every_s() / self.parts.clock.factor)

        return Loop(name, round_, real_s, self.problem_log, fetches=fetches)

    def _power_every_s(self) -> float:
        cycle_s = self.parts.settings.agent.cycle_s
        return min(cycle_s, ON_THEIR_WAY_S) if self._on_their_way else cycle_s

    async def _look_at(self, node: str) -> StateReading:
        if node not in self.parts.by_name:
            return StateReading(UNKNOWN, self._clock())
        try:
            observed = await self.parts.ways.bmc_of(node).query()
        except OffpeakError:
            return StateReading(UNKNOWN, self._clock())
        return StateReading(str(observed.state), observed.at_unix_s)

    async def _outside_round(self) -> None:
        if self.parts.settings.agent.queue == PLAN:
            await self.outside.round(self.parts)

    async def _prune(self) -> None:
        await asyncio.to_thread(self.ledger.prune, self._clock())
