"""The federation as the broker sees it now: its sites, their latest reports, and where a job would go.

The poller keeps the reports of all sites in a file, so that a command that only chooses need not ask every site. The
jobs that sites were given before count for the next choice; the ledger has them, with the states of a submission.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpeak.files import replacing
from offpeak.ledger.rows import SubmissionRecord
from offpeak.settings.broker import BrokerSettings
from plugin.federation.choice import SiteChoice, choice_json
from plugin.federation.jobs import PlacementRequest
from plugin.federation.live_cycle import ON_THE_WAY_S, SentJob, SiteReply, choose, currency_of
from plugin.federation.site_report import parse_report, report_json
from plugin.federation.sites import Grid
from plugin.federation.sites_file import read_sites
from services.broker.broker_job import BrokerJob

if TYPE_CHECKING:
    from offpeak.ledger.submissions import SiteSubmissions

TRIED, TAKEN, FAILED, CANCELLED = "tried", "taken", "failed", "cancelled"

SNAPSHOTS_FILE = "federation.json"


@dataclass(frozen=True)
class FederationSnapshot:
    """The last `replies` of sites, and the jobs that they were `sent`."""

    replies: Mapping[str, SiteReply]
    sent: tuple[SentJob, ...] = ()


def write_snapshots(folder: Path, kept: FederationSnapshot, *, at_unix_s: float) -> None:
    """Replace the file in the state folder. CannotWrite if that fails."""
    sites = {name: {"said": _report_json(reply), "trouble": reply.problem} for name, reply in kept.replies.items()}
    sent = [vars(job) for job in kept.sent]
    with replacing(folder / SNAPSHOTS_FILE) as file:
        file.write(json.dumps({"at_unix_s": at_unix_s, "sites": sites, "sent": sent}).encode())


def read_snapshots(folder: Path, *, not_before_unix_s: float) -> FederationSnapshot | None:
    """Return the content of the file, None if there is no file, if it is too old, or if it cannot be parsed."""
    try:
        content = json.loads((folder / SNAPSHOTS_FILE).read_bytes())
        if content["at_unix_s"] < not_before_unix_s:
            return None
        replies = {name: _parse_report(site["said"], str(site["trouble"])) for name, site in content["sites"].items()}
        return FederationSnapshot(replies, tuple(SentJob(**job) for job in content["sent"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _report_json(reply: SiteReply) -> object:
    return None if reply.report is None else report_json(reply.report)


def _parse_report(content: object, problem: str) -> SiteReply:
    return SiteReply(None if content is None else parse_report(content), problem)


@dataclass(frozen=True)
class Federation:
    """The sites of `grid`, their last `replies`, and the jobs that they were `sent`, None if these were not read."""

    grid: Grid
    replies: Mapping[str, SiteReply]
    stale_s: float
    sent: tuple[SentJob, ...] | None = None
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def choose(self, request: PlacementRequest, *, without: Mapping[str, str]) -> SiteChoice:
        """Return the site for a job; `without` are sites that cannot run it, with the reasons."""
        replies = {**self.replies, **{site: SiteReply(problem=why) for site, why in without.items()}}
        now_s = int(self.clock())
        return choose(request, self.grid, replies, now_s=now_s, stale_s=self.stale_s, sent=self.sent or ())

    @property
    def currency(self) -> str:
        """The currency of the sites that can be chosen."""
        return currency_of(self.grid, self.replies, now_s=int(self.clock()))


def federation_without_reports(settings: BrokerSettings) -> Federation:
    """Return the federation without replies of its sites, for commands that only follow jobs."""
    return Federation(read_sites(settings.sites), {}, settings.stale_s)


ReadSubmissions = Callable[[Sequence[str], float, Mapping[str, float]], "SiteSubmissions"]
"""Reads the submissions of a ledger, as `Ledger.given` does."""
COUNTED_STATES = (TRIED, TAKEN, CANCELLED)
"""States of jobs that a site may have run."""


def add_sent_jobs(federation: Federation, given: ReadSubmissions) -> Federation:
    """Return the federation with the jobs of its sites; older ones are summed up for each site and project."""
    recent_s = federation.clock() - federation.stale_s - ON_THE_WAY_S
    periods_s = _periods_s(federation.grid)
    found = given(COUNTED_STATES, recent_s, periods_s)
    older = [
        SentJob(site, periods_s[site], cores=1, held_s=core_s, project=project, there=False)
        for (site, project), core_s in sorted(found.core_s.items())
    ]
    return replace(federation, sent=(*older, *map(sent_job_of, found.recent)))


def sent_job_of(row: SubmissionRecord) -> SentJob:
    """Return the job of a row; a row of an older version has no figures."""
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
    """Return the begin of the allocations of sites, 0 if they have none."""
    return {site.name: float(site.allocations_since_s or 0) for site in grid.sites if site.allocations is not None}


def make_choice(federation: Federation, job: BrokerJob) -> dict[str, Any]:
    """Return the choice as JSON of `choice_json`. BadInput for a feature or an application that no site has."""
    choice = federation.choose(job.request, without=job.not_at(federation.grid))
    return choice_json(choice, now_s=int(time.time()), currency=federation.currency)
