"""Gives jobs to sites, each exactly once; follows them, and cancels them.

The ledger has the intent before the site gets the job. After a crash the site is asked for the job by its key.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from offpeak.door.door import Door
from offpeak.door.effect import Effect, Mode, Outcome, Refusal
from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SubmissionRecord
from offpeak.model.orders import JobOrder
from offpeak.settings.broker import BrokerSettings
from plugin.federation.choice import SiteChoice, choice_json, time_text
from plugin.scheduler.batch import SUBMIT_S
from services.broker.broker_job import BrokerJob
from services.broker.federation import CANCELLED, FAILED, TAKEN, TRIED, Federation, add_sent_jobs
from services.broker.site_commands import (
    RIGHTS_S,
    NoSite,
    NotKnown,
    SiteCommands,
    SiteRefused,
    UnknownKey,
    commands_of_site,
)

AT_ONCE_S = 5.0
SETTLED_S = AT_ONCE_S + RIGHTS_S + SUBMIT_S
"""So long after an attempt began its command has ended, whoever has died: only then a job that is not there was not
taken."""
REMEMBERED_S = 240.0
"""So long a job that has ended is known to its scheduler at least; MinJobAge of Slurm is 300 s."""
LOOK_EVERY_S = 1.0
MODE_HINT = 'set mode = "active" below [broker] once its records have convinced you'


@dataclass(frozen=True)
class Broker:
    """What jobs are given by: the sites by name, and the door and the ledger that all goes through."""

    federation: Federation
    sites: Mapping[str, SiteCommands]
    ledger: Ledger
    door: Door
    by: str
    clock: Callable[[], float] = time.time
    settled_s: float = SETTLED_S

    async def submit(self, parcel: BrokerJob, key: str) -> SubmissionRecord:
        """Return what became of the job of that key: taken now or before, or cancelled meanwhile.

        NoSite where none can have it, NotKnown where a site may have it, BadInput for the key of another job.
        """
        row = self.ledger.submission(key)
        if row is not None and row.digest != parcel.digest:
            raise BadInput(f"key {key}: another job has it", hint="give this one a key of its own")
        if row is not None and row.state == TRIED:
            row = await self.found_out(row)
        if row is not None and row.state in (TAKEN, CANCELLED):
            return row
        return await self._give(parcel, key, row)

    async def found_out(self, row: SubmissionRecord) -> SubmissionRecord:
        """Return the row of an attempt that nobody saw the end of, with what became of it: taken, or failed."""
        while True:
            standing = await self.at(row.site).find(row.key)
            if standing is not None:
                return self.changed(row, replace(row, state=TAKEN, job=standing.job, message="found there by its key"))
            age_s = self.clock() - row.tried_unix_s
            if age_s > REMEMBERED_S:
                hint = f"look at {row.site}'s accounts for its key, then submit it by another one if it is not there"
                raise NotKnown(f"key {row.key}: {row.site} may have had it, and would have forgotten it", hint=hint)
            if age_s >= self.settled_s:
                return self.changed(row, replace(row, state=FAILED, message=f"{row.site} has no job of this key"))
            await asyncio.sleep(min(LOOK_EVERY_S, self.settled_s - age_s))
            row = self.ledger.submission(row.key) or row
            if row.state != TRIED:
                return row

    async def _give(self, parcel: BrokerJob, key: str, row: SubmissionRecord | None) -> SubmissionRecord:
        without = parcel.not_at(self.federation.grid)
        while True:
            choice = add_sent_jobs(self.federation, self.ledger.given).choose(parcel.request, without=without)
            if choice.site is None:
                raise NoSite(choice.reason, hint="`offpeak choose` shows what is missing at each site")
            row = self._tried(parcel, key, row, choice)
            outcome = await self._through_the_door(parcel, row, choice)
            if isinstance(outcome, Refusal):
                self.changed(row, replace(row, state=FAILED, message=outcome.message))
                raise OffpeakError(outcome.message, hint=MODE_HINT if outcome.rule == "mode" else outcome.hint)
            if outcome.result == "done":
                return self.changed(row, replace(row, state=TAKEN, job=outcome.message, message="accepted"))
            if outcome.trouble != SiteRefused.__name__:
                return await self._doubtful(row, outcome)
            row = self.changed(row, replace(row, state=FAILED, message=outcome.message))
            without = {**without, choice.site: f"refused it: {outcome.message.partition(': ')[2]}"}

    def _tried(self, parcel: BrokerJob, key: str, was: SubmissionRecord | None, choice: SiteChoice) -> SubmissionRecord:
        now_s = self.clock()
        answer = choice_json(choice, now_s=int(now_s), currency=self.federation.currency)
        answer |= {"project": parcel.request.project}
        row = SubmissionRecord(
            key=key,
            at_unix_s=now_s,
            by=self.by,
            digest=parcel.digest,
            site=choice.site or "",
            state=TRIED,
            tried_unix_s=now_s,
            answer=answer,
        )
        return self.changed(was, row if was is None else replace(row, at_unix_s=was.at_unix_s))

    async def _through_the_door(
        self, parcel: BrokerJob, row: SubmissionRecord, choice: SiteChoice
    ) -> Outcome | Refusal:
        site = self.federation.grid.sites[self.federation.grid.index(row.site)]
        errand, request = parcel.errand(row.key, site, choice), parcel.request
        inputs = (("key", row.key), ("cores", request.cores), ("limit_s", request.limit_s))

        async def act() -> str:
            if self.clock() - row.tried_unix_s > AT_ONCE_S:
                raise SiteRefused(f"{row.site}: this machine was too slow to ask it")
            return await self.at(row.site).submit(errand)

        return await self.door.let_through(
            Effect(f"site {row.site}", JobOrder.SUBMIT, self.by, choice.reason, inputs), act
        )

    async def _doubtful(self, row: SubmissionRecord, outcome: Outcome) -> SubmissionRecord:
        """Return the row if the site has the job after all; NotKnown if that cannot be told yet."""
        try:
            standing = await self.at(row.site).find(row.key)
        except NotKnown:
            standing = None
        if standing is None:
            hint = f"offpeak submit --status {row.key} finds out; no other site gets it until then"
            raise NotKnown(f"whether it was taken is not known yet: {outcome.message}", hint=hint)
        return self.changed(row, replace(row, state=TAKEN, job=standing.job, message="found there by its key"))

    def at(self, site: str) -> SiteCommands:
        """Return how a site is told and asked; NotKnown for one that is in the file no more."""
        if site not in self.sites:
            raise NotKnown(f"{site}: is no more in the file of sites", hint="add it again to find out, or to cancel")
        return self.sites[site]

    def changed(self, was: SubmissionRecord | None, now: SubmissionRecord) -> SubmissionRecord:
        """Write what became of a job and return it; NotKnown if somebody else has done so."""
        if not self.ledger.change_submission(was, now):
            hint = f"ask what became of it: offpeak submit --status {now.key}"
            raise NotKnown(f"key {now.key}: somebody else submits it at this moment", hint=hint)
        return now


FORGOTTEN = "took it and knows it no more: it has ended some time ago, or was lost"


async def read_job_state(broker: Broker, key: str) -> dict[str, Any]:
    """Return how the job stands, as JSON's objects; UnknownKey if there is none, NotKnown if its site does not say.

    A job that its site has forgotten is said to be so, and is never submitted again by this key.
    """
    row = await _settle(broker, key)
    said = submission_json(row)
    if row.state != TAKEN:
        return said
    standing = await broker.at(row.site).standing(row.job)
    if standing is None:
        return said | {"said": f"{row.site} {FORGOTTEN}"}
    return said | {"at_site": standing.state}


async def cancel(broker: Broker, key: str) -> SubmissionRecord:
    """Cancel the job at its site, through the door; SiteRefused with what the site says against it."""
    row = await _settle(broker, key)
    if row.state != TAKEN:
        return row
    effect = Effect(
        f"site {row.site}", JobOrder.CANCEL, broker.by, f"asked by key {key}", (("key", key), ("job", row.job))
    )
    answer = await broker.door.let_through(effect, lambda: broker.at(row.site).cancel(row.job))
    if isinstance(answer, Refusal):
        raise OffpeakError(answer.message, hint=MODE_HINT if answer.rule == "mode" else answer.hint)
    if answer.result != "done":
        raise SiteRefused(answer.message, hint=f"offpeak submit --status {key} says how it stands")
    held = row.answer | {"held_s": _longest_run_s(row, broker.clock())}
    return broker.changed(row, replace(row, state=CANCELLED, message=f"cancelled by {broker.by}", answer=held))


def submission_json(row: SubmissionRecord) -> dict[str, Any]:
    """Return a row as JSON's objects."""
    return {
        "key": row.key,
        "state": row.state,
        "site": None if row.state == FAILED else row.site,
        "job": row.job or None,
        "at_site": None,
        "submitted": time_text(row.tried_unix_s),
        "by": row.by,
        "said": row.message,
        "choice": row.answer,
    }


def _longest_run_s(row: SubmissionRecord, now_s: float) -> float:
    """Return how long a job that is cancelled now may have run at most."""
    run_s = (row.answer.get("expected") or {}).get("run_s", 0)
    return float(min(run_s, max(now_s - row.tried_unix_s, 0.0)))


async def _settle(broker: Broker, key: str) -> SubmissionRecord:
    row = broker.ledger.submission(key)
    if row is None:
        raise UnknownKey(f"key {key}: no job was handed over by it", hint="`offpeak history` shows what was submitted")
    return await broker.found_out(row) if row.state == TRIED else row


def make_broker(
    settings: BrokerSettings, federation: Federation, ledger: Ledger, *, by: str, agent_socket: Path
) -> Broker:
    """Return a broker that acts for `by`, as far as the mode lets it; the socket is that of this machine's agent."""
    sites = {
        site.name: commands_of_site(site, agent_socket=agent_socket)
        for site in federation.grid.sites
        if site.reach is not None
    }
    door = Door(lambda _: Mode(settings.mode), journal=ledger, clock=time.time)
    return Broker(federation, sites, ledger, door, by)
