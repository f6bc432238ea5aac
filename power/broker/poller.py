"""Keeps what sites say at hand: asks them all every few seconds, and reads the file of sites again when it changes."""

import asyncio
import logging
import time
from pathlib import Path

from offpeak.errors import OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.settings.broker import BrokerSettings
from plugin.federation.live_cycle import SiteReply
from plugin.federation.sites_file import WatchedSites
from power.broker.ask_sites import heard_of
from power.broker.federation import Federation
from power.broker.sent_jobs import with_sent
from power.broker.snapshots_file import Kept, write_snapshots

PRUNE_EVERY_S = 6 * 3600.0

LOG = logging.getLogger("offpeak.broker")


class Poller:
    """`federation` is always there, with nothing heard before the first round. BadSites for a wrong file of sites."""

    def __init__(self, settings: BrokerSettings, ledger: Ledger, *, socket: Path, state_folder: Path) -> None:
        self._settings, self._ledger, self._socket, self._folder = settings, ledger, socket, state_folder
        self._sites = WatchedSites(settings.sites)
        self._said: dict[str, str] = {}
        self.federation = Federation(self._sites.grid(), {}, settings.stale_s)

    async def run(self) -> None:
        """Ask in rounds, for ever."""
        while True:
            began_s = time.monotonic()
            await self.round()
            await asyncio.sleep(max(0.0, self._settings.poll_s - (time.monotonic() - began_s)))

    async def prune(self) -> None:
        """Delete what is older than the ledger keeps, for ever; the first time at once."""
        while True:
            try:
                await asyncio.to_thread(self._ledger.prune, time.time())
                self._say("the ledger's age", "")
            except OffpeakError as problem:
                self._say("the ledger's age", str(problem))
            await asyncio.sleep(PRUNE_EVERY_S)

    async def round(self) -> None:
        """Ask all sites once."""
        grid = self._sites.grid()
        self._say("file of sites", str(self._sites.problem or ""))
        heard = await heard_of(grid.sites, socket=self._socket, timeout_s=self._settings.timeout_s)
        now = {name: self._or_before(name, each) for name, each in heard.items()}
        self.federation = self._with_sent(Federation(grid, now, self._settings.stale_s, self.federation.sent))
        try:
            write_snapshots(self._folder, Kept(now, self.federation.sent or ()), at_unix_s=time.time())
            self._say("state folder", "")
        except OffpeakError as problem:
            self._say("state folder", str(problem))

    def _with_sent(self, federation: Federation) -> Federation:
        """Return it with the jobs that sites were given; where the ledger does not tell, with those of before."""
        try:
            counted = with_sent(federation, self._ledger.given)
        except OffpeakError as problem:
            self._say("ledger", str(problem))
            return federation
        self._say("ledger", "")
        return counted

    def _or_before(self, name: str, heard: SiteReply) -> SiteReply:
        """Return what a site says; where it is silent, what it said before, which ages until it counts no more."""
        self._say(name, heard.trouble)
        before = self.federation.heard.get(name)
        return before if heard.said is None and before is not None and before.said is not None else heard

    def _say(self, about: str, trouble: str) -> None:
        """Log a trouble when it begins, and its end."""
        if trouble != self._said.get(about, ""):
            LOG.warning("%s: %s", about, trouble or "is well again")
            self._said[about] = trouble
