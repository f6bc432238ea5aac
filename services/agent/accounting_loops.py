"""The loops that keep the accounts: readings of all meters, energy of jobs, and savings of sleeping nodes.

The meter loop reads every meter once a period into the ledger. The job accounts forecast power and run time, and book
jobs that have ended. The savings loop computes today's savings up to now, and those of each day once it is over.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from offpeak.errors import CannotWrite
from offpeak.ledger.energy_use import WAYS
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SavingRecord
from offpeak.model.time_range import TimeRange
from plugin.scheduler.port import SchedulerView
from power.lifecycle.node_record import Instant
from power.meters.port import Meter
from power.meters.registry import site_meters
from services.accounts.booking import AccountRound, Accounts, account_round, first_round
from services.accounts.job_draws import JobDraw, find_node_kinds, read_declared_draws
from services.accounts.job_forecasts import JOB_POWER_FILE, RUN_TIMES_FILE, JobPowers, RunTimes
from services.accounts.metering import Metering, Pace, read_all_meters
from services.accounts.savings import book_savings
from services.agent.loop import LOG, ProblemLog
from services.agent.site_context import SiteContext
from services.agent.status_snapshot import ForecastError

METER_PERIOD_S = 10.0
LEAST_METER_PERIOD_S = 1.0
"""Of real time: a meter is not asked again sooner."""


def meter_period_s(parts: SiteContext) -> float:
    """Return how often meters are read: at least once a cycle, but not faster than they answer."""
    return max(min(METER_PERIOD_S, parts.settings.agent.cycle_s), LEAST_METER_PERIOD_S * parts.clock.factor)


class MeterLoop:
    """Reads. `watts` is what the nodes drew together at the last round, None where nothing is measured."""

    def __init__(
        self, ledger: Ledger, clock: Callable[[], float], steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger, self._clock, self._steady = ledger, clock, steady
        self._meters: tuple[Meter, ...] = ()
        self._of: SiteContext | None = None
        self._metering = Metering()

    async def round(self, parts: SiteContext) -> None:
        """Read all meters once."""
        if self._of is not parts:
            await self.close()
            self._of, self._meters = parts, site_meters(parts.settings, parts.inventory, None, parts.wire)
        pace = Pace(meter_period_s(parts), max(meter_period_s(parts), parts.wire.timeout_s))
        done = await read_all_meters(self._meters, self._metering, pace=pace, clock=self._now)
        self._metering = done.after
        self._ledger.write_readings(done.rows)
        for line in done.lines:
            LOG.warning("meters: %s", line)

    async def close(self) -> None:
        """Log out of all meters."""
        meters, self._meters, self._of = self._meters, (), None
        await asyncio.gather(*(meter.close() for meter in meters))

    @property
    def watts(self) -> float | None:
        """The sum over the nodes of their latest powers."""
        known = self.node_watts.values()
        return sum(known) if known else None

    @property
    def node_watts(self) -> dict[str, float]:
        """The latest power of each node that is measured; of two ways of measuring it the outermost."""
        sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for each in self._metering.last.values():
            if each.node and each.power_w is not None and each.way in WAYS:
                sums[each.node][each.way] += each.power_w
        return {node: by_way[min(by_way, key=WAYS.index)] for node, by_way in sums.items()}

    def _now(self) -> Instant:
        return Instant(self._steady(), self._clock())


class JobAccounts:
    """Books jobs that have ended, and learns from them: one question or booking at a time."""

    def __init__(self, parts: SiteContext, ledger: Ledger, problem_log: ProblemLog) -> None:
        self._problem_log = problem_log
        folder = parts.settings.agent.state_folder
        powers = JobPowers(read_declared_draws(parts.settings.power), path=folder / JOB_POWER_FILE)
        times = RunTimes(path=folder / RUN_TIMES_FILE)
        self._accounts = Accounts(ledger, powers, times, settle_s=2 * meter_period_s(parts))
        self._last: AccountRound | None = None
        self._turn = asyncio.Lock()
        problem_log.report("job power", powers.trouble or None)
        problem_log.report("run times", times.trouble or None)

    def take_up(self) -> None:
        """Take up where a run before has left off; CannotWrite or BadLedger. It waits."""
        self._last = self._last or first_round(self._accounts.ledger)

    async def draws(self, view: SchedulerView, parts: SiteContext) -> dict[str, JobDraw]:
        """Return what every job is taken to draw, by its number."""
        async with self._turn:
            kinds = find_node_kinds(view.nodes, parts.node_class)
            return await asyncio.to_thread(self._accounts.powers.of, view.jobs, kinds, at_s=view.at_s)

    async def run_s(self, view: SchedulerView) -> dict[str, int]:
        """Return how long every job is expected to run [s], by its number."""
        async with self._turn:
            return await asyncio.to_thread(self._accounts.times.of, view.jobs, at_s=view.at_s)

    async def book(self, view: SchedulerView, parts: SiteContext) -> None:
        """Book the jobs that have ended since the last look; BadLedger, and they are booked later."""
        async with self._turn:
            kinds = find_node_kinds(view.nodes, parts.node_class)
            self._last = await account_round(self._accounts, self._last, view, kinds)
        if self._last.line:
            LOG.warning("jobs: %s", self._last.line)

    @property
    def errors(self) -> tuple[ForecastError, ...]:
        """How wrong the forecasts of jobs were of late, those that have outcomes."""
        each = (("run time", "s", self._accounts.times.error), ("job power", "W/node", self._accounts.powers.error))
        return tuple(
            ForecastError(about, unit, own.mae, own.outcomes) for about, unit, own in each if own.mae is not None
        )

    def close(self) -> None:
        """Keep what was learned for the next start. It waits for the disk."""
        try:
            self._accounts.powers.keep()
            self._accounts.times.keep()
        except CannotWrite as problem:
            self._problem_log.report("predictors", f"{problem}; {problem.hint}")


SAVINGS_EVERY_S = 900.0
SAVINGS_CYCLES = 30
"""At least so often: what runs with short cycles is being looked at."""


def savings_period_s(parts: SiteContext) -> float:
    """Return how often it is worked out: it reads the rests of a day."""
    return min(SAVINGS_EVERY_S, SAVINGS_CYCLES * parts.settings.agent.cycle_s)


class SavingsLoop:
    """Books. `today` is what was saved since midnight, None for nothing."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self.today: SavingRecord | None = None

    async def round(self, parts: SiteContext) -> None:
        """Work out today, and book yesterday; a later figure takes the place of an earlier one. BadLedger, BadInput."""
        if not parts.machines:
            return
        now_s = self._clock()
        yesterday_s, midnight_s = find_midnights(now_s, parts.zone)
        self.today = await self._saved(TimeRange(midnight_s, now_s), parts)
        whole = await self._saved(TimeRange(yesterday_s, midnight_s), parts)
        self._ledger.write_savings([whole] if whole else [])

    async def _saved(self, span: TimeRange, parts: SiteContext) -> SavingRecord | None:
        url = parts.settings.ledger.url
        return await asyncio.to_thread(book_savings, url, span, parts.machines, parts.node_class)


def find_midnights(unix_s: float, zone: tzinfo) -> tuple[float, float]:
    """Return the last two local midnights [Unix s]."""
    today = datetime.fromtimestamp(unix_s, zone).date()
    days = (today - timedelta(days=1), today)
    first, last = (datetime.combine(day, datetime.min.time(), zone).timestamp() for day in days)
    return first, last
