"""The loops that keep the accounts: readings of all meters, energy of jobs, and savings of sleeping nodes.

The meter loop reads every meter once a period into the ledger. The job accounts forecast power and run time, and book
jobs that have ended. The savings loop books today's savings up to now, and those of each day once it is over. The
pruning loop deletes what is older than the ledger keeps, and the sealing loop seals each settled day.
"""

import asyncio
import json
import math
import platform
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from importlib.metadata import version
from pathlib import Path
from typing import Any

from offpeak.errors import BadLedger, CannotWrite
from offpeak.installation import installed_version
from offpeak.ledger.database import open_ledger, query_ledger
from offpeak.ledger.energy_use import WAYS
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.meter_choice import measured_parts
from offpeak.ledger.rows import MeterReading, SavingRecord
from offpeak.ledger.seals import KEY_NAME, SETTLED_S, make_next_seal
from offpeak.machines.inventory import Inventory
from offpeak.machines.node_sets import fold_names
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.orders import NodeState
from offpeak.model.time_range import TimeRange
from offpeak.model.zones import zone_text
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters.energy import Part, part_of
from offpeak.power.meters.plausibility import find_draw_bound
from offpeak.power.meters.port import Meter, Reading
from offpeak.power.meters.registry import site_meters
from offpeak.power.meters.remote_write import NO_STORE, RemoteWriter
from offpeak.prices.tariff import Tariff
from offpeak.prices.tariff_file import read_source, site_tariff
from offpeak.services.accounts.account_of_savings import NO_SAVINGS, NO_SHADOW, DemandSaving, account_of
from offpeak.services.accounts.booking import AccountRound, Accounts, account_round, first_round
from offpeak.services.accounts.credits import CreditRates
from offpeak.services.accounts.job_draws import JobDraw, find_node_kinds, read_declared_draws
from offpeak.services.accounts.job_forecasts import JOB_POWER_FILE, RUN_TIMES_FILE, JobPowers, RunTimes
from offpeak.services.accounts.metering import HELD_PERIODS, MeteredSite, Metering, Pace, read_all_meters
from offpeak.services.accounts.power_bill import read_demand
from offpeak.services.accounts.savings import book_savings
from offpeak.services.agent.loop import LOG, Loop, ProblemLog
from offpeak.services.agent.observer import SLOW_S
from offpeak.services.agent.site_context import SiteContext
from offpeak.services.agent.status import ForecastStatus
from offpeak.services.collectors import CollectorIntake
from offpeak.settings.replay import PowerSettings
from offpeak.settings.table import SETTINGS, Settings

METER_PERIOD_S = 10.0
LEAST_METER_PERIOD_S = 1.0
"""Real seconds from one reading of a meter to the next at the least."""


def meter_period_s(cycle_s: float, clock_factor: float) -> float:
    """Return the period of the meters: at least once a cycle, but no faster than meters can answer."""
    return max(min(METER_PERIOD_S, cycle_s), LEAST_METER_PERIOD_S * clock_factor)


def meter_pace(site: SiteContext) -> Pace:
    """Return the pace of the meters of a site."""
    period_s = meter_period_s(site.settings.agent.cycle_s, site.clock.factor)
    return Pace(period_s, max(period_s, site.transport.timeout_s))


NO_MACHINES = Inventory(Path())


@dataclass(frozen=True)
class MeterSection:
    """What opens the meters, their pace, the nodes that they measure, and the store of raw readings."""

    make: Callable[[], Sequence[Meter]]
    pace: Pace
    site: MeteredSite
    remote: RemoteWriter = NO_STORE
    inventory: Inventory = NO_MACHINES

    @classmethod
    def of(cls, site: SiteContext, state_of: Callable[[str], NodeState | None], remote: RemoteWriter) -> "MeterSection":
        """Return the section of a site; `state_of` is the state of a node at its last poll."""
        return cls(
            make=lambda: tuple(site_meters(site.settings, site.inventory, None, site.transport)),
            pace=meter_pace(site),
            site=MeteredSite(
                lambda node: find_draw_bound(site.node_class(node), state_of(node)), site.inventory.enclosure_of
            ),
            remote=remote,
            inventory=site.inventory,
        )

    def site_of(self, reader: str | None) -> MeteredSite:
        """Return the site with the enclosures that this collector reads, None: that the agent reads."""
        reader_of = self.inventory.reader_of
        enclosure_of = {name: each for name, each in self.site.enclosure_of.items() if reader_of.get(name) == reader}
        return replace(self.site, enclosure_of=enclosure_of)


class MeterLoop(Loop):
    """Reads all meters once a period, and takes the sweeps of collectors. The section is of the present settings."""

    name = "meters"

    def __init__(
        self,
        section: Callable[[], MeterSection],
        ledger: Ledger,
        problem_log: ProblemLog,
        clock: Callable[[], float],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._section, self._ledger, self._problem_log = section, ledger, problem_log
        self._clock, self._steady = clock, steady
        self._meters: tuple[Meter, ...] | None = None
        self._metering = Metering()
        self._intake = CollectorIntake(ledger, self._write, clock, steady)

    @property
    def period_s(self) -> float:
        """The period of the settings."""
        return self._section().pace.period_s

    async def round(self) -> None:
        """Read all meters once."""
        section, is_first = self._section(), self._metering == Metering()
        if self._meters is None:
            self._meters = tuple(section.make())
        done = await read_all_meters(
            self._meters, self._metering, pace=section.pace, clock=self._now, site=section.site_of(None)
        )
        self._metering = done.after
        if is_first and done.after.silent:
            # Let the parts of meters that are silent at the start be gaps, as they are where one falls silent
            # later. Else a node with two outlets would seem to be covered by the one that answers.
            now_s, last = self._clock(), dict[Part, Reading]()
            with suppress(BadLedger):
                found = await asyncio.to_thread(query_ledger, self._ledger.settings.url, measured_parts, now_s - DAY_S)
                for meter, way, part, node in found:
                    if (meter, way) in self._metering.silent:
                        blank = Reading(meter, way, part, None, now_s, node=node or None, why="silent since the start")
                        last[part_of(blank)] = blank
            self._metering = replace(self._metering, last=last | dict(self._metering.last))
        self._write(done.rows)
        for line in done.lines:
            LOG.warning("meters: %s", line)
        self._problem_log.report("readings", self._find_problem())
        for name, problem in self._intake.problems(section.inventory, HELD_PERIODS * section.pace.period_s).items():
            self._problem_log.report(f"collector {name}", problem)

    def _write(self, rows: Sequence[MeterReading]) -> None:
        self._ledger.write_readings(rows)
        self._section().remote.add(rows)

    async def receive_sweep(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Count the sweep of a collector, and return the reply. Raises BadInput for a wrong token."""
        section = self._section()
        return await self._intake.receive(request, section.inventory, section.pace, section.site_of)

    def _meterings(self) -> Iterator[tuple[str | None, Metering]]:
        """Yield the meters of each collector, and those of the agent itself with None."""
        yield None, self._metering
        yield from ((name, state.metering) for name, state in self._intake.states.items())

    def _find_problem(self) -> str | None:
        """Return the problems of the readings, those of the same kind by one of them."""
        by_kind: dict[str, dict[str, str]] = defaultdict(dict)
        histories = (each for _, metering in self._meterings() for each in metering.histories.items())
        for (meter, _, part, node), history in histories:
            if problem := history.problem:
                by_kind[problem.partition(" ")[0]][node or f"{meter} {part}"] = problem
        lines = list[str]()
        for found in by_kind.values():
            first, *more = found.items()
            lines.append(": ".join(first) + (f"; {len(more)} more like it in {fold_names(found)}" if more else ""))
        return "; ".join(lines) or None

    @property
    def refused_readings(self) -> int:
        """The number of refused readings since the start."""
        return sum(each.refused for _, metering in self._meterings() for each in metering.histories.values())

    async def close(self) -> None:
        """Log out of all meters; the next round opens those of the present settings."""
        meters, self._meters = self._meters, None
        await asyncio.gather(*(meter.close() for meter in meters or ()))

    @property
    def watts(self) -> float | None:
        """The sum of the latest powers of all nodes, None if no node is measured."""
        known = self.node_watts.values()
        return sum(known) if known else None

    @property
    def node_watts(self) -> dict[str, float]:
        """The present power of each node that is measured, by its outermost meters whose parts are all known.

        A reading that is older than it holds says nothing, nor does one of the future, after the clock went back.
        """
        sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        hold_s, now_unix_s = HELD_PERIODS * self.period_s, self._clock()
        reader_of = self._section().inventory.reader_of
        latest = ((reader, each) for reader, metering in self._meterings() for each in metering.last.values())
        for reader, reading in latest:
            # After a reload another one may read a meter.
            if reading.node and reading.way in WAYS and reader_of.get(reading.meter) == reader:
                holds = abs(now_unix_s - reading.at_unix_s) <= max(hold_s, reading.holds_s)
                power_w = reading.power_w if holds and reading.power_w is not None else math.nan
                sums[reading.node][reading.way] += power_w
        known = {node: {way: w for way, w in ways.items() if not math.isnan(w)} for node, ways in sums.items()}
        return {node: by_way[min(by_way, key=WAYS.index)] for node, by_way in known.items() if by_way}

    def _now(self) -> Instant:
        return Instant(self._steady(), self._clock())


def open_forecasts(state_folder: Path, power: PowerSettings) -> tuple[JobPowers, RunTimes]:
    """Return the forecasts of the power and the run time of jobs, as far as they were learned before."""
    powers = JobPowers(read_declared_draws(power), path=state_folder / JOB_POWER_FILE)
    return powers, RunTimes(path=state_folder / RUN_TIMES_FILE)


class JobAccounts:
    """Books jobs that have ended, and learns from them. It answers one question, or books, at a time."""

    def __init__(self, site: SiteContext, ledger: Ledger, problem_log: ProblemLog) -> None:
        self._ledger, self._problem_log = ledger, problem_log
        self._turn = asyncio.Lock()
        self.use(site)

    def use(self, site: SiteContext) -> None:
        """Work with other settings from now on."""
        settings, self._class_of = site.settings, site.node_class
        powers, times = open_forecasts(settings.agent.state_folder, settings.power)
        rates = CreditRates(settings.flexibility.credit_per_kwh, settings.flexibility.credit_share)
        # Without single readings a job is measured by the means of whole minutes.
        settle_s = 2 * meter_pace(site).period_s + (0 if settings.ledger.keep_readings_s else 2 * MINUTE_S)
        self._accounts = Accounts(self._ledger, powers, times, settle_s=settle_s, rates=rates)
        self._last: AccountRound | None = None
        self._problem_log.report("job power", powers.problem or None)
        self._problem_log.report("run times", times.problem or None)

    def load(self) -> None:
        """Load the jobs that an earlier run has not booked. Waits for the ledger; raises CannotWrite or BadLedger."""
        self._last = self._last or first_round(self._accounts.ledger)

    async def draws(self, view: SchedulerView) -> dict[str, JobDraw]:
        """Return the expected power of every job that has not ended, by its number."""
        async with self._turn:
            kinds = find_node_kinds(view.nodes, self._class_of)
            return await asyncio.to_thread(self._accounts.powers.of, _not_ended(view), kinds, at_s=view.at_s)

    async def run_s(self, view: SchedulerView) -> dict[str, int]:
        """Return the expected run time of every job that has not ended [s], by its number."""
        async with self._turn:
            return await asyncio.to_thread(self._accounts.times.of, _not_ended(view), at_s=view.at_s)

    async def book(self, view: SchedulerView) -> None:
        """Book the jobs that have ended since the last call. BadLedger: they are booked by a later call."""
        async with self._turn:
            kinds = find_node_kinds(view.nodes, self._class_of)
            self._last = await account_round(self._accounts, self._last, view, kinds)
        if self._last.line:
            LOG.warning("jobs: %s", self._last.line)

    @property
    def booked_unix_s(self) -> float | None:
        """The time of the last view from which jobs were booked."""
        return self._last.ran.at_s if self._last else None

    @property
    def forecasts(self) -> tuple[ForecastStatus, ...]:
        """The errors of recent forecasts."""
        return (
            ForecastStatus("run time", "s", **vars(self._accounts.times.errors)),
            ForecastStatus("job power", "W/node", **vars(self._accounts.powers.errors)),
        )

    def close(self) -> None:
        """Save the predictors for the next start. Blocks on the disk."""
        try:
            self._accounts.powers.keep()
            self._accounts.times.keep()
        except CannotWrite as problem:
            self._problem_log.report("predictors", f"{problem}; {problem.hint}")


def _not_ended(view: SchedulerView) -> list[Job]:
    """Return the jobs to forecast; the forecast of a job that is booked would stay open."""
    return [job for job in view.jobs if job.state is not JobState.ENDED]


SAVINGS_EVERY_S = 900.0
SAVINGS_CYCLES = 30
"""The savings are computed at least once in so many cycles, because an admin watches a site with short cycles."""


DEMAND_PAUSES = 50
"""The demand charges are read again after this many times the time that reading them took."""


class SavingsLoop(Loop):
    """Books the savings of sleeping nodes, and reads the account of today: `today`, and `shadow_today`.

    `demand` are the demand charges of this month.
    """

    name = "savings"
    least_pause_s = SLOW_S

    def __init__(self, site: Callable[[], SiteContext], ledger: Ledger, clock: Callable[[], float]) -> None:
        self._site, self._ledger, self._clock = site, ledger, clock
        self.today, self.shadow_today = NO_SAVINGS, NO_SHADOW
        self.demand: tuple[DemandSaving, ...] = ()
        self._next_demand_s = 0.0

    @property
    def period_s(self) -> float:
        """The period of the settings; a round reads the rests of a day."""
        return min(SAVINGS_EVERY_S, SAVINGS_CYCLES * self._site().settings.agent.cycle_s)

    async def round(self) -> None:
        """Book today's savings up to the last full minute, and yesterday's again. Raises BadLedger, BadInput."""
        site, now_s = self._site(), self._clock() // MINUTE_S * MINUTE_S
        tariff = site_tariff(site.settings.prices.tariff, site.zone)
        yesterday_s, today_s, tomorrow_s = find_midnights(now_s, site.zone)
        if site.machines:
            today = await self._compute(TimeRange(today_s, now_s), site, tariff, goes_on=True)
            yesterday = await self._compute(TimeRange(yesterday_s, today_s), site, tariff)
            # The row of a day is always that of the whole day, so that a later one replaces it.
            booked = [replace(row, until_unix_s=tomorrow_s, as_of_unix_s=row.until_unix_s) for row in today]
            self._ledger.write_savings([*booked, *yesterday])
        await asyncio.to_thread(self._read, TimeRange(today_s, now_s), tariff)

    def _read(self, today: TimeRange, tariff: Tariff) -> None:
        self._ledger.settle()
        if today.until_unix_s <= today.from_unix_s:
            return
        with open_ledger(self._ledger.settings.url) as connection:
            self.today = account_of(connection, today)
            self.shadow_today = account_of(connection, today, is_shadow=True)
            began_s = time.monotonic()
            if began_s >= self._next_demand_s:
                self.demand = read_demand(connection, today, tariff)
                # A year of a large site takes half a minute to read.
                self._next_demand_s = began_s + DEMAND_PAUSES * (time.monotonic() - began_s)

    async def _compute(
        self, span: TimeRange, site: SiteContext, tariff: Tariff, *, goes_on: bool = False
    ) -> tuple[SavingRecord, ...]:
        of_nodes = (site.machines, site.node_class, site.inventory.enclosure_of, tariff)
        return await asyncio.to_thread(book_savings, self._ledger.settings.url, span, *of_nodes, goes_on=goes_on)


def find_midnights(unix_s: float, zone: tzinfo) -> tuple[float, float, float]:
    """Return the last two local midnights and the next one [Unix s]."""
    today = datetime.fromtimestamp(unix_s, zone).date()
    days = (today + timedelta(days=number) for number in (-1, 0, 1))
    yesterday_s, today_s, tomorrow_s = (datetime.combine(day, datetime.min.time(), zone).timestamp() for day in days)
    return yesterday_s, today_s, tomorrow_s


CLOCK_JUMP_S = 300.0
"""The clock jumped if it gained more than this between two rounds."""


class SealLoop(Loop):
    """Seals each day of the ledger once its rows are settled, one day a round, also those of a time without the agent.

    The first round seals nothing: the jobs that ended while the agent was away are booked first. `booked_unix_s` gives
    the time of the last view from which jobs were booked. A clock that jumps forward may be wrong: until it has gone on
    for as long as a day takes to settle, only the time that has passed since counts.
    """

    name = "seals"

    def __init__(
        self,
        ledger: Ledger,
        site: Callable[[], tuple[Settings, tzinfo]],
        now: Callable[[], Instant],
        booked_unix_s: Callable[[], float | None],
    ) -> None:
        self._ledger, self._site, self._now, self._booked_unix_s = ledger, site, now, booked_unix_s
        self._before: Instant | None = None
        self._jumped_s: float | None = None
        self._is_behind = False

    @property
    def period_s(self) -> float:
        """An hour, a minute while settled days are not sealed."""
        return MINUTE_S if self._is_behind else HOUR_S

    async def round(self) -> None:
        """Seal the first settled day without a seal. Raises BadLedger, CannotWrite, BadInput without the tariff."""
        has_begun, now_s = self._before is not None, self._settling_unix_s()
        key = await asyncio.to_thread(self._ledger.remembered, KEY_NAME)
        if key is None:
            # It counts once it is read from the disk: with this process it would be lost.
            self._ledger.remember(KEY_NAME, secrets.token_hex(32))
        elif has_begun:
            self._is_behind = await asyncio.to_thread(self._seal_a_day, key, now_s)

    def _settling_unix_s(self) -> float:
        now, before = self._now(), self._before or self._now()
        steady_unix_s = before.unix_s + now.monotonic_s - before.monotonic_s
        if now.unix_s - steady_unix_s > CLOCK_JUMP_S:
            if self._jumped_s is None:
                self._jumped_s = now.monotonic_s
                LOG.warning("seals: the clock jumped forward by %.0f s: days wait", now.unix_s - steady_unix_s)
            if now.monotonic_s - self._jumped_s < SETTLED_S:
                self._before = before
                return steady_unix_s
        self._before, self._jumped_s = now, None
        return now.unix_s

    def _seal_a_day(self, key: str, now_unix_s: float) -> bool:
        booked_unix_s, (whole, zone) = self._booked_unix_s(), self._site()
        tariff = whole.prices.tariff
        values = {
            f"{setting.section}.{setting.attribute}": json.dumps(
                getattr(getattr(whole, setting.section), setting.attribute), default=str
            )
            for setting in SETTINGS
            if setting.name.startswith(OF_FIGURES)
        }
        settings = values | {
            "zone": zone_text(zone) or "UTC",
            "tariff": json.dumps(read_source(tariff) if tariff else None),
            "offpeak": installed_version(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "pyarrow", "sqlalchemy")},
        }
        if not self._ledger.settle():
            return False
        with open_ledger(self._ledger.settings.url) as connection:
            seal = make_next_seal(connection, zone, now_unix_s, booked_unix_s, key=key, settings=settings)
        if seal:
            self._ledger.write_seal(seal, settings)
        return seal is not None


OF_FIGURES = ("prices.", "carbon.", "power.", "machine.", "scheduling.", "capacity.", "plan.")
