"""The federation as a broker sees it now: its sites, what they said last, and where a job would go."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offpeak.settings.broker import BrokerSettings
from plugin.federation.choice import SiteChoice
from plugin.federation.jobs import PlacementRequest
from plugin.federation.live_cycle import SentJob, SiteReply, choose, currency_of
from plugin.federation.sites import Grid
from plugin.federation.sites_file import read_sites
from power.broker.snapshots_file import read_snapshots


@dataclass(frozen=True)
class Federation:
    """The sites of `grid`, what was `heard` of them, and the jobs that they were `sent`, None where nobody looked."""

    grid: Grid
    heard: Mapping[str, SiteReply]
    stale_s: float
    sent: tuple[SentJob, ...] | None = None
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def choose(self, request: PlacementRequest, *, without: Mapping[str, str]) -> SiteChoice:
        """Return where the job goes; `without` are sites that cannot have it, and why."""
        heard = {**self.heard, **{site: SiteReply(trouble=why) for site, why in without.items()}}
        now_s = int(self.clock())
        return choose(request, self.grid, heard, now_s=now_s, stale_s=self.stale_s, sent=self.sent or ())

    @property
    def currency(self) -> str:
        """What the sites are paid in that count."""
        return currency_of(self.grid, self.heard, now_s=int(self.clock()))


def federation_unasked(settings: BrokerSettings) -> Federation:
    """Return the federation without anything heard of it, for who only follows jobs."""
    return Federation(read_sites(settings.sites), {}, settings.stale_s)


def federation_now(settings: BrokerSettings, *, socket: Path, state_folder: Path) -> Federation:
    """Return the federation by what its poller has kept, else ask all sites; BadSites for a wrong file of sites."""
    grid = read_sites(settings.sites)
    # Two polls ago: one that is under way must not make everybody ask for themselves.
    kept = read_snapshots(state_folder, not_before_unix_s=time.time() - 2 * settings.poll_s - settings.timeout_s)
    if kept is None or not set(grid.names) <= set(kept.heard):
        return Federation(grid, _asked(grid, settings, socket), settings.stale_s)
    return Federation(grid, kept.heard, settings.stale_s, kept.sent)


def _asked(grid: Grid, settings: BrokerSettings, socket: Path) -> dict[str, SiteReply]:
    # Slow to import: who finds kept answers does without.
    import asyncio

    from power.broker.ask_sites import heard_of

    return asyncio.run(heard_of(grid.sites, socket=socket, timeout_s=settings.timeout_s))
