"""The ledger for its writers: the door's journal, holds, and rows of every kind."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sqlalchemy import Connection

from offpeak.door.effect import AGENT, Effect, Hold, Outcome, Refusal
from offpeak.door.journal import Intent, IntentResult
from offpeak.errors import CannotWrite
from offpeak.ledger import journal, marks, seals, submissions
from offpeak.ledger.backlog import WRITES, LedgerProblem, RowKind, SeriesNumbers
from offpeak.ledger.database import PATIENCE_S, sqlite_file
from offpeak.ledger.lease import DatabaseLease, Lease
from offpeak.ledger.marks import read_memories, read_memory
from offpeak.ledger.prune import RETENTION_RULES, give_pages_back, keep_s, prune_slice
from offpeak.ledger.records import latest_states
from offpeak.ledger.rows import (
    DecisionRecord,
    JobCredit,
    JobGpus,
    JobMark,
    JobUse,
    MemoryRecord,
    MeterReading,
    NodeStateRecord,
    Price,
    SavingRecord,
    SubmissionRecord,
    TrialBlock,
    columns_of,
)
from offpeak.ledger.seals import LedgerSeal
from offpeak.ledger.submissions import SiteSubmissions
from offpeak.ledger.writer import MOST_WAITING, Answer, LedgerStore, Writer
from offpeak.model.constants import HOUR_S
from offpeak.settings.ledger import LedgerSettings

BOUND_S = 5.0
"""How long an intent, a hold or a query waits at most; twice that if the disk hangs during the commit.

A ledger of another patience waits longer or shorter in proportion."""

REFUSED_AGAIN_S = HOUR_S
"""The ledger keeps one of equal refusals in this time: in shadow mode a node is refused every ten minutes."""
OTHERS_TURN_S = 0.01
"""Pause between two slices, in which other writers get the SQLite lock."""


@dataclass
class _IntentBatch:
    """Intents that are written together, and their numbers or the error of all of them."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    numbers: "Future[list[int]]" = field(default_factory=Future)


class Ledger:
    """One writer of one ledger, a `Journal`. The constructor returns at once; `ready` tells whether the ledger works.

    The writer queues rows at once and writes them within a second. If the write fails, up to `most_waiting` rows wait,
    and `problem` returns the reason. Intents, marks, holds and queries never wait in memory: they raise CannotWrite.
    Their callers wait for the disk, for seconds if another program keeps the lock: an event loop calls them in a
    thread. `remember` and all `write_` methods except `write_intent` return at once.
    """

    def __init__(
        self,
        settings: LedgerSettings,
        *,
        clock: Callable[[], float] = time.time,
        most_waiting: int = MOST_WAITING,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.settings = settings
        self._clock = clock
        is_local = sqlite_file(settings.url) is not None
        self.lease = Lease(settings.url) if is_local else DatabaseLease(settings.url, settings.lease_s)
        self._is_claimed = False
        # The intents of this program without an outcome.
        self.open_intents: set[int] = set()
        self._refused: dict[tuple[str, str], tuple[str, float]] = {}
        self._turn = Lock()
        self._batch: _IntentBatch | None = None
        self._bound_s = BOUND_S / PATIENCE_S * patience_s
        store = LedgerStore(settings.url, patience_s=patience_s, lease=self.lease)
        by_minute = settings.keep_readings_s == 0
        self._writer = Writer(store, clock=clock, most_waiting=most_waiting, by_minute=by_minute)

    def ready(self) -> None:
        """Create or update the tables. Raises BadLedger if they are of another program, CannotWrite if it may pass."""
        self._ask(lambda _: None)

    def claim(self, *, stands_by: bool = False) -> None:
        """Take the lease of the ledger for this agent. Raises AlreadyRunning if another agent has it.

        Raises CannotWrite if the owner is not known. `stands_by`: this agent waits for the lease.
        """
        self._is_claimed = not stands_by
        self.lease.acquire(stands_by=stands_by)
        self._is_claimed = True

    def claim_for_command(self) -> None:
        """Take the lease for a command of an admin, which ends if it is stopped until after its lease; see `claim`."""
        self.claim()
        self.lease.end_frozen_process()

    def confirm_claim(self) -> None:
        """Raise CannotWrite, or AlreadyRunning, if the lease is lost; do nothing without a claim."""
        if self._is_claimed:
            self.lease.confirm()

    def may_act(self) -> bool:
        """Whether an order may be sent: this agent's lease is valid, or the ledger is not claimed. It does not wait."""
        return self.acts_for_s() > 0

    def acts_for_s(self) -> float:
        """Return for how long an order may be sent by this lease, 0 if none may be; infinite without a claim."""
        return self.lease.acts_for_s if self._is_claimed else math.inf

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Write an intent to the disk and return its number. Raises CannotWrite if that fails.

        Intents that wait for a slow database at the same time become one transaction.
        """
        with self._turn:
            leads, self._batch = self._batch is None, self._batch or _IntentBatch()
            batch = self._batch
            at = len(batch.rows)
            batch.rows.append(journal.effect_columns(effect, at_unix_s))

        def add(connection: Connection) -> list[int]:
            self._close_batch(batch)
            return journal.add_intents(connection, batch.rows)

        if leads:
            try:
                batch.numbers.set_result(self._ask_to_act(add))
            except Exception as problem:
                self._close_batch(batch)
                batch.numbers.set_exception(problem)
        number = batch.numbers.result()[at]
        self.open_intents.add(number)
        return number

    def _close_batch(self, batch: "_IntentBatch") -> None:
        with self._turn:
            self._batch = None if self._batch is batch else self._batch

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        """Write the outcome of an intent. The first outcome stays."""
        self.open_intents.discard(intent)
        self._writer.add(RowKind.OUTCOMES, [{"intent": intent, "at_unix_s": at_unix_s} | columns_of(outcome)])

    def write_refusal(self, effect: Effect, refusal: Refusal, at_unix_s: float) -> None:
        """Write the rule that refused an effect; equal refusals of the agent's own orders once an hour."""
        key, refused = (effect.subject, effect.order), (refusal.rule, at_unix_s)
        rule, before_unix_s = self._refused.get(key, ("", 0.0))
        if effect.by == AGENT and rule == refusal.rule and 0 <= at_unix_s - before_unix_s < REFUSED_AGAIN_S:
            return
        self._refused[key] = refused
        self._writer.add(RowKind.REFUSALS, [journal.effect_columns(effect, at_unix_s) | columns_of(refusal)])

    def unfinished(self) -> tuple[Intent, ...]:
        """Return the intents without an outcome, the oldest first, including those in progress."""
        return self._ask(journal.unfinished_intents)

    def last_orders(self) -> tuple[Intent, ...]:
        """Return the last order to each node that may have worked, of any age, except wakes for the scheduler."""
        return self._ask(journal.last_orders)

    def recent(self, since_unix_s: float) -> tuple[IntentResult, ...]:
        """Return the intents since then with the outcomes that are written."""
        self.settle()
        return self._ask(lambda connection: journal.recent_intents(connection, since_unix_s))

    def write_states(self, states: Sequence[NodeStateRecord]) -> None:
        """Write the states of nodes that changed."""
        self._writer.add(RowKind.STATES, states)

    def write_decisions(self, decisions: Sequence[DecisionRecord]) -> None:
        """Write decisions with the numbers behind them."""
        self._writer.add(RowKind.DECISIONS, decisions)

    def write_readings(self, readings: Sequence[MeterReading]) -> None:
        """Write the readings of a sweep."""
        self._writer.add(RowKind.READINGS, readings)

    def write_prices(self, prices: Sequence[Price]) -> None:
        """Write prices; a later price of the same instant replaces the earlier one."""
        self._writer.add(RowKind.PRICES, prices)

    def write_jobs(self, jobs: Sequence[JobUse]) -> None:
        """Write the energy of jobs; a later row of the same id and start replaces the earlier one."""
        self._writer.add(RowKind.JOBS, jobs)

    def write_credits(self, credits: Sequence[JobCredit]) -> None:
        """Write what tiers have moved; a later row of the same id and start replaces the earlier one."""
        self._writer.add(RowKind.CREDITS, credits)

    def write_job_gpus(self, gpus: Sequence[JobGpus]) -> None:
        """Write the GPU-seconds of jobs; a later row of the same id and start replaces the earlier one."""
        self._writer.add(RowKind.GPUS, gpus)

    def write_savings(self, savings: Sequence[SavingRecord]) -> None:
        """Write savings against a baseline; a later row of the same period replaces the earlier one."""
        self._writer.add(RowKind.SAVINGS, savings)

    def write_seal(self, seal: LedgerSeal, settings: Mapping[str, str]) -> None:
        """Write the seal of a day to the disk, with the settings that it was made with. Raises CannotWrite."""
        self._ask(lambda connection: seals.write_seal(connection, seal, settings))

    def latest(self) -> Mapping[str, NodeStateRecord]:
        """Return the last state of every node."""
        self.settle()
        return self._ask(latest_states)

    def hold(self, node: str, hold: Hold, at_unix_s: float) -> None:
        """Add or replace the owner's hold of a node. Raises BadInput if another owner holds it."""
        self._ask(lambda connection: journal.add_hold(connection, node, hold, at_unix_s))

    def release(self, node: str, by: str, at_unix_s: float, *, take_over: bool = False) -> Hold | None:
        """End the hold of a node and return it, None if there is none. Raises BadInput if another owner has it."""
        return self._ask(
            lambda connection: journal.release_hold(connection, node, by=by, at_unix_s=at_unix_s, take_over=take_over)
        )

    def holds(self, at_unix_s: float) -> Mapping[str, Hold]:
        """Return the open holds by node."""
        return self._ask(lambda connection: journal.open_holds(connection, at_unix_s))

    def remember_marks(self, changed: Sequence[JobMark]) -> None:
        """Write all coming changes of jobs to the disk, or none of them and raise CannotWrite.

        For a change that is in the table, `was` stays and the other columns are replaced.
        """
        self._ask_to_act(lambda connection: marks.write_marks(connection, changed))

    def forget_marks(self, undone: Sequence[JobMark]) -> None:
        """Delete marks of changes that are undone or whose job is gone; on CannotWrite all of them stay."""
        self._ask(lambda connection: marks.delete_marks(connection, undone))

    def marks(self) -> tuple[JobMark, ...]:
        """Return the marks of all changes of jobs, by job and kind."""
        return self._ask(marks.read_marks)

    def draw_trial(self, blocks: Sequence[TrialBlock], *, may_begin: bool = True) -> tuple[TrialBlock, ...]:
        """Write the blocks of a trial to the disk, unless it was drawn before; return its blocks in the ledger.

        None are written if it may not begin. Raises CannotWrite if that fails.
        """
        if not blocks:
            return ()
        trial = blocks[0].trial
        known = self._ask(lambda connection: marks.read_trial(connection, trial))
        if known or not may_begin:
            return known
        self._ask_to_act(lambda connection: marks.write_trial(connection, blocks))
        return self._ask(lambda connection: marks.read_trial(connection, trial))

    def remember(self, name: str, text: str) -> None:
        """Store a text for a later start under a name; the last one stays. It is written as rows are."""
        self._writer.add(RowKind.MEMORY, [MemoryRecord(name, text, self._clock())])

    def keep(self, name: str, text: str) -> None:
        """Store such a text on the disk before it returns, with the lease only. Raises CannotWrite if that fails."""
        row = MemoryRecord(name, text, self._clock())
        self._ask_to_act(lambda connection: WRITES[RowKind.MEMORY](connection, [row], SeriesNumbers()))

    def remembered(self, name: str) -> str | None:
        """Return the last text under that name, None if there is none."""
        self.settle()
        return self._ask(lambda connection: read_memory(connection, name))

    def all_remembered(self, beginning: str) -> dict[str, str]:
        """Return the texts whose names have that prefix."""
        self.settle()
        return self._ask(lambda connection: read_memories(connection, beginning))

    def submission(self, key: str) -> SubmissionRecord | None:
        """Return the submission of that key, None if there is none."""
        return self._ask(lambda connection: submissions.find_submission(connection, key))

    def first_submissions(self, state: str, most: int) -> tuple[SubmissionRecord, ...]:
        """Return the submissions in that state, those tried first, as many at most."""
        return self._ask(lambda connection: submissions.first_submissions(connection, state, most))

    def given(self, states: Sequence[str], recent_unix_s: float, since_unix_s: Mapping[str, float]) -> SiteSubmissions:
        """Return the submissions to sites in these states, as `submissions.list_submissions`."""
        return self._ask(
            lambda connection: submissions.list_submissions(connection, states, recent_unix_s, since_unix_s)
        )

    def change_submission(self, was: SubmissionRecord | None, now: SubmissionRecord) -> bool:
        """Insert or update a submission; return False and write nothing if the row differs from `was`."""
        return self._ask(lambda connection: submissions.change_submission(connection, was, now))

    def prune(self, now_unix_s: float) -> int:
        """Delete rows beyond the retention time of their table; return the number of rows.

        Each slice is a transaction of its own, so that other writers get their turn. Call it in a thread: it is slow.
        """
        deleted = 0
        for age in RETENTION_RULES:
            deleted += self._repeat(prune_slice(age, now_unix_s - keep_s(age, self.settings)))
        self._repeat(give_pages_back)
        return deleted

    def _repeat(self, work: Callable[[Connection], int | None]) -> int:
        done = 0
        while (count := self._ask(work)) is not None:
            done += count
            time.sleep(OTHERS_TURN_S)
        return done

    def settle(self, bound_s: float | None = None) -> bool:
        """Wait until all rows are written, at most `bound_s` or as long as a query; return whether they are."""
        return self._writer.settle(self._bound_s if bound_s is None else bound_s)

    def problem(self) -> LedgerProblem | None:
        """Return the problem and the losses since the start, None if there are none."""
        return self._writer.problem()

    def close(self, bound_s: float | None = None) -> int:
        """Write the waiting rows, at most `bound_s` or twice as long as a query, and close; return the number lost."""
        lost = self._writer.close(2 * self._bound_s if bound_s is None else bound_s)
        self.lease.close()
        return lost

    def _ask_to_act(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run `work` only if the lease is still valid by the clock of the database, in the same transaction."""
        self.confirm_claim()
        return self._ask(work, to_act=True)

    def _ask(self, work: Callable[[Connection], Answer], *, to_act: bool = False) -> Answer:
        return self._writer.call(work, bound_s=self._bound_s, to_act=to_act)


@contextmanager
def open_ledger_to_write(settings: LedgerSettings) -> Iterator[Ledger]:
    """Open the ledger, and create it if there is none; raise CannotWrite or BadLedger on failure or lost rows."""
    ledger = Ledger(settings)
    try:
        ledger.ready()
        yield ledger
    finally:
        lost = ledger.close()
    if lost:
        raise CannotWrite(
            f"{lost} rows did not reach the ledger",
            hint="`offpeak ledger actions` shows the recorded ones; check the disk: df -h",
        )
