"""The requests of portals to the broker, as functions of JSON: choose, submit, follow, cancel, and list sites."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from offpeak.display import utc_text
from offpeak.errors import BadInput
from offpeak.ledger.ledger import Ledger
from offpeak.model.time_range import parse_instant
from offpeak.model.units import parse_duration_s
from offpeak.plugin.federation.job_script import MOST_BYTES
from offpeak.plugin.federation.sites import LOCAL
from offpeak.services.broker.client import read_agent_snapshot
from offpeak.services.broker.federation import (
    BrokerJob,
    Federation,
    add_sent_jobs,
    check_key,
    make_broker_job,
    make_choice,
    make_preferences,
)
from offpeak.services.broker.site_poller import Poller
from offpeak.services.broker.submission import Broker, cancel, make_broker, read_job_state, submission_json
from offpeak.settings.broker import BrokerSettings

Short = Annotated[str, Field(max_length=200)]


@checked(frozen=True, config={"extra": "forbid"})
class PortalRequest:
    """The body of a request about a job."""

    script: Annotated[str, Field(max_length=MOST_BYTES)]
    name: Short = "portal.sh"
    arguments: tuple[Short, ...] = ()
    user: Annotated[str, Field(pattern=r"^[\w.@-]{1,64}$")] = "nobody"
    key: Short | None = None
    goal: Short | None = None
    latest_finish: Short | None = None
    cores: Annotated[int, Field(ge=1)] | None = None
    time: Short | None = None
    application: Short | None = None
    data: Short | None = None
    data_at: Short | None = None


@dataclass(frozen=True)
class BrokerPortal:
    """The replies to portals. Raises OffpeakError if there is none."""

    poller: Poller
    settings: BrokerSettings
    ledger: Ledger
    socket: Path

    def choose(self, body: object) -> dict[str, Any]:
        """Return the site for a job."""
        request = parse_portal_request(body)
        return make_choice(self.federation(), self._make_job(request))

    def federation(self) -> Federation:
        """Return the federation as the poller knows it, with all jobs that its sites have got."""
        return add_sent_jobs(self.poller.federation, self.ledger.given)

    def submit(self, body: object) -> dict[str, Any]:
        """Submit a job, once for each key; a portal names the key, so that it may repeat the request."""
        request = parse_portal_request(body)
        if request.key is None:
            raise BadInput(
                "key: is missing", hint="one key for each job: a repeated request with it submits nothing twice"
            )
        key, job = check_key(request.key), self._make_job(request)
        return submission_json(asyncio.run(self._broker(f"portal {request.user}").submit(job, key)))

    def job_state(self, key: str) -> dict[str, Any]:
        """Return the state of a job."""
        return asyncio.run(read_job_state(self._broker("portal"), check_key(key)))

    def cancel(self, key: str) -> dict[str, Any]:
        """Cancel a job."""
        return submission_json(asyncio.run(cancel(self._broker("portal"), check_key(key))))

    def sites(self) -> dict[str, Any]:
        """Return the time of the last reply of each site, and its problem."""
        replies = self.poller.federation.replies
        return {name: _site_state(replies, name) for name in self.poller.federation.grid.names}

    def snapshot(self, site: str) -> bytes:
        """Return the report of this site's agent. Raises BadInput if `site` is not on this machine."""
        sites = self.poller.federation.grid.sites
        own = [known.name for known in sites if known.reach and known.reach.way == LOCAL]
        if site not in own:
            hint = (
                f"a site has the same name in both files of sites; here: {', '.join(own) or 'no site with reach local'}"
            )
            raise BadInput(f"{site}: is not a site of this broker", hint=hint)
        return asyncio.run(read_agent_snapshot(self.socket))

    def _make_job(self, request: PortalRequest) -> BrokerJob:
        latest_s = None if request.latest_finish is None else int(parse_instant(request.latest_finish))
        limit_s = None if request.time is None else parse_duration_s(request.time)
        preferences = make_preferences(
            self.settings.policy,
            goal=request.goal,
            data=request.data,
            data_at=request.data_at,
            latest_end_s=latest_s,
            cores=request.cores,
            limit_s=limit_s,
            application=request.application,
        )
        grid = self.poller.federation.grid
        return make_broker_job(request.script, request.name, request.arguments, preferences=preferences, grid=grid)

    def _broker(self, by: str) -> Broker:
        return make_broker(self.settings, self.poller.federation, self.ledger, by=by, agent_socket=self.socket)


def parse_portal_request(body: object) -> PortalRequest:
    """Return the request of a body. Raises BadInput for an error in it."""
    try:
        return TypeAdapter(PortalRequest).validate_python(body)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise BadInput(f"{place}: {first['msg'].lower()}", hint="docs/reference/broker.md shows every key") from None


def _site_state(replies: Mapping[str, Any], name: str) -> dict[str, Any]:
    reply = replies.get(name)
    if reply is None or reply.report is None:
        return {"answered": None, "trouble": reply.problem if reply else "was not asked yet"}
    report = reply.report
    return {
        "answered": utc_text(report.at_unix_s),
        "trouble": reply.problem,
        "idle_cores": report.idle_cores,
        "queued": report.queued,
        "running": report.running,
    }
