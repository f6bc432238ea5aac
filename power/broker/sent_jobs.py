"""Which jobs count for the next choice since they were given to sites before: as a ledger has them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from offpeak.ledger.rows import SubmissionRecord
from plugin.federation.live_cycle import ON_THE_WAY_S, SentJob
from plugin.federation.sites import Grid
from power.broker.federation import Federation
from power.broker.states import CANCELLED, TAKEN, TRIED

if TYPE_CHECKING:
    # Slow to import: who chooses by what a poller has kept does without.
    from offpeak.ledger.submissions import SiteSubmissions

Ask = Callable[[Sequence[str], float, Mapping[str, float]], "SiteSubmissions"]
"""Looks into a ledger: `given` of a Ledger is one."""
STATES = (TRIED, TAKEN, CANCELLED)
"""A site may have had these jobs."""


def with_sent(federation: Federation, given: Ask) -> Federation:
    """Return the federation with the jobs that its sites were given, older ones as one for each site and project."""
    recent_s = federation.clock() - federation.stale_s - ON_THE_WAY_S
    periods_s = _periods_s(federation.grid)
    found = given(STATES, recent_s, periods_s)
    older = [
        SentJob(site, periods_s[site], cores=1, held_s=core_s, project=project, there=False)
        for (site, project), core_s in sorted(found.core_s.items())
    ]
    return replace(federation, sent=(*older, *map(sent_of, found.recent)))


def sent_of(row: SubmissionRecord) -> SentJob:
    """Return what a row says; one that is older than these figures holds nothing."""
    expected = row.answer.get("expected") or {}
    return SentJob(
        row.site,
        row.tried_unix_s,
        int(expected.get("cores", 0)),
        float(row.answer.get("held_s", expected.get("run_s", 0))),
        str(row.answer.get("project", "")),
        there=row.state != CANCELLED,
    )


def _periods_s(grid: Grid) -> dict[str, float]:
    """Return when the allocations of sites began; those without a beginning have always been."""
    return {site.name: float(site.allocations_since_s or 0) for site in grid.sites if site.allocations is not None}
