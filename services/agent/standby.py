"""The standby agent of a pair of head nodes: it waits for the lease of the ledger, and observes and orders nothing.

Its socket answers who is active, refuses orders with the name of that host, and promises no wakes.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from offpeak.door.journal import LeaseState
from offpeak.errors import BadLedger, OffpeakError
from offpeak.ledger.lease import POLLS
from offpeak.ledger.ledger import Ledger
from offpeak.process import AlreadyRunning
from offpeak.services.agent.loop import LOG
from offpeak.services.agent.reports import find_day_and_month
from offpeak.services.agent.site_context import SiteContext, make_site_context
from offpeak.services.agent.socket_server import SocketServer, serve_socket
from offpeak.services.agent.status import NO_SCHEDULER, PriceStatus, StatusReply, StatusSnapshot
from offpeak.settings.table import Settings

LONGEST_POLL_S = 5.0


class Standby:
    """Waits until this agent holds the lease. `ended` is set by SIGTERM and SIGINT; SIGHUP reads `settings` again."""

    def __init__(self, settings: Settings, ledger: Ledger, reread: Callable[[], Settings]) -> None:
        self.settings, self.ended = settings, asyncio.Event()
        self._ledger, self._reread, self._site = ledger, reread, make_site_context(settings)
        self._problem = ""

    async def wait(self, on_wait: Callable[[SiteContext], None], report: Callable[[str], None]) -> bool:
        """Return True with the lease, False if a signal ends the wait. Raises BadLedger, or BadInput for the socket.

        `on_wait` gets the site at the begin of a wait; `report` gets the line of status after each poll.
        """
        event_loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            event_loop.add_signal_handler(number, self.ended.set)
        event_loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            if await self._take():
                return True
            on_wait(self._site)
            server = SocketServer(
                callers=self._site.callers,
                published=self._status,
                receive=self._refuse,
                report=self._refuse,
                snapshot=lambda _: self._snapshot(),
                plan=self._refuse,
                bills=self._refuse,
                # A program that wakes nodes of which no agent takes care leaves those of the active agent alone.
                wakes=lambda: tuple(self._site.machines) if self._state.has_peer else (),
                change_hold=self._refuse,
                order_caps=self._refuse,
                order_event=self._refuse,
                receive_sweep=self._refuse,
            )
            shown = ""
            async with serve_socket(self.settings.agent.socket, server):
                while not self.ended.is_set():
                    if shown != self._state.text:
                        shown = self._state.text
                        LOG.info("%s", shown)
                    report(shown)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(min(LONGEST_POLL_S, self.settings.ledger.lease_s / POLLS)):
                            await self.ended.wait()
                    if not self.ended.is_set() and await self._take():
                        return True
            return False
        finally:
            await self._site.close()

    async def _take(self) -> bool:
        try:
            await asyncio.to_thread(self._ledger.claim, stands_by=True)
        except BadLedger:
            raise
        except AlreadyRunning:
            self._problem = ""
        except OffpeakError as problem:
            self._problem = f"{problem}; {problem.hint}"
        else:
            return True
        return False

    @property
    def _state(self) -> LeaseState:
        state = self._ledger.lease.state()
        assert state is not None
        return state

    def _reload(self) -> None:
        try:
            self.settings = self._reread()
        except OffpeakError as problem:
            LOG.error("settings: the old ones stay in force: %s; %s", problem, problem.hint)
        else:
            LOG.info("settings are read again: they take effect when this agent becomes active")

    def _refuse(self, *_: object) -> NoReturn:
        hint = "give the order on that host" if self._state.has_peer else "no agent acts now; it is tried again"
        raise OffpeakError(self._state.text, hint=hint)

    def _status(self) -> StatusReply:
        now_s = time.time()
        return StatusReply(
            at_unix_s=now_s,
            mode=str(self._site.modes.usual),
            cluster="",
            scheduler=NO_SCHEDULER,
            cycle_s=self.settings.agent.cycle_s,
            price=PriceStatus(None, "", ""),
            problems=(self._problem,) if self._problem else (),
            now_unix_s=now_s,
            has_looked=False,
            lease=self._state,
        )

    def _snapshot(self) -> StatusSnapshot:
        status, zone = self._status(), self._site.zone
        return StatusSnapshot(status, str(zone), *find_day_and_month(status.at_unix_s, zone))
