"""Polls all sites at the same time, every few seconds: a site that is slow or broken delays no other.

The poller reads the file of sites again when it changes, and keeps the reports of the sites.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path

from offpeak.errors import NoAnswer, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.machines.credentials import read_secret
from offpeak.model.constants import HOUR_S
from offpeak.plugin.federation.live_cycle import SiteReply
from offpeak.plugin.federation.site_report import parse_report
from offpeak.plugin.federation.sites import SSH, Reach, Site
from offpeak.plugin.federation.sites_file import WatchedSites
from offpeak.services.broker.client import MOST_BYTES, read_agent_snapshot
from offpeak.services.broker.federation import (
    Federation,
    FederationSnapshot,
    add_sent_jobs,
    make_federation,
    write_snapshots,
)
from offpeak.services.broker.signatures import ANSWER, REQUEST, check_answer, check_stamp, new_stamp
from offpeak.services.broker.site_commands import reach_of, route_of
from offpeak.settings.broker import BrokerSettings
from offpeak.web_session import WebSession, read_body

MOST_AHEAD_S = 60.0
"""A site whose clock differs by more is left out: the age of its answers and its hours would be wrong."""
SNAPSHOT = ("offpeak", "snapshot")
PAGE = "/v1/snapshot"


async def poll_sites(sites: Iterable[Site], *, socket: Path, timeout_s: float) -> dict[str, SiteReply]:
    """Return the report of each site, or the reason why there is none; `socket` is that of this machine's agent."""
    polled = list(sites)
    answers = await asyncio.gather(*(_poll_site(site, socket, timeout_s) for site in polled))
    return {site.name: answer for site, answer in zip(polled, answers, strict=True)}


async def _poll_site(site: Site, socket: Path, timeout_s: float) -> SiteReply:
    if site.reach is None:
        return SiteReply(problem="its table in the file of sites has no reach")
    requested_s = time.time()
    try:
        async with asyncio.timeout(timeout_s):
            report = parse_report(json.loads(await _read_report(site, socket, timeout_s)))
        ahead_s = report.ahead_s(requested_s, time.time())
        if abs(ahead_s) > MOST_AHEAD_S:
            text = f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the broker's"
            return SiteReply(problem=f"its clock is {text}: set both by a time server (`chronyc tracking`)")
        return SiteReply(report)
    except TimeoutError:
        return SiteReply(problem=f"its agent did not answer within {timeout_s:g} s")
    except OffpeakError as problem:
        return SiteReply(problem=f"its agent does not answer: {problem}")
    except OSError as problem:
        return SiteReply(problem=f"its agent does not answer: {_cause(problem)}")
    except Exception as problem:
        # The answer of one site, whatever it is, keeps no other one from being used.
        error = next(iter(str(problem).splitlines()), type(problem).__name__)
        return SiteReply(problem=f"its agent's answer makes no sense: is it of another version? {error}")


def _cause(problem: BaseException) -> str:
    """Return the error of the system, which requests wraps in a text of its own."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(problem).__name__


async def _read_report(site: Site, socket: Path, timeout_s: float) -> bytes:
    reach = reach_of(site)
    if reach.by_http:
        return await asyncio.to_thread(_read_over_http, site.name, reach, timeout_s)
    if reach.way == SSH:
        result = await route_of(site).run(SNAPSHOT, timeout_s=timeout_s)
        if result.code != 0:
            lines = result.complaint.strip().splitlines()
            raise NoAnswer(lines[0] if lines else f"{' '.join(SNAPSHOT)} ended with {result.code}")
        return result.output.encode()
    return await read_agent_snapshot(Path(reach.agent) if reach.agent else socket)


def _read_over_http(site: str, reach: Reach, timeout_s: float) -> bytes:
    assert reach.secret_file is not None
    secret, stamp = read_secret(reach.secret_file), new_stamp(site, time.time())
    headers = stamp.headers(secret, REQUEST, f"GET {PAGE}".encode())
    address = reach.agent.rstrip("/") + PAGE
    with (
        WebSession() as session,
        session.within(timeout_s),
        session.get(address, headers=headers, timeout=timeout_s, stream=True, allow_redirects=False) as answer,
    ):
        body = read_body(answer, most_bytes=MOST_BYTES)
    if body is None:
        raise NoAnswer(f"more than {MOST_BYTES} bytes from {address}")
    if answer.status_code != 200:
        raise NoAnswer(f"HTTP {answer.status_code} from {address}: {_why(body)}")
    check_answer(check_stamp(secret, ANSWER, answer.headers, body), stamp)
    return body


def _why(body: bytes) -> str:
    try:
        error = json.loads(body)
        return " ".join(f"{error['error']} ({error['hint']})"[:300].split())
    except (ValueError, KeyError, TypeError):
        return "it gave no reason"


PRUNE_EVERY_S = 6 * HOUR_S

LOG = logging.getLogger("offpeak.broker")


class Poller:
    """Keeps the `federation`, without replies before the first round. Raises BadSites for a wrong file of sites."""

    def __init__(self, settings: BrokerSettings, ledger: Ledger, *, socket: Path, state_folder: Path) -> None:
        self._settings, self._ledger, self._socket, self._folder = settings, ledger, socket, state_folder
        self._sites = WatchedSites(settings.sites)
        self._reported: dict[str, str] = {}
        self._polling = asyncio.Lock()
        self.federation = make_federation(settings, self._sites.grid(), {})

    async def run(self) -> None:
        """Poll in rounds until cancelled."""
        while True:
            began_s = time.monotonic()
            await self.round()
            await asyncio.sleep(max(0.0, self._settings.poll_s - (time.monotonic() - began_s)))

    async def prune(self) -> None:
        """Prune the ledger at once, and then once in a period, until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self._ledger.prune, time.time())
                self._report("the ledger's age", "")
            except OffpeakError as problem:
                self._report("the ledger's age", str(problem))
            await asyncio.sleep(PRUNE_EVERY_S)

    async def round(self) -> None:
        """Poll all sites once; rounds follow each other."""
        async with self._polling:
            grid = self._sites.grid()
            self._report("file of sites", str(self._sites.problem or ""))
            replies = await poll_sites(grid.sites, socket=self._socket, timeout_s=self._settings.timeout_s)
            now = {name: self._or_before(name, reply) for name, reply in replies.items()}
            self.federation = self._with_sent(make_federation(self._settings, grid, now, self.federation.sent))
            try:
                write_snapshots(
                    self._folder, FederationSnapshot(now, self.federation.sent or ()), at_unix_s=time.time()
                )
                self._report("state folder", "")
            except OffpeakError as problem:
                self._report("state folder", str(problem))

    def _with_sent(self, federation: Federation) -> Federation:
        """Return the federation with the jobs of its sites, or with those of before if the ledger does not answer."""
        try:
            counted = add_sent_jobs(federation, self._ledger.given)
        except OffpeakError as problem:
            self._report("ledger", str(problem))
            return federation
        self._report("ledger", "")
        return counted

    def _or_before(self, name: str, reply: SiteReply) -> SiteReply:
        """Return the reply of a site, or the one before if the site is silent, until that is too old."""
        self._report(name, reply.problem)
        before = self.federation.replies.get(name)
        return before if reply.report is None and before is not None and before.report is not None else reply

    def _report(self, about: str, problem: str) -> None:
        """Log the begin and the end of a problem."""
        if problem != self._reported.get(about, ""):
            LOG.warning("%s: %s", about, problem or "is well again")
            self._reported[about] = problem
