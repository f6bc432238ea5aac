"""Submits jobs to sites, each exactly once; follows them, and cancels them.

The ledger records the intent before the site gets the job. After a crash the broker looks for the job at the site by
its key.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from offpeak.display import utc_text
from offpeak.door.door import Door
from offpeak.door.effect import Effect, Mode, Outcome, Refusal
from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SubmissionRecord
from offpeak.model.orders import JobOrder
from offpeak.plugin.federation.cycle import SiteChoice, choice_json
from offpeak.plugin.scheduler.batch import SUBMIT_S
from offpeak.services.broker.federation import (
    CANCELLED,
    FAILED,
    TAKEN,
    TRIED,
    WAITING,
    BrokerJob,
    Federation,
    add_sent_jobs,
    job_json,
)
from offpeak.services.broker.site_commands import (
    RIGHTS_S,
    NoSite,
    NotKnown,
    SiteCommands,
    SiteRefused,
    UnknownKey,
    commands_of_site,
)
from offpeak.settings.broker import TOGETHER, BrokerSettings

AT_ONCE_S = 5.0
SETTLED_S = AT_ONCE_S + RIGHTS_S + SUBMIT_S
"""Then an attempt's command has ended, even after a crash: a job that is not at the site by then was not taken."""
REMEMBERED_S = 240.0
"""The least time for which a scheduler shows a job that has ended; MinJobAge of Slurm is 300 s."""
LOOK_EVERY_S = 1.0
MODE_HINT = 'set mode = "active" below [broker] once its records have convinced you'


STORED, REFUSED = "job", "refused"
"""Keys of the answer of a stored job: the job itself until a site has it, and why sites refused it."""


class ChangedMeanwhile(NotKnown):
    """Another process changed the record of the job since it was read."""


def without_job(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer without the stored job."""
    return {name: value for name, value in answer.items() if name not in (STORED, REFUSED)}


def refusal_text(message: str) -> str:
    """Return why a site refused a job, for the reasons by site."""
    return f"refused it: {message.partition(': ')[2]}"


@dataclass(frozen=True)
class Broker:
    """Submits jobs: the commands of the sites by name, the door for all orders, and the ledger of all attempts.

    Jobs are stored for the cycles of the daemon, every `cycle_s`, or submitted at once if that is None.
    """

    federation: Federation
    sites: Mapping[str, SiteCommands]
    ledger: Ledger
    door: Door
    by: str
    clock: Callable[[], float] = time.time
    settled_s: float = SETTLED_S
    cycle_s: int | None = None

    async def submit(self, job: BrokerJob, key: str) -> SubmissionRecord:
        """Submit the job of that key unless a site has it, and return its record: taken, or cancelled meanwhile.

        With a policy that places jobs together, store the job for the next cycle: waiting. Raises NoSite if no site can
        run it, NotKnown if a site may have it, BadInput for the key of another job.
        """
        row = self.ledger.submission(key)
        if row is not None and row.digest != job.digest:
            raise BadInput(f"key {key}: another job has it", hint="give this one a key of its own")
        if row is not None and row.state == TRIED:
            row = await self.settle_attempt(row)
        if row is not None and row.state in (TAKEN, CANCELLED, WAITING):
            return row
        if self.cycle_s is not None:
            return self._store(job, key, row)
        return await self._give(job, key, row)

    def _store(self, job: BrokerJob, key: str, was: SubmissionRecord | None) -> SubmissionRecord:
        """Store the job for the next cycle. Raises NoSite if no site can run it as things are."""
        choice = add_sent_jobs(self.federation, self.ledger.given).choose(
            job.request, without=job.not_at(self.federation.grid)
        )
        if choice.site is None and not choice.may_wait:
            raise NoSite(choice.reason, hint="`offpeak submit --dry-run` shows what is missing at each site")
        now_s = self.clock()
        message = f"waits for the next cycle, at most {self.cycle_s} s"
        answer = {"site": None, "reason": message, "project": job.request.project, STORED: job_json(job)}
        row = SubmissionRecord(
            key, now_s, self.by, job.digest, site="", state=WAITING, tried_unix_s=now_s, message=message, answer=answer
        )
        return self.changed(was, row)

    async def place(self, row: SubmissionRecord, job: BrokerJob, choice: SiteChoice) -> SubmissionRecord:
        """Submit a waiting job at the chosen site, and return its record: taken, or waiting if the site refused it.

        Raises NotKnown if the site may have it.
        """
        as_owner = replace(self, by=row.by)
        return await as_owner._attempt(job, as_owner._tried(job, row.key, row, choice), choice)

    async def settle_attempt(self, row: SubmissionRecord) -> SubmissionRecord:
        """Return the record of an attempt without a known end, after the site shows its end: taken, or failed."""
        while True:
            found = await self.at(row.site).find(row.key)
            if found is not None:
                return self.taken(row, found.job, "found there by its key")
            age_s = self.clock() - row.tried_unix_s
            if age_s > REMEMBERED_S:
                hint = f"look at {row.site}'s accounts for its key, then submit it by another one if it is not there"
                raise NotKnown(f"key {row.key}: {row.site} may have had it, and would have forgotten it", hint=hint)
            if age_s >= self.settled_s:
                return self._not_taken(row, f"{row.site} has no job of this key")
            await asyncio.sleep(min(LOOK_EVERY_S, self.settled_s - age_s))
            row = self.ledger.submission(row.key) or row
            if row.state != TRIED:
                return row

    async def _give(self, job: BrokerJob, key: str, row: SubmissionRecord | None) -> SubmissionRecord:
        without = job.not_at(self.federation.grid)
        while True:
            choice = add_sent_jobs(self.federation, self.ledger.given).choose(job.request, without=without)
            if choice.site is None:
                raise NoSite(choice.reason, hint="`offpeak submit --dry-run` shows what is missing at each site")
            row = self._tried(job, key, row, choice)
            row = await self._attempt(job, row, choice)
            if row.state == TAKEN:
                return row
            without = {**without, choice.site: refusal_text(row.message)}

    async def _attempt(self, job: BrokerJob, row: SubmissionRecord, choice: SiteChoice) -> SubmissionRecord:
        """Submit a job that is recorded as tried, and return its record: taken, or not if the site refused it.

        Raises NotKnown if the site may have it, OffpeakError with the error of the door.
        """
        outcome = await self._through_the_door(job, row, choice)
        if isinstance(outcome, Refusal):
            self.changed(row, replace(row, state=FAILED, message=outcome.message, answer=without_job(row.answer)))
            raise OffpeakError(outcome.message, hint=MODE_HINT if outcome.rule == "mode" else outcome.hint)
        if outcome.result == "done":
            return self.taken(row, outcome.message, "accepted")
        if outcome.error_kind != SiteRefused.__name__:
            try:
                found = await self.at(row.site).find(row.key)
            except NotKnown:
                found = None
            if found is None:
                hint = f"offpeak submit --status {row.key} finds out; no other site gets it until then"
                raise NotKnown(f"whether it was taken is not known yet: {outcome.message}", hint=hint)
            return self.taken(row, found.job, "found there by its key")
        return self._not_taken(row, outcome.message, refused=True)

    def taken(self, row: SubmissionRecord, job: str, message: str) -> SubmissionRecord:
        """Record that the site has the job, unless another process has recorded it."""
        try:
            return self.changed(
                row, replace(row, state=TAKEN, job=job, message=message, answer=without_job(row.answer))
            )
        except ChangedMeanwhile:
            now = self.ledger.submission(row.key)
            if now is None or (now.state, now.site, now.job) != (TAKEN, row.site, job):
                raise
            return now

    def _not_taken(self, row: SubmissionRecord, message: str, *, refused: bool = False) -> SubmissionRecord:
        """Record that the site certainly does not have the job: a stored job waits again, for others if it refused."""
        if STORED not in row.answer:
            return self.changed(row, replace(row, state=FAILED, message=message))
        refusals = row.answer.get(REFUSED, {}) | ({row.site: refusal_text(message)} if refused else {})
        answer = row.answer | {REFUSED: refusals, "site": None, "expected": None, "reason": message}
        return self.changed(row, replace(row, state=WAITING, site="", message=message, answer=answer))

    def _tried(self, job: BrokerJob, key: str, was: SubmissionRecord | None, choice: SiteChoice) -> SubmissionRecord:
        now_s = self.clock()
        answer = choice_json(choice, now_s=int(now_s), currency=self.federation.currency)
        answer |= {"project": job.request.project}
        if was is not None and was.state == WAITING:
            answer |= {name: was.answer[name] for name in (STORED, REFUSED) if name in was.answer}
        row = SubmissionRecord(
            key=key,
            at_unix_s=now_s,
            by=self.by,
            digest=job.digest,
            site=choice.site or "",
            state=TRIED,
            tried_unix_s=now_s,
            answer=answer,
        )
        return self.changed(was, row if was is None else replace(row, at_unix_s=was.at_unix_s))

    async def _through_the_door(self, job: BrokerJob, row: SubmissionRecord, choice: SiteChoice) -> Outcome | Refusal:
        site = self.federation.grid.sites[self.federation.grid.index(row.site)]
        submission, request = job.make_submission(row.key, site, choice), job.request
        inputs = (("key", row.key), ("cores", request.cores), ("limit_s", request.limit_s))

        async def act() -> str:
            if self.clock() - row.tried_unix_s > AT_ONCE_S:
                raise SiteRefused(f"{row.site}: this machine was too slow to send the order")
            return await self.at(row.site).submit(submission)

        return await self.door.let_through(
            Effect(f"site {row.site}", JobOrder.SUBMIT, self.by, choice.reason, inputs), act
        )

    def at(self, site: str) -> SiteCommands:
        """Return the commands of a site. Raises NotKnown for a site that is no longer in the file of sites."""
        if site not in self.sites:
            raise NotKnown(f"{site}: is no longer in the file of sites", hint="add it again to find out, or to cancel")
        return self.sites[site]

    def changed(self, was: SubmissionRecord | None, now: SubmissionRecord) -> SubmissionRecord:
        """Write the new record of a job and return it. Raises NotKnown if another process has changed the record."""
        if not self.ledger.change_submission(was, now):
            hint = f"query its state: offpeak submit --status {now.key}"
            raise ChangedMeanwhile(f"key {now.key}: another process submits it at this moment", hint=hint)
        return now


FORGOTTEN = "took it and knows it no more: it has ended some time ago, or was lost"


async def read_job_state(broker: Broker, key: str) -> dict[str, Any]:
    """Return the state of the job as JSON. Raises UnknownKey if there is no job, NotKnown if its site does not answer.

    A job that its site has forgotten is reported as forgotten, and is never submitted again by this key.
    """
    row = await _settle(broker, key)
    state = submission_json(row)
    if row.state != TAKEN:
        return state
    found = await broker.at(row.site).find_by_id(row.job)
    if found is None:
        return state | {"said": f"{row.site} {FORGOTTEN}"}
    return state | {"at_site": found.state}


async def cancel(broker: Broker, key: str) -> SubmissionRecord:
    """Cancel the job at its site, through the door. Raises SiteRefused with the error of the site."""
    row = await _settle(broker, key)
    if row.state == WAITING:
        cancelled = replace(
            row, state=CANCELLED, message=f"cancelled by {broker.by}", answer=without_job(row.answer) | {"held_s": 0.0}
        )
        return broker.changed(row, cancelled)
    if row.state != TAKEN:
        return row
    effect = Effect(
        f"site {row.site}", JobOrder.CANCEL, broker.by, f"requested by key {key}", (("key", key), ("job", row.job))
    )
    answer = await broker.door.let_through(effect, lambda: broker.at(row.site).cancel(row.job))
    if isinstance(answer, Refusal):
        raise OffpeakError(answer.message, hint=MODE_HINT if answer.rule == "mode" else answer.hint)
    if answer.result != "done":
        raise SiteRefused(answer.message, hint=f"offpeak submit --status {key} shows its state")
    now_s = broker.clock()
    run_s = (row.answer.get("expected") or {}).get("run_s", 0)
    held = row.answer | {"held_s": float(min(run_s, max(now_s - row.tried_unix_s, 0.0)))}
    return broker.changed(row, replace(row, state=CANCELLED, message=f"cancelled by {broker.by}", answer=held))


def submission_json(row: SubmissionRecord) -> dict[str, Any]:
    """Return a record as JSON."""
    return {
        "key": row.key,
        "state": row.state,
        "site": None if row.state == FAILED else row.site or None,
        "job": row.job or None,
        "at_site": None,
        "submitted": utc_text(row.tried_unix_s),
        "by": row.by,
        "said": row.message,
        "choice": without_job(row.answer),
    }


async def _settle(broker: Broker, key: str) -> SubmissionRecord:
    row = broker.ledger.submission(key)
    if row is None:
        raise UnknownKey(f"key {key}: no job was submitted with it", hint="`offpeak history` shows what was submitted")
    while row.state == TRIED:
        try:
            return await broker.settle_attempt(row)
        except ChangedMeanwhile:  # by the process that submits it, or by one that settled it first
            row = broker.ledger.submission(key) or row
    return row


def make_broker(
    settings: BrokerSettings, federation: Federation, ledger: Ledger, *, by: str, agent_socket: Path
) -> Broker:
    """Return a broker that acts for `by`, as far as its mode allows; the socket is that of this machine's agent."""
    sites = {
        site.name: commands_of_site(site, agent_socket=agent_socket)
        for site in federation.grid.sites
        if site.reach is not None
    }
    door = Door(lambda _: Mode(settings.mode), journal=ledger, clock=time.time)
    cycle_s = settings.cycle_s if settings.policy in TOGETHER else None
    return Broker(federation, sites, ledger, door, by, cycle_s=cycle_s)
