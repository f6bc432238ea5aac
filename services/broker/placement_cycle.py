"""The cycles of the daemon, which place stored jobs together: oldest first, decided at once, submitted site by site.

The ledger has each job from before the owner gets an answer until a site has it. A cycle that is killed leaves jobs
waiting or tried: the next one looks for those that were tried at their sites, by their keys. A site that does not
answer keeps only its own jobs of this cycle waiting.
"""

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SubmissionRecord
from offpeak.plugin.federation.cycle import SiteChoice
from offpeak.process import login_name
from offpeak.services.broker.federation import FAILED, TRIED, WAITING, BrokerJob, Federation, add_sent_jobs, stored_job
from offpeak.services.broker.site_poller import Poller
from offpeak.services.broker.submission import REFUSED, STORED, Broker, ChangedMeanwhile, without_job
from offpeak.settings.broker import BrokerSettings

LOG = logging.getLogger("offpeak.broker")

MARK = "placement cycles"
"""What the ledger remembers of the last cycle: its time, the account of the daemon, and the site that is next."""
LATE_S = 120.0
"""A daemon whose last cycle is later than its interval by more than this does not run."""


@dataclass(frozen=True)
class PlacedJob:
    """A stored job in a cycle: its record, the job, and the choice of its site."""

    row: SubmissionRecord
    job: BrokerJob
    choice: SiteChoice


class PlacementCycle:
    """Runs the cycles; `make_broker` returns the broker of a federation, by which the jobs are submitted."""

    def __init__(
        self, settings: BrokerSettings, poller: Poller, ledger: Ledger, make_broker: Callable[[Federation], Broker]
    ) -> None:
        self._settings, self._poller, self._ledger, self._make_broker = settings, poller, ledger, make_broker
        self._turn = int(str(_read_mark(ledger).get("turn", 0)))
        self._ended = asyncio.Event()
        self._reported = ""

    def end(self) -> None:
        """Begin no further submission."""
        self._ended.set()

    async def run(self) -> None:
        """Run a cycle in each interval until `end`; a submission in progress comes to its end."""
        while not self._ended.is_set():
            began_s = time.monotonic()
            try:
                await self.place_jobs()
                self._report("")
            except OffpeakError as problem:
                self._report(f"no jobs are placed in this cycle: {problem}")
            try:
                left_s = self._settings.cycle_s - (time.monotonic() - began_s)
                await asyncio.wait_for(self._ended.wait(), max(left_s, 0.1))
            except TimeoutError:
                continue

    async def place_jobs(self) -> None:
        """Run one cycle. Raises OffpeakError if the ledger does not answer, or if the sites cannot be compared."""
        self._write_mark()
        tried = await asyncio.to_thread(self._ledger.first_submissions, TRIED, self._settings.max_per_cycle)
        rows = await asyncio.to_thread(self._ledger.first_submissions, WAITING, self._settings.max_per_cycle)
        doubtful = [row for row in tried if STORED in row.answer]
        if not doubtful and not rows:
            return
        await self._poller.round()
        federation = await asyncio.to_thread(add_sent_jobs, self._poller.federation, self._ledger.given)
        broker = self._make_broker(replace(federation, turn=self._turn))
        settling = [self._settle(broker, row) for row in doubtful]
        await asyncio.gather(self._place_rows(broker, rows), *settling)

    async def _place_rows(self, broker: Broker, rows: Sequence[SubmissionRecord]) -> None:
        planned = await asyncio.to_thread(self._choose, broker, rows)
        by_site: dict[str, list[PlacedJob]] = defaultdict(list)
        for each in planned:
            if each.choice.site is not None:
                by_site[each.choice.site].append(each)
        await asyncio.gather(*(self._submit(broker, jobs) for jobs in by_site.values()))

    def _choose(self, broker: Broker, rows: Sequence[SubmissionRecord]) -> list[PlacedJob]:
        """Return the jobs with their sites, and record why others have none."""
        federation = broker.federation
        known: list[tuple[SubmissionRecord, BrokerJob]] = []
        for row in rows:
            try:
                known.append((row, stored_job(row.answer[STORED], federation.grid, int(federation.clock()))))
            except BadInput as problem:
                self._give_up(broker, row, str(problem))
            except (KeyError, TypeError) as problem:
                LOG.warning("key %s: waits: another version of offpeak has stored it: %r", row.key, problem)
        if not known:
            return []
        without = [job.not_at(federation.grid) | row.answer.get(REFUSED, {}) for row, job in known]
        found = federation.choose_together([job.request for _, job in known], without=without)
        self._turn = found.turn
        self._write_mark()
        planned = [PlacedJob(row, job, choice) for (row, job), choice in zip(known, found.choices, strict=True)]
        for each in planned:
            if each.choice.is_impossible:
                self._give_up(broker, each.row, each.choice.reason)
            elif each.choice.site is None:
                self._keep(broker, each)
        return planned

    def _give_up(self, broker: Broker, row: SubmissionRecord, why: str) -> None:
        """Record that no site can run the job, unless its owner has changed the record."""
        answer = without_job(row.answer) | {"reason": why}
        self._change(broker, row, replace(row, state=FAILED, message=why, answer=answer))

    def _keep(self, broker: Broker, kept: PlacedJob) -> None:
        """Record why the job waits. One that no site can run now goes to the end of the line, so that others pass."""
        row, choice = kept.row, kept.choice
        answer = row.answer | {"reason": choice.reason, "misses": {miss.site: miss.text for miss in choice.misses}}
        since_s = row.tried_unix_s if choice.may_wait else broker.clock()
        if row.message != choice.reason or since_s != row.tried_unix_s:
            self._change(broker, row, replace(row, tried_unix_s=since_s, message=choice.reason, answer=answer))

    def _change(self, broker: Broker, was: SubmissionRecord, now: SubmissionRecord) -> None:
        try:
            broker.changed(was, now)
        except ChangedMeanwhile as problem:
            LOG.info("%s", problem)

    async def _submit(self, broker: Broker, planned: Sequence[PlacedJob]) -> None:
        """Submit the jobs of one site, one after the other, until it is not known whether the site has one."""
        for each in planned:
            if self._ended.is_set():
                return
            try:
                await broker.place(each.row, each.job, each.choice)
            except ChangedMeanwhile as problem:
                LOG.info("%s", problem)
            except OffpeakError as problem:
                LOG.warning("key %s: %s", each.row.key, problem)
                now = self._ledger.submission(each.row.key)
                # Unless the record says that the attempt has ended, the site is in doubt.
                if not (now is not None and now.state != TRIED):
                    return

    async def _settle(self, broker: Broker, row: SubmissionRecord) -> None:
        """Find out whether the site has a job that was tried before."""
        try:
            await broker.settle_attempt(row)
        except OffpeakError as problem:
            LOG.warning("key %s: %s", row.key, problem)

    def _write_mark(self) -> None:
        mark = {"at_unix_s": time.time(), "account": login_name(), "turn": self._turn}
        self._ledger.remember(MARK, json.dumps(mark))

    def _report(self, problem: str) -> None:
        if problem != self._reported:
            LOG.warning("%s", problem or "jobs are placed again")
            self._reported = problem


def _read_mark(ledger: Ledger) -> dict[str, object]:
    text = ledger.remembered(MARK)
    mark: dict[str, object] = {} if text is None else json.loads(text)
    return mark


def check_daemon(settings: BrokerSettings, ledger: Ledger, now_unix_s: float) -> None:
    """Raise BadInput unless a daemon of this account places the stored jobs of this ledger."""
    mark = _read_mark(ledger)
    account = login_name()
    fresh = float(str(mark.get("at_unix_s", 0.0))) >= now_unix_s - settings.cycle_s - LATE_S
    if not fresh or mark.get("account") != account:
        problem = f"runs as {mark['account']}, not as {account}" if fresh else "does not run with this ledger"
        raise BadInput(
            f"policy {settings.policy}: `offpeak broker` places jobs together, and it {problem}",
            hint="start it, or submit with --broker-policy goal, which places the job at once",
        )
