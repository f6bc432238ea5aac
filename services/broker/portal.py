"""The requests of portals to the broker, as functions of JSON: choose, submit, follow, cancel, and list sites."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from offpeak.errors import BadInput
from offpeak.ledger.ledger import Ledger
from offpeak.model.time_range import parse_instant
from offpeak.model.units import parse_duration_s
from offpeak.settings.broker import BrokerSettings
from plugin.federation.choice import time_text
from plugin.federation.job_script import MOST_BYTES
from plugin.federation.jobs import parse_goal
from plugin.federation.reach import LOCAL
from services.broker.agent_snapshot import read_agent_snapshot
from services.broker.broker_job import BrokerJob, JobPreferences, check_key, make_broker_job
from services.broker.federation import Federation, add_sent_jobs, make_choice
from services.broker.site_poller import Poller
from services.broker.submission import Broker, cancel, make_broker, read_job_state, submission_json

Short = Annotated[str, Field(max_length=200)]


@checked(frozen=True, config={"extra": "forbid"})
class PortalRequest:
    """The body of a question about a job."""

    script: Annotated[str, Field(max_length=MOST_BYTES)]
    name: Short = "portal.sh"
    arguments: tuple[Short, ...] = ()
    user: Annotated[str, Field(pattern=r"^[\w.@-]{1,64}$")] = "nobody"
    key: Short | None = None
    goal: Short = "co2"
    latest_finish: Short | None = None
    cores: Annotated[int, Field(ge=1)] | None = None
    time: Short | None = None
    application: Short | None = None


@dataclass(frozen=True)
class BrokerPortal:
    """The answers; OffpeakError where there is none."""

    poller: Poller
    settings: BrokerSettings
    ledger: Ledger
    socket: Path

    def choose(self, body: object) -> dict[str, Any]:
        """Say where a job would go."""
        asked = parse_portal_request(body)
        return make_choice(self.federation(), self._parcel(asked))

    def federation(self) -> Federation:
        """Return the federation as the poller saw it last, with the jobs that its sites were given until now."""
        return add_sent_jobs(self.poller.federation, self.ledger.given)

    def submit(self, body: object) -> dict[str, Any]:
        """Submit a job, once for each key; a portal names its key, so that it may ask again."""
        asked = parse_portal_request(body)
        if asked.key is None:
            raise BadInput("key: is missing", hint="one key for each job: who asks again with it submits nothing twice")
        key, parcel = check_key(asked.key), self._parcel(asked)
        return submission_json(asyncio.run(self._broker(f"portal {asked.user}").submit(parcel, key)))

    def standing(self, key: str) -> dict[str, Any]:
        """Say how a job stands."""
        return asyncio.run(read_job_state(self._broker("portal"), check_key(key)))

    def cancel(self, key: str) -> dict[str, Any]:
        """Cancel a job."""
        return submission_json(asyncio.run(cancel(self._broker("portal"), check_key(key))))

    def sites(self) -> dict[str, Any]:
        """Say when each site answered last, and what is wrong."""
        heard = self.poller.federation.heard
        return {name: _site_state(heard, name) for name in self.poller.federation.grid.names}

    def snapshot(self, site: str) -> bytes:
        """Return what this site's agent tells brokers; BadInput where `site` is none of this machine."""
        own = [each.name for each in self.poller.federation.grid.sites if each.reach and each.reach.way == LOCAL]
        if site not in own:
            hint = (
                f"a site has the same name in both files of sites; here: {', '.join(own) or 'no site with reach local'}"
            )
            raise BadInput(f"{site}: is not a site of this broker", hint=hint)
        return asyncio.run(read_agent_snapshot(self.socket))

    def _parcel(self, asked: PortalRequest) -> BrokerJob:
        latest_s = None if asked.latest_finish is None else int(parse_instant(asked.latest_finish))
        limit_s = None if asked.time is None else parse_duration_s(asked.time)
        wishes = JobPreferences(parse_goal(asked.goal), latest_s, asked.cores, limit_s, asked.application)
        grid = self.poller.federation.grid
        return make_broker_job(asked.script, asked.name, asked.arguments, wishes=wishes, grid=grid)

    def _broker(self, by: str) -> Broker:
        return make_broker(self.settings, self.poller.federation, self.ledger, by=by, agent_socket=self.socket)


def parse_portal_request(body: object) -> PortalRequest:
    """Return the body of a question; BadInput for what is wrong in it."""
    try:
        return TypeAdapter(PortalRequest).validate_python(body)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise BadInput(f"{place}: {first['msg'].lower()}", hint="docs/reference/broker.md shows every key") from None


def _site_state(heard: Mapping[str, Any], name: str) -> dict[str, Any]:
    each = heard.get(name)
    if each is None or each.said is None:
        return {"answered": None, "trouble": each.trouble if each else "was not asked yet"}
    said = each.said
    return {
        "answered": time_text(said.at_unix_s),
        "trouble": each.trouble,
        "idle_cores": said.idle_cores,
        "queued": said.queued,
        "running": said.running,
    }
