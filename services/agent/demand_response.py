"""The caps on power that the grid or the site orders, known to the agent until they end.

`OrderedCaps` holds the events of the site's file and of an OpenADR server. Each source has a loop of its own, so that a
slow server delays nothing else. A source that cannot be read leaves its last events in force.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from offpeak.model.facility import PowerCap
from offpeak.model.step_series import Series
from offpeak.settings.plan import PlanSettings
from predictors.demand_response import CapEvent, OrderedEvents, caps_ahead, read_file_events, read_server_events
from predictors.feeds.feed import fetched
from services.agent.loop import Loop, ProblemLog
from services.agent.observer import SLOW_S

FILE_EVERY_S = 10.0
SERVER_EVERY_S = 30.0
"""A cap may be ordered at short notice."""
FIRST_READING_S = 20.0
"""The longest time for which a decision waits for the first reading of the sources."""


@dataclass(frozen=True)
class CapSection:
    """The sources of caps, the clock of the file, and the time limit of the server."""

    plan: PlanSettings
    zone: tzinfo
    timeout_s: float


class OrderedCaps:
    """The events of both sources. `on_change` is called when the coming caps, or those in force, have changed."""

    def __init__(
        self,
        section: Callable[[], CapSection],
        problem_log: ProblemLog,
        clock: Callable[[], float],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.section, self._problem_log, self._clock, self._on_change = section, problem_log, clock, on_change
        self._file, self._server = OrderedEvents(), OrderedEvents()
        self._file_is_read, self._server_is_read = asyncio.Event(), asyncio.Event()
        self._known: tuple[tuple[PowerCap, ...], tuple[PowerCap, ...]] = (), ()

    @property
    def events(self) -> tuple[CapEvent, ...]:
        """All events, also those that are over."""
        return (*self._file.events, *self._server.events)

    def ahead(self) -> tuple[PowerCap, ...]:
        """Return the caps that are not over, the first to begin first."""
        return caps_ahead(self.events, int(self._clock()))

    def in_force(self, *, within_s: float = 0.0) -> tuple[PowerCap, ...]:
        """Return the caps that hold now, or begin within that time."""
        return tuple(cap for cap in self.ahead() if cap.from_s <= self._clock() + within_s)

    async def first_reading(self) -> None:
        """Wait until each source was read once after the start: without its caps, held jobs would be let go."""
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
        section, before = self.section(), self._file
        self._file = await fetched(lambda: read_file_events(section.plan, section.zone, before))
        self._problem_log.report("events file", self._file.problem or None)
        self._file_is_read.set()
        self._tell_changes()

    async def query_server(self) -> None:
        """Query the server of the settings."""
        section, before = self.section(), self._server
        self._server = await fetched(lambda: read_server_events(section.plan, before, timeout_s=section.timeout_s))
        self._problem_log.report("OpenADR server", self._server.problem or None)
        self._server_is_read.set()
        self._tell_changes()

    def _tell_changes(self) -> None:
        known = self.ahead(), self.in_force()
        if known != self._known:
            self._known = known
            self._on_change()


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What bounds the decisions from outside: caps on power, the weather, and the draw of the measured nodes [W]."""

    caps: tuple[PowerCap, ...] = ()
    weather: Series | None = None
    measured_w: Mapping[str, float] = field(default_factory=dict)


class EventFileLoop(Loop):
    """Reads the file of events."""

    name = "events file"
    fetches = True
    least_pause_s = 1.0
    period_s = FILE_EVERY_S

    def __init__(self, caps: OrderedCaps) -> None:
        self._caps = caps

    async def round(self) -> None:
        """Read the file once."""
        await self._caps.read_file()


class EventServerLoop(Loop):
    """Queries the OpenADR server for events."""

    name = "OpenADR events"
    fetches = True
    least_pause_s = SLOW_S
    period_s = SERVER_EVERY_S

    def __init__(self, caps: OrderedCaps) -> None:
        self._caps = caps

    async def round(self) -> None:
        """Query the server once."""
        await self._caps.query_server()
