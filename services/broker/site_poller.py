"""Polls all sites at the same time, every few seconds: a site that is slow or broken delays no other.

The poller reads the file of sites again when it changes, and keeps what sites reported.
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
from offpeak.settings.broker import BrokerSettings
from offpeak.web_session import WebSession, read_body
from plugin.federation.live_cycle import SiteReply
from plugin.federation.reach import SSH, Reach
from plugin.federation.site_report import parse_report
from plugin.federation.sites import Site
from plugin.federation.sites_file import WatchedSites
from services.broker.agent_snapshot import MOST_BYTES, read_agent_snapshot
from services.broker.federation import Federation, FederationSnapshot, add_sent_jobs, write_snapshots
from services.broker.signatures import ANSWER, REQUEST, check_answer, check_stamp, new_stamp
from services.broker.site_commands import reach_of, route_of

SNAPSHOT = ("offpeak", "snapshot")
PAGE = "/v1/snapshot"


async def poll_sites(sites: Iterable[Site], *, socket: Path, timeout_s: float) -> dict[str, SiteReply]:
    """Return what each site said, or why it said nothing; `socket` is that of this machine's agent."""
    asked = list(sites)
    answers = await asyncio.gather(*(_poll_site(site, socket, timeout_s) for site in asked))
    return {site.name: answer for site, answer in zip(asked, answers, strict=True)}


async def _poll_site(site: Site, socket: Path, timeout_s: float) -> SiteReply:
    if site.reach is None:
        return SiteReply(trouble="its table in the file of sites has no reach")
    try:
        async with asyncio.timeout(timeout_s):
            return SiteReply(parse_report(json.loads(await _read_report(site, socket, timeout_s))))
    except TimeoutError:
        return SiteReply(trouble=f"its agent did not answer within {timeout_s:g} s")
    except ValueError as problem:
        said = str(problem).splitlines()[0]
        return SiteReply(trouble=f"its agent's answer makes no sense: is it of another version? {said}")
    except OffpeakError as problem:
        return SiteReply(trouble=f"its agent does not answer: {problem}")
    except OSError as problem:
        return SiteReply(trouble=f"its agent does not answer: {_cause(problem)}")


def _cause(problem: BaseException) -> str:
    """Return what the system said, which requests wraps in words of its own."""
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
        ran = await route_of(site).run(SNAPSHOT, timeout_s=timeout_s)
        if ran.code != 0:
            raise NoAnswer((ran.complaint.strip().splitlines() or [f"{' '.join(SNAPSHOT)} ended with {ran.code}"])[0])
        return ran.output.encode()
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
        said = json.loads(body)
        return " ".join(f"{said['error']} ({said['hint']})"[:300].split())
    except (ValueError, KeyError, TypeError):
        return "it did not say why"


PRUNE_EVERY_S = 6 * HOUR_S

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
        heard = await poll_sites(grid.sites, socket=self._socket, timeout_s=self._settings.timeout_s)
        now = {name: self._or_before(name, each) for name, each in heard.items()}
        self.federation = self._with_sent(Federation(grid, now, self._settings.stale_s, self.federation.sent))
        try:
            write_snapshots(self._folder, FederationSnapshot(now, self.federation.sent or ()), at_unix_s=time.time())
            self._say("state folder", "")
        except OffpeakError as problem:
            self._say("state folder", str(problem))

    def _with_sent(self, federation: Federation) -> Federation:
        """Return it with the jobs that sites were given; where the ledger does not tell, with those of before."""
        try:
            counted = add_sent_jobs(federation, self._ledger.given)
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
