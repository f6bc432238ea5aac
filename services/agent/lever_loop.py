"""The loop that books what the order of the queue saved, and what shadow mode would have saved.

It remembers in the ledger when the agent has seen all jobs, because a replay of other times would lack jobs, and under
which settings, because a replay under others would change what is booked.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from offpeak.door.effect import Mode
from offpeak.ledger.database import query_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.marks import read_off_blocks
from offpeak.ledger.rows import SavingRecord
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.time_range import TimeRange
from offpeak.power.engine_process import call_in_process
from offpeak.services.accounts.account_of_savings import ORDER
from offpeak.services.accounts.ended_jobs import AWAY_S
from offpeak.services.accounts.lever_site import LeverSection, jobs_not_ended, make_lever_site
from offpeak.services.agent.accounting_loops import SAVINGS_CYCLES, SAVINGS_EVERY_S, JobAccounts, find_midnights
from offpeak.services.agent.loop import Loop
from offpeak.services.agent.observer import Observer
from offpeak.services.agent.site_context import PartitionModes, SiteContext

WATCH_NAME = "watched times"
"""The name in the ledger of the times in which the agent has seen all jobs."""
LEVER_PACE = 20
"""The loop rests this many times as long as the replays have taken."""
BOOK_LEVERS = "offpeak.services.accounts.lever_savings:book_levers"
KEEP_WATCHED_S = 6.0 * DAY_S
OLDEST_VIEW_S = 30.0 * HOUR_S
"""An older view of the scheduler would book days again that are sealed."""


@dataclass(frozen=True)
class WatchedTime(TimeRange):
    """A time in which the agent has seen all jobs under the same settings; `period_s` is the pace of its rounds."""

    in_force: str = ""
    period_s: float = 0.0


def lever_section(site: SiteContext, modes: PartitionModes) -> LeverSection:
    """Return what the replays need of a site, in the modes in force."""
    active = {mode is Mode.ACTIVE for mode in modes.in_use}
    is_active = None if len(active) > 1 else True in active
    nodes, enclosure_of = site.machines.keys(), site.inventory.enclosure_of
    return LeverSection(site.settings, nodes, site.node_class, enclosure_of, site.zone, is_active)


@dataclass
class LeverLoop(Loop):
    """Books what the order of the queue saved, and what shadow mode would have saved, by replays in a process.

    A day in which the agent was away has rows for the times between.
    """

    section: Callable[[], LeverSection]
    observer: Observer
    accounts: JobAccounts
    ledger: Ledger
    clock: Callable[[], float]
    _watched: tuple[WatchedTime, ...] | None = None
    _took_s: float = 0.0

    name = "savings of levers"
    least_pause_s = MINUTE_S
    fetches = True

    @property
    def period_s(self) -> float:
        """A quarter of an hour, less with short cycles or before the first view, longer where replays take long."""
        cycles_s = SAVINGS_CYCLES * self.section().settings.agent.cycle_s
        pace_s = MINUTE_S if self._watched is None else min(SAVINGS_EVERY_S, cycles_s)
        return max(pace_s, LEVER_PACE * self._took_s)

    async def round(self) -> None:
        """Book the savings of today up to now, and those of yesterday again. Raises BadLedger, SimulationFailed."""
        view, traits = self.observer.latest, self.observer.traits
        if view is None or traits is None or self.clock() - view.at_s > OLDEST_VIEW_S:
            return
        watched = await self.watch(float(view.at_s))
        section = self.section()
        yesterday_s, midnight_s, tomorrow_s = find_midnights(view.at_s, section.zone)
        days = (TimeRange(yesterday_s, midnight_s), TimeRange(midnight_s, float(view.at_s)))
        same = [each for each in watched if each.in_force == section.in_force]
        seen = [span for day in days for each in same if (span := overlap(day, each)) is not None]
        both_days, url = TimeRange(yesterday_s, tomorrow_s), self.ledger.settings.url
        off = await asyncio.to_thread(lambda: query_ledger(url, read_off_blocks, ORDER, both_days))
        spans = [part for span in seen for part in cut_out(span, off)]
        if not spans:
            return
        begun_s = time.monotonic()
        open_jobs = jobs_not_ended(view, await self.accounts.draws(view), await self.accounts.run_s(view))
        site = await asyncio.to_thread(make_lever_site, section, view, traits, open_jobs, watched[0].from_unix_s)
        arguments = (url, site, spans)
        try:
            rows: tuple[SavingRecord, ...] = await call_in_process(BOOK_LEVERS, arguments, {}, result="savings")
        finally:
            self._took_s = time.monotonic() - begun_s
            self._remember((*watched[:-1], replace(watched[-1], period_s=self.period_s)))
        # A row ends with its day, so that a later one of the same begin replaces it.
        yesterday = [replace(row, until_unix_s=midnight_s) for row in rows if row.from_unix_s < midnight_s]
        today = [row for row in rows if row.from_unix_s >= midnight_s]
        today = [replace(row, until_unix_s=tomorrow_s, as_of_unix_s=row.until_unix_s) for row in today]
        self.ledger.write_savings([*yesterday, *today])

    async def watch(self, at_s: float) -> tuple[WatchedTime, ...]:
        """Remember that the agent has seen all jobs up to then; return the times in which it has."""
        if self._watched is None:
            self._watched = parse_watched(await asyncio.to_thread(self.ledger.remembered, WATCH_NAME))
        self._remember(extend_watched(self._watched, WatchedTime(at_s, at_s, self.section().in_force, self.period_s)))
        return self._watched

    def _remember(self, watched: tuple[WatchedTime, ...]) -> None:
        self._watched = watched
        self.ledger.remember(WATCH_NAME, watched_json(watched))


def extend_watched(before: Sequence[WatchedTime], now: WatchedTime) -> tuple[WatchedTime, ...]:
    """Return the watched times with a view of now, one a period; those that no replay needs are left out."""
    at_s = now.until_unix_s
    clamped = [replace(each, until_unix_s=min(each.until_unix_s, at_s)) for each in before if each.from_unix_s <= at_s]
    kept = [each for each in clamped if at_s - KEEP_WATCHED_S < each.until_unix_s]
    last = kept[-1] if kept else None
    if last and last.in_force == now.in_force and at_s - last.until_unix_s <= max(last.period_s, now.period_s) + AWAY_S:
        return (*kept[:-1], replace(now, from_unix_s=last.from_unix_s))
    return (*kept, now)


def watched_json(watched: Sequence[WatchedTime]) -> str:
    """Return the times as text for `parse_watched`."""
    return json.dumps([vars(each) for each in watched])


def parse_watched(text: str | None) -> tuple[WatchedTime, ...]:
    """Return the times of `watched_json`; none for no text, and for the text of another version of the program."""
    try:
        return tuple(WatchedTime(**each) for each in json.loads(text or "[]"))
    except (ValueError, TypeError):
        return ()


def overlap(one: TimeRange, other: TimeRange) -> TimeRange | None:
    """Return the time that is in both ranges, None for less than a minute."""
    first, last = max(one.from_unix_s, other.from_unix_s), min(one.until_unix_s, other.until_unix_s)
    return TimeRange(first, last) if last - first >= MINUTE_S else None


def cut_out(span: TimeRange, off: Sequence[TimeRange]) -> list[TimeRange]:
    """Return the parts of a time, none shorter than a minute, that are outside these."""
    parts = [span]
    for each in off:
        sides = (TimeRange(-math.inf, each.from_unix_s), TimeRange(each.until_unix_s, math.inf))
        parts = [rest for part in parts for side in sides if (rest := overlap(part, side)) is not None]
    return parts
