"""The caps on power that the grid or the site orders, known to the agent until they end, and the reports on them.

`OrderedCaps` holds the events of the site's file, of an OpenADR server, and the event that an operator has ordered.
Each source has a loop of its own, so that a slow server delays nothing else. A source that cannot be read leaves its
last events in force, those of the server also over a restart of the agent. `ReportLoop` reports to the server what the
nodes drew.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter

from offpeak.errors import CannotWrite
from offpeak.files import replacing
from offpeak.ledger.database import open_ledger, query_ledger
from offpeak.ledger.energy_use import EnergyUse
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy, quarter_load, spans_energy
from offpeak.model.constants import DAY_S, HOUR_S, QUARTER_S
from offpeak.model.facility import PowerCap
from offpeak.model.step_series import Series
from offpeak.model.time_range import TimeRange
from offpeak.plugin.capacity.peak_shaving import soft_cap
from offpeak.predictors.demand_response import CapEvent, OrderedEvents, caps_ahead, read_file_events
from offpeak.predictors.feeds.feed import fetched
from offpeak.predictors.openadr import (
    MeasuredInterval,
    is_in_force,
    make_report,
    read_server_events,
    server_login,
)
from offpeak.predictors.openadr_server import OpenAdrServer
from offpeak.prices.bill import demand_peaks
from offpeak.prices.tariff import DemandCharge, Tariff
from offpeak.prices.tariff_file import site_tariff
from offpeak.services.agent.loop import Loop, ProblemLog
from offpeak.services.agent.observer import SLOW_S
from offpeak.services.agent.site_context import SiteContext
from offpeak.settings.plan import PlanSettings
from offpeak.settings.table import Settings
from offpeak.text import counted

LOG = logging.getLogger("offpeak")

OPENADR_EVENTS_FILE, FILE_EVENTS_FILE = "openadr-events.json", "file-events.json"
FILE_EVERY_S = 10.0
SERVER_EVERY_S = 30.0
"""A cap may be ordered at short notice."""
ORDERED_EVENT = "ordered event"
"""The name in the ledger of the event that an operator has ordered."""
KEEP_EVERY_S = HOUR_S
"""The events of a file are kept for the next start so often, and when they change."""
FIRST_READING_S = 20.0
"""The longest time for which a decision waits for the first reading of the sources."""


@dataclass(frozen=True)
class CapSection:
    """The sources of caps, the clock of the file, and the time limit of the server.

    `memory` is the file that keeps the events of the server over a restart, `file_memory` that of the site's file,
    `ordered` the ledger that keeps an operator's event, also for the agent of another head node; None for none.
    """

    plan: PlanSettings
    zone: tzinfo
    timeout_s: float
    memory: Path | None = None
    ordered: Ledger | None = None
    file_memory: Path | None = None

    @classmethod
    def of(cls, site: SiteContext, ledger: Ledger) -> "CapSection":
        """Return the section of a site whose agent keeps the events over a restart."""
        settings, folder = site.settings, site.settings.agent.state_folder
        memory, file_memory = folder / OPENADR_EVENTS_FILE, folder / FILE_EVENTS_FILE
        return cls(settings.plan, site.zone, settings.feeds.timeout_s, memory, ledger, file_memory)


class OrderedCaps:
    """The events of all sources. `on_change` is called when the coming caps, or those in force, have changed."""

    def __init__(
        self,
        section: Callable[[], CapSection],
        problem_log: ProblemLog,
        clock: Callable[[], float],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.section, self._problem_log, self._clock, self._on_change = section, problem_log, clock, on_change
        self._file, self._server = OrderedEvents(), OrderedEvents()
        self._ordered: tuple[CapEvent, ...] | None = None
        self._ended = dict[str, int]()
        self._keeping = asyncio.Lock()
        self._file_is_read, self._server_is_read = asyncio.Event(), asyncio.Event()
        self._kept_s = 0
        self._known: tuple[tuple[PowerCap, ...], tuple[PowerCap, ...]] = (), ()

    @property
    def server_events(self) -> tuple[CapEvent, ...]:
        """The events of the server, without those that an operator has ended."""
        return tuple(event for event in self._server.events if event.event_id not in self._ended)

    @property
    def events(self) -> tuple[CapEvent, ...]:
        """All events, also those that are over."""
        return (*self._file.events, *self.server_events, *(self._ordered or ()))

    async def order(self, cap: PowerCap | None) -> int:
        """Put an operator's event in the place of the one before; None ends that, and those of the server in force.

        Returns how many of the server have ended.

        Raises CannotWrite: then no event is ordered, and those that were ended come back with the next agent.
        """
        events, in_force = () if cap is None else (CapEvent((cap,)),), dict[str, int]()
        if cap is None:
            # A disk that is full keeps no event in force.
            self._ordered = events
            now_s = int(self._clock())
            in_force = {event.event_id: event_end_s(event) for event in self.server_events if is_in_force(event, now_s)}
            self._ended |= in_force
            self._tell_changes()
        async with self._keeping:
            await self._keep_ordered(events)
            self._ordered = events
        self._tell_changes()
        return len(in_force)

    async def load_ordered(self) -> None:
        """Load the event that an operator has ordered from an agent before this one."""
        if self._ordered is None:
            ledger = self.section().ordered
            kept = await asyncio.to_thread(ledger.remembered, ORDERED_EVENT) if ledger else None
            if self._ordered is None:
                # An operator may have ordered another one meanwhile.
                before = KEPT_EVENTS.validate_json(kept) if kept else KeptEvents("", ())
                # An agent of an earlier version kept no ends: the next reading of the server tells them.
                ended = dict((each, 0) if isinstance(each, str) else each for each in before.ended)
                self._ordered, self._ended = before.events, ended | self._ended

    def ahead(self) -> tuple[PowerCap, ...]:
        """Return the caps that are not over, the first to begin first."""
        return caps_ahead(self.events, int(self._clock()))

    def in_force(self, *, within_s: float = 0.0) -> tuple[PowerCap, ...]:
        """Return the caps that hold now, or begin within that time."""
        return tuple(cap for cap in self.ahead() if cap.from_s <= self._clock() + within_s)

    async def first_reading(self) -> None:
        """Wait until each source was read once after the start: without its caps, held jobs would be let go."""
        await self.load_ordered()
        if not self.section().plan.has_cap_source:
            return
        try:
            async with asyncio.timeout(FIRST_READING_S):
                await self._file_is_read.wait()
                await self._server_is_read.wait()
        except TimeoutError:
            return

    async def read_file(self) -> None:
        """Read the file of the settings."""
        section, now_s = self.section(), int(self._clock())
        source = str(section.plan.events or "")
        if not self._file_is_read.is_set():
            self._file = await asyncio.to_thread(load_events, section.file_memory, source)
        before = self._file
        self._file = await fetched(lambda: read_file_events(section.plan, section.zone, before, now_s))
        self._problem_log.report("events file", self._file.problem or None)
        self._problem_log.report("events of the file", "; ".join(self._file.bounded) or None)
        if self._file.events != before.events or now_s - self._kept_s > KEEP_EVERY_S:
            self._kept_s = now_s
            await asyncio.to_thread(save_events, section.file_memory, source, self._file)
        self._file_is_read.set()
        self._tell_changes()

    async def query_server(self) -> None:
        """Query the server of the settings."""
        section = self.section()
        if not self._server_is_read.is_set():
            self._server = await asyncio.to_thread(load_events, section.memory, section.plan.openadr or "")
        before = self._server
        now_s = int(self._clock())
        self._server = await fetched(
            lambda: read_server_events(section.plan, before, now_s=now_s, timeout_s=section.timeout_s)
        )
        self._problem_log.report("OpenADR server", self._server.problem or None)
        self._problem_log.report("OpenADR events", "; ".join(self._server.unreadable) or None)
        if self._server.foreign != before.foreign:
            LOG.info("OpenADR: %s for others", counted(self._server.foreign, "event"))
        if self._server.events != before.events:
            await asyncio.to_thread(save_events, section.memory, section.plan.openadr or "", self._server)
        self._server_is_read.set()
        self._tell_changes()
        await self._forget_ended(now_s)

    async def _forget_ended(self, now_s: int) -> None:
        """Forget each event that an operator has ended once its own end has passed.

        The server may list it anew before that: it lists its events incompletely, or withdraws one for a while.
        """
        if self._server.problem or self._ordered is None:
            return
        listed = {event.event_id: event_end_s(event) for event in self._server.events}
        latest = {event_id: listed.get(event_id, end_s) for event_id, end_s in self._ended.items()}
        ended = {event_id: end_s for event_id, end_s in latest.items() if end_s > now_s}
        if ended != self._ended:
            self._ended = ended
            with suppress(CannotWrite):
                async with self._keeping:
                    await self._keep_ordered(self._ordered)

    async def _keep_ordered(self, events: tuple[CapEvent, ...]) -> None:
        """Keep an operator's event, and the events that an operator has ended, for the next agent."""
        if (ledger := self.section().ordered) is not None:
            kept = KEPT_EVENTS.dump_json(KeptEvents("", events, tuple(sorted(self._ended.items())))).decode()
            await asyncio.to_thread(ledger.keep, ORDERED_EVENT, kept)

    def _tell_changes(self) -> None:
        known = self.ahead(), self.in_force()
        if known != self._known:
            self._known = known
            self._on_change()


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What bounds the decisions from outside: caps on power, the weather, and the draw of the measured nodes [W].

    `capped_w` is the most that the nodes with a cap of their own draw.
    """

    caps: tuple[PowerCap, ...] = ()
    weather: Series | None = None
    measured_w: Mapping[str, float] = field(default_factory=dict)
    capped_w: Mapping[str, float] = field(default_factory=dict)


def event_end_s(event: CapEvent) -> int:
    """Return when the last cap of an event of a server ends [Unix s]."""
    return max(cap.until_s for cap in event.caps)


class KeptEvents(NamedTuple):
    """The events of the server at that address, of that file, or an operator's.

    The operator has `ended` these events of the server, each until its own end [Unix s].
    """

    url: str
    events: tuple[CapEvent, ...]
    ended: tuple[tuple[str, int] | str, ...] = ()
    read_s: int = 0


KEPT_EVENTS = TypeAdapter(KeptEvents)


def load_events(memory: Path | None, source: str) -> OrderedEvents:
    """Return the events that an agent before this one had from the same source; none if it kept none."""
    try:
        kept = KEPT_EVENTS.validate_json(memory.read_bytes()) if memory else None
    except (OSError, ValueError):
        kept = None
    return OrderedEvents(kept.events, read_s=kept.read_s) if kept and kept.url == source else OrderedEvents()


def save_events(memory: Path | None, source: str, events: OrderedEvents) -> None:
    """Keep the events for the next start. A disk that cannot be written costs only that."""
    if memory is not None and source:
        kept = KeptEvents(source, events.events, read_s=events.read_s)
        with suppress(CannotWrite), replacing(memory) as file:
            file.write(KEPT_EVENTS.dump_json(kept))


PEAKS_EVERY_S = 300.0
PEAK_SPAN_S = 12 * HOUR_S
PEAK_CAP = "peak shaving"


def peak_caps(
    tariff: Tariff, highest_w: Mapping[DemandCharge, float], plan: PlanSettings, now_s: int
) -> list[PowerCap]:
    """Return a soft cap for each demand charge whose quarter-hours count now or within half a day, up to a day long.

    It is the target, or the highest quarter-hour of the charge's present period if that is higher: it is paid already.
    """
    first_s, after_s = now_s // QUARTER_S * QUARTER_S, (now_s // PEAK_SPAN_S + 2) * PEAK_SPAN_S
    start_s = np.arange(first_s, after_s, QUARTER_S, dtype=np.int64)
    cells, months = tariff.calendar.cells(start_s), tariff.calendar.months(start_s)
    found = []
    for charge in tariff.demand if plan.peak_target_w else ():
        period = charge.period(months)
        counts = np.flatnonzero(np.append(charge.counts(cells) & (period == period[0]), False))
        if len(counts):
            length = int(np.argmax(np.diff(counts, append=counts[-1] + 2) > 1)) + 1
            from_s = int(start_s[counts[0]])
            cap_w = soft_cap(int(plan.peak_target_w or 0), int(highest_w.get(charge, 0.0)), 0, plan.peak_wait_s)
            until_s = from_s + length * QUARTER_S
            found.append(PowerCap(from_s, until_s, cap_w, f"charge {charge.name}", PEAK_CAP, plan.peak_wait_s))
    return found


class PeakLoop(Loop):
    """Keeps the highest quarter-hours of the present demand charges, from the ledger, for the caps of peak shaving."""

    name = "peak shaving"
    least_pause_s = SLOW_S
    period_s = PEAKS_EVERY_S

    def __init__(
        self, settings: Callable[[], tuple[Settings, tzinfo]], problem_log: ProblemLog, clock: Callable[[], float]
    ) -> None:
        self._settings, self._problem_log, self._clock = settings, problem_log, clock
        self._tariff: Tariff | None = None
        self._highest: dict[tuple[DemandCharge, str], float] = {}

    async def round(self) -> None:
        """Read the quarter-hours that are new. Raises BadLedger if the ledger cannot be read."""
        (settings, zone), now_s = self._settings(), int(self._clock())
        if settings.plan.peak_target_w is None:
            return
        tariff = site_tariff(settings.prices.tariff, zone)
        without = "plan.peak_target has no effect: the tariff has no [[demand]]"
        self._problem_log.report(PEAK_CAP, None if tariff.demand else without)
        if tariff != self._tariff:
            self._tariff, self._highest = tariff, {}
        if not tariff.demand:
            return
        year = datetime.fromtimestamp(now_s, tariff.calendar.zone).year
        begin_s = datetime(year, 1, 1, tzinfo=tariff.calendar.zone).timestamp()
        span = TimeRange(now_s - DAY_S if self._highest else begin_s, now_s // QUARTER_S * QUARTER_S)
        load = await asyncio.to_thread(lambda: query_ledger(settings.ledger.url, quarter_load, span))
        for peak in demand_peaks(tariff, load.start_s, load.power_w, span=TimeRange(now_s, now_s + 1)):
            key = peak.charge, peak.period
            self._highest[key] = max(self._highest.get(key, 0.0), 1000 * peak.power_kw)

    def caps(self) -> tuple[PowerCap, ...]:
        """Return the soft caps of the coming hours; none before the first round."""
        (settings, _), now_s = self._settings(), int(self._clock())
        if self._tariff is None:
            return ()
        month = self._tariff.calendar.months(np.array([now_s], np.int64))
        names = {str(month.astype("datetime64[M]")[0]), str((month // 12).astype("datetime64[Y]")[0])}
        highest_w = {charge: power_w for (charge, period), power_w in self._highest.items() if period in names}
        return tuple(peak_caps(self._tariff, highest_w, settings.plan, now_s))


REPORT_INTERVAL_S = 300
SETTLE_S = 30
"""The time until the last readings of an interval are in the ledger."""
REPORTS = "reports to the OpenADR server"
"""The subject of their problems in the log."""


@dataclass
class ReportLoop(Loop):
    """Reports the measured power to the server after each cap of its events, and tries again for a day.

    A cap that the server withdraws before its end is reported up to then. In the other modes than active nothing is
    delivered, and `may_report` is false.
    """

    caps: OrderedCaps
    ledger: Ledger
    problem_log: ProblemLog
    clock: Callable[[], float]
    may_report: Callable[[], bool]
    _due: dict[tuple[str, int], tuple[CapEvent, PowerCap]] = field(default_factory=dict)

    name = "OpenADR reports"
    fetches = True
    least_pause_s = SLOW_S
    period_s = SERVER_EVERY_S

    async def round(self) -> None:
        """Send the reports that are due. Raises BadLedger if the ledger cannot be read."""
        section, now_s = self.caps.section(), int(self.clock())
        client = section.plan.openadr_client
        if section.plan.openadr is None or client is None or not self.may_report():
            self._due.clear()
            return
        self._follow_events(now_s)
        server = OpenAdrServer(section.plan.openadr, server_login(section.plan), section.timeout_s)
        problems = []
        for key, (event, cap) in list(self._due.items()):
            if now_s < cap.until_s + SETTLE_S:
                continue
            intervals = await asyncio.to_thread(measure_intervals, self.ledger.settings.url, cap)
            problem = "no node was measured during the event; see `offpeak ledger energy`"
            if intervals:
                report = make_report(event, cap, intervals, client)
                problem = await fetched(partial(server.send_report, report))
            if problem:
                problems.append(f"{cap.reason}: {problem}")
            if not problem or now_s > cap.until_s + DAY_S:
                del self._due[key]
        self.problem_log.report(REPORTS, "; ".join(problems) or None)

    def _follow_events(self, now_s: int) -> None:
        """Remember the caps in force, take over their new ends, and end those that the server has withdrawn."""
        known = {(event.event_id, cap.from_s): (event, cap) for event in self.caps.server_events for cap in event.caps}
        self._due |= {
            key: (event, cap)
            for key, (event, cap) in known.items()
            if key in self._due or cap.from_s <= now_s < cap.until_s
        }
        for key, (event, cap) in self._due.items():
            if key not in known and cap.until_s > now_s > cap.from_s:
                self._due[key] = event, replace(cap, until_s=now_s)


def measure_intervals(url: str, cap: PowerCap, step_s: int = REPORT_INTERVAL_S) -> tuple[MeasuredInterval, ...]:
    """Return the energy of each step of a cap, of the nodes that were measured during it; none if none was.

    A node counts with its mean in the measured part of the interval, without one with its mean during the cap. It reads
    the ledger. Raises BadLedger if that cannot be read.
    """
    whole = TimeRange(cap.from_s, cap.until_s)
    edges_s = [*range(cap.from_s, cap.until_s, step_s), cap.until_s]
    spans = [TimeRange(*edges) for edges in pairwise(edges_s)]
    with open_ledger(url) as connection:
        by_node = {use.of[0]: mean_w(use, whole) for use in node_energy(connection, whole, ("node",), UTC)}
        means_w = {node: mean for node, mean in by_node.items() if mean is not None}
        found = spans_energy(connection, spans, [means_w] * len(spans)) if means_w else []
    intervals = []
    # Without a measured node nothing is found.
    for span, used in zip(spans, found, strict=False):
        inside_w = {node: mean_w(use, span) for node, use in used.items()}
        power_w = sum(mean if (own := inside_w.get(node)) is None else own for node, mean in means_w.items())
        covered = sum(use.covered or 0.0 for use in used.values()) / len(means_w)
        intervals.append(MeasuredInterval(int(span.from_unix_s), int(span.until_unix_s), power_w, covered))
    return tuple(intervals)


def mean_w(use: EnergyUse, span: TimeRange) -> float | None:
    """Return the mean power over the measured part of that time, None without one."""
    return use.energy_j / use.covered / (span.until_unix_s - span.from_unix_s) if use.covered else None
