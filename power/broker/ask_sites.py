"""Asks all sites at the same time how they are: who is slow or broken holds nobody up."""

import asyncio
import json
import time
from collections.abc import Iterable
from pathlib import Path

from offpeak.errors import NoAnswer, OffpeakError
from offpeak.machines.credentials import read_secret
from offpeak.web_session import WebSession, read_body
from plugin.federation.live_cycle import SiteReply
from plugin.federation.reach import SSH, Reach
from plugin.federation.site_report import parse_report
from plugin.federation.sites import Site
from power.broker.over_socket import MOST_BYTES, over_socket
from power.broker.routes import reach_of, route_of
from power.broker.signed import ANSWER, REQUEST, check_answer, checked_stamp, new_stamp

SNAPSHOT = ("offpeak", "snapshot")
PAGE = "/v1/snapshot"


async def heard_of(sites: Iterable[Site], *, socket: Path, timeout_s: float) -> dict[str, SiteReply]:
    """Return what each site said, or why it said nothing; `socket` is that of this machine's agent."""
    asked = list(sites)
    answers = await asyncio.gather(*(_heard(site, socket, timeout_s) for site in asked))
    return {site.name: answer for site, answer in zip(asked, answers, strict=True)}


async def _heard(site: Site, socket: Path, timeout_s: float) -> SiteReply:
    if site.reach is None:
        return SiteReply(trouble="its table in the file of sites has no reach")
    try:
        async with asyncio.timeout(timeout_s):
            return SiteReply(parse_report(json.loads(await _text(site, socket, timeout_s))))
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


async def _text(site: Site, socket: Path, timeout_s: float) -> bytes:
    reach = reach_of(site)
    if reach.by_http:
        return await asyncio.to_thread(_over_http, site.name, reach, timeout_s)
    if reach.way == SSH:
        ran = await route_of(site).run(SNAPSHOT, timeout_s=timeout_s)
        if ran.code != 0:
            raise NoAnswer((ran.complaint.strip().splitlines() or [f"{' '.join(SNAPSHOT)} ended with {ran.code}"])[0])
        return ran.output.encode()
    return await over_socket(Path(reach.agent) if reach.agent else socket)


def _over_http(site: str, reach: Reach, timeout_s: float) -> bytes:
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
    check_answer(checked_stamp(secret, ANSWER, answer.headers, body), stamp)
    return body


def _why(body: bytes) -> str:
    try:
        said = json.loads(body)
        return " ".join(f"{said['error']} ({said['hint']})"[:300].split())
    except (ValueError, KeyError, TypeError):
        return "it did not say why"
