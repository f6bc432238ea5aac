"""The agent: its loops, the doors for their effects, and the exchange of its site when the settings are read again.

`admin_requests` carries out the requests of admins and of the scheduler.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from offpeak.door.effect import AGENT, Mode
from offpeak.errors import CannotWrite, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.model.constants import HOUR_S
from offpeak.model.orders import NodeState
from offpeak.plugin.contract.rules import ManagedSite
from offpeak.plugin.queue_hook.facts import PLAN
from offpeak.power.door.cap_orders import CapOrderer, CapOrders, CapRecords
from offpeak.power.door.node_orders import reconcile
from offpeak.power.door.scheduler_orders import SchedulerOrders
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters.remote_write import RemoteWriter
from offpeak.services.accounts.account_of_savings import ORDER, SLEEP
from offpeak.services.agent.accounting_loops import (
    JobAccounts,
    MeterLoop,
    MeterSection,
    SavingsLoop,
    SealLoop,
)
from offpeak.services.agent.cap_loop import CapController, outcome_text
from offpeak.services.agent.checkpoints import CheckpointController
from offpeak.services.agent.cycles import CycleStarter
from offpeak.services.agent.demand_response import (
    FILE_EVERY_S,
    SERVER_EVERY_S,
    CapSection,
    OrderedCaps,
    PeakLoop,
    ReportLoop,
    Surroundings,
)
from offpeak.services.agent.grid_event import EventSection, GridEventLoop
from offpeak.services.agent.lever_loop import LeverLoop, lever_section
from offpeak.services.agent.loop import LOG, CallLoop, Loop, LoopRunner, ProblemLog
from offpeak.services.agent.node_memory import make_managed_site
from offpeak.services.agent.observer import SLOW_S, Observer, PriceLoop, WeatherLoop
from offpeak.services.agent.power_loop import PowerController, PowerLoop
from offpeak.services.agent.queue_loop import QueueController, QueueLoop, QueuePlanner
from offpeak.services.agent.site_context import (
    PartitionModes,
    SiteContext,
    SiteOrders,
    open_cap_orders,
    open_doors,
    open_site_scheduler_door,
)
from offpeak.services.agent.trial_loop import TrialLoop
from offpeak.services.agent.wait_forecast import WaitForecast, WaitHistory
from offpeak.settings.replay import FeedSettings

LOG_OUT_S = 5.0
LIFT_S = 20.0


class SiteAgent:
    """The agent of a site. `loops` do its work; each gets the site, or takes what it needs of it.

    `site` may be exchanged between the rounds of the loops. `next_modes` are the modes of settings that were read and
    are not in force yet, because rounds are under way.
    """

    def __init__(
        self, site: SiteContext, ledger: Ledger, problem_log: ProblemLog, clock: Callable[[], float] | None = None
    ) -> None:
        clock, steady = clock or site.clock.unix_s, site.clock.steady_s
        self.site, self.ledger, self.problem_log, self._clock = site, ledger, problem_log, clock
        self.next_modes: PartitionModes | None = None
        self.open_orders: SiteOrders | None = None
        self._cap_orders: CapOrders | None = None
        self._opening = asyncio.Lock()
        self.prices = PriceLoop(lambda: self.site.price_section, ledger, problem_log, clock)
        self.weather = WeatherLoop(self._feeds_in_use, problem_log, clock)
        self.caps = OrderedCaps(lambda: CapSection.of(self.site, ledger), problem_log, clock, self._follow_caps)
        self.peaks = PeakLoop(lambda: (self.site.settings, self.site.zone), problem_log, clock)
        self.observer = Observer(
            site.scheduler, problem_log, steady, prices=lambda: self.prices.curve, managed=self._managed_site
        )
        self.accounts = JobAccounts(site, ledger, problem_log)
        self.planner = QueuePlanner(ledger, problem_log, self._surroundings)
        self.queue = QueueController(ledger, problem_log)
        self.checkpoints = CheckpointController(self.queue, ledger, problem_log, self.observer, lambda: self.modes)
        self.power = PowerController(lambda: self.site_in_force, ledger, problem_log, clock, steady)
        self.node_caps = CapController(lambda: self.site, CapRecords(ledger), self.cap_orders, problem_log, clock)
        self.grid_event = GridEventLoop(
            section=lambda: EventSection.of(self.site, lambda: self.meters.node_watts),
            caps=self.caps,
            budget=lambda: self.power.budget,
            node_caps=self.node_caps,
            checkpoints=self.checkpoints,
            observer=self.observer,
            ledger=ledger,
            problem_log=problem_log,
            clock=clock,
            decide_soon=self._follow_caps,
        )
        self.waits = WaitForecast()
        self.wait_history = WaitHistory(self.waits, ledger)
        cycles = CycleStarter()
        self.queue_loop = QueueLoop(
            site=lambda: self.site_in_force,
            observer=self.observer,
            accounts=self.accounts,
            doors=lambda: self.orders(),
            controller=self.queue,
            planner=self.planner,
            cycles=cycles,
            on_decided=self._follow_queue,
            waits=self.wait_history,
            clock=clock,
            run_checkpoints=self.checkpoints.run_cycle,
        )
        self.power_loop = PowerLoop(
            site=lambda: self.site_in_force,
            observer=self.observer,
            accounts=self.accounts,
            doors=lambda: self.orders(),
            controller=self.power,
            cycles=cycles,
            decided=lambda: self.queue_loop.decided,
            surroundings=self._surroundings,
            steady=steady,
        )
        self.remote = RemoteWriter(ledger.settings.remote_write or "", ledger.settings.remote_token_file)
        self.meters = MeterLoop(
            lambda: MeterSection.of(self.site, self.power.state_of, self.remote), ledger, problem_log, clock, steady
        )
        self.savings = SavingsLoop(lambda: self.site, ledger, clock)
        self.levers = LeverLoop(
            lambda: lever_section(self.site, self.modes), self.observer, self.accounts, ledger, clock
        )
        self.trial = TrialLoop(
            lambda: self.site,
            lambda: self.modes,
            self.observer,
            lambda: self._is_capped,
            ledger,
            problem_log,
            clock,
            steady,
        )
        self.loops: tuple[Loop, ...] = (
            self.prices,
            CallLoop("events file", self.caps.read_file, period_s=FILE_EVERY_S, least_pause_s=1.0),
            CallLoop("OpenADR events", self.caps.query_server, period_s=SERVER_EVERY_S, least_pause_s=SLOW_S),
            ReportLoop(self.caps, ledger, problem_log, clock, lambda: self.modes.usual is Mode.ACTIVE),
            self.weather,
            self.queue_loop,
            self.power_loop,
            self.meters,
            self.savings,
            self.levers,
            self.trial,
            self.node_caps,
            self.peaks,
            self.grid_event,
            CallLoop("remote write", self.remote.push, period_s=FILE_EVERY_S, least_pause_s=1.0),
            CallLoop("ledger's age", lambda: asyncio.to_thread(ledger.prune, clock()), period_s=6.0 * HOUR_S),
            SealLoop(
                ledger,
                lambda: (self.site.settings, self.site.zone),
                lambda: Instant(steady(), clock()),
                lambda: self.accounts.booked_unix_s,
            ),
        )
        self.runners = tuple(LoopRunner(loop, problem_log, site.clock) for loop in self.loops)

    async def orders(self) -> SiteOrders:
        """Return the doors to nodes and scheduler, opened once for the present settings. Raises CannotWrite or
        BadLedger.

        Raises AlreadyRunning if another agent has taken the ledger: then nothing is done.
        """
        try:
            await asyncio.to_thread(self.ledger.confirm_claim)
        except CannotWrite:
            # Without a record no node is switched off, but nodes are still woken.
            if self.open_orders is None:
                raise
        async with self._opening:
            if self.open_orders is None:
                await reconcile(self.ledger, self._read_state, self._clock)
                await asyncio.to_thread(self.power.load)
                await asyncio.to_thread(self.accounts.load)
                await asyncio.to_thread(self.wait_history.load)
                await asyncio.to_thread(self.trial.load)
                self.open_orders = await asyncio.to_thread(
                    open_doors, self.site, self.ledger, self.observer, self.power.known, lambda: self.modes
                )
                self.power.forget_refusals()
            return self.open_orders

    async def cap_orders(self) -> CapOrders:
        """Return the door to power limits of nodes, opened once for the present settings; errors as for `orders`."""
        await self.orders()
        async with self._opening:
            if self._cap_orders is None:
                records = self.node_caps.records
                await asyncio.to_thread(records.load)
                self._cap_orders = open_cap_orders(
                    self.site, self.ledger, self.observer, self.power.known, lambda: self.modes, records
                )
            return self._cap_orders

    async def lift_caps(self, nodes: Collection[str], why: str) -> None:
        """End the caps of these nodes as far as their devices answer; the next start ends the others."""
        if not nodes:
            return
        try:
            async with asyncio.timeout(LIFT_S):
                outcomes = await (await self.cap_orders()).uncap(nodes, CapOrderer(AGENT, why))
        except (OffpeakError, TimeoutError) as problem:
            LOG.warning("not all caps are removed: %s; the next start of the agent removes them", problem)
            return
        for node, outcome in outcomes.items():
            if text := outcome_text(outcome):
                LOG.warning("%s: its cap is not removed: %s; the next start of the agent removes it", node, text)

    def _follow_queue(self) -> None:
        """Decide about nodes by the same view, or by a new one unless that would read a busy scheduler once more."""
        if self.observer.has_view or self.observer.pace.pause_s <= self.site.settings.agent.cycle_s:
            self._runner(self.power_loop).trigger()

    def look_soon(self) -> None:
        """Begin the next round of nodes at once."""
        self.observer.forget()
        self._runner(self.power_loop).trigger()

    @property
    def now_unix_s(self) -> float:
        """The time of its clock."""
        return self._clock()

    @property
    def first_round_until_unix_s(self) -> float | None:
        """When the first round of the queue counts as stuck; None once it has ended."""
        runner = self._runner(self.queue_loop)
        if runner.count:
            return None
        return self.now_unix_s + runner.left_s * self.site.clock.factor

    @property
    def last_round_unix_s(self) -> float | None:
        """When the latest round of the queue ended, also one that failed; None before the first one has."""
        runner = self._runner(self.queue_loop)
        if not runner.count:
            return None
        return self.now_unix_s - (time.monotonic() - runner.ended_s) * self.site.clock.factor

    @property
    def modes(self) -> PartitionModes:
        """The modes in force. Settings that were just read close a door at once, and open one only with their site."""
        return self.site.modes if self.next_modes is None else self.site.modes.narrowed(self.next_modes)

    def undoing(self, modes: PartitionModes) -> SchedulerOrders:
        """Return orders that undo changes made in these modes, independent of the current modes."""
        return open_site_scheduler_door(self.site, self.ledger, self.observer, self.power.known, lambda: modes)

    @asynccontextmanager
    async def between_rounds(self) -> AsyncIterator[None]:
        """Wait for the current rounds, cancel those that only fetch, and start none until the block ends."""
        async with AsyncExitStack() as still:
            for runner in self.runners:
                if runner.loop.fetches:
                    runner.break_off()
                await still.enter_async_context(runner.turn)
            yield

    async def exchange(self, site: SiteContext) -> None:
        """Work with another site from now on. The caller is between rounds."""
        await self.meters.close()
        await asyncio.to_thread(self.accounts.close)
        # What is reached in another way from now on cannot be given back later.
        known, capped = self.site.by_name, self.node_caps.records.by_node
        changed = [node for node in capped if site.by_name.get(node) != known.get(node)]
        await self.lift_caps(changed, "the inventory has changed")
        old, self.site, self.open_orders, self._cap_orders = self.site, site, None, None
        self.power_loop.wake_problem = "the settings were just read again"
        if self.next_modes is site.modes:
            self.next_modes = None
        self.observer.use(site.scheduler)
        self.accounts.use(site)
        await old.close()
        for runner in self.runners:
            runner.trigger()

    async def close(self) -> int:
        """Save what was learned and log out; return the number of rows that did not reach the ledger."""
        try:
            async with asyncio.timeout(LOG_OUT_S):
                await self.meters.close()
                await self.site.close()
                await self.remote.push()
        except CannotWrite as problem:
            LOG.warning("remote write: %s", problem)
        except TimeoutError:
            LOG.warning("not logged out of all devices within %g s", LOG_OUT_S)
        await asyncio.to_thread(self.accounts.close)
        self.wait_history.save()
        return await asyncio.to_thread(self.ledger.close)

    def _runner(self, loop: Loop) -> LoopRunner:
        return self.runners[self.loops.index(loop)]

    def _follow_caps(self) -> None:
        """Decide at once about jobs and nodes, because the caps on power have changed."""
        self._runner(self.queue_loop).trigger()
        self.look_soon()

    async def _surroundings(self) -> Surroundings:
        await self.caps.first_reading()
        caps = (*self.caps.ahead(), *self.peaks.caps())
        return Surroundings(caps, self.weather.weather, self.meters.node_watts, self.grid_event.capped_w)

    def _feeds_in_use(self) -> FeedSettings | None:
        return self.site.settings.feeds if self.site.settings.agent.queue == PLAN else None

    @property
    def site_in_force(self) -> SiteContext:
        """The site in the modes in force, with the levers off that a trial has off now."""
        is_capped = self._is_capped
        return replace(
            self.site,
            settings=self.trial.with_levers_off(self.site.settings, is_capped=is_capped),
            modes=self.modes,
            untouched=self.trial.find_partitions_off(ORDER, is_capped=is_capped),
            awake_partitions=self.trial.find_partitions_off(SLEEP, is_capped=is_capped),
        )

    @property
    def _is_capped(self) -> bool:
        return bool(self.caps.in_force(within_s=HOUR_S))

    def _managed_site(self) -> ManagedSite:
        return make_managed_site(self.site.settings.agent, self.site.machines.values(), self.power.records.times)

    async def _read_state(self, node: str) -> StateReading:
        if node not in self.site.by_name:
            return StateReading(NodeState.UNKNOWN, self._clock())
        try:
            observed = await self.site.drivers.bmc_of(node).query()
        except OffpeakError:
            return StateReading(NodeState.UNKNOWN, self._clock())
        return StateReading(NodeState(observed.state), observed.at_unix_s)
