"""The ledger for its writers: the door's journal, holds, and rows of every kind."""

import time
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from offpeak.door.effect import US, Effect, Hold, Outcome, Refusal
from offpeak.door.journal import Intent, IntentResult
from offpeak.ledger import journal, marks, submissions
from offpeak.ledger.backlog import LedgerProblem, RowKind
from offpeak.ledger.claim import Claim, claim_of
from offpeak.ledger.database import PATIENCE_S
from offpeak.ledger.marks import read_memories, read_memory
from offpeak.ledger.prune import RETENTION_RULES, give_pages_back, keep_s, prune_slice
from offpeak.ledger.records import latest_states
from offpeak.ledger.rows import (
    DecisionRecord,
    JobMark,
    JobUse,
    MemoryRecord,
    MeterReading,
    NodeStateRecord,
    Price,
    SavingRecord,
    SubmissionRecord,
    columns_of,
)
from offpeak.ledger.submissions import SiteSubmissions
from offpeak.ledger.writer import MOST_WAITING, Answer, LedgerStore, Writer
from offpeak.model.constants import HOUR_S
from offpeak.settings.ledger import LedgerSettings

BOUND_S = 5.0
"""The longest that an intent, a hold or a question waits; twice that where the disk hangs in the very act."""

REFUSED_AGAIN_S = HOUR_S
"""A node that would sleep in shadow mode is refused every ten minutes: of the same refusals one in so long is kept."""
OTHERS_TURN_S = 0.01
"""Pause between two slices: SQLite gives the next turn to whoever asks first."""


class Ledger:
    """One writer of one ledger, a `Journal`. Opening returns at once; `ready` says whether it can be used.

    Rows are taken at once and written within a second; while that fails they wait, within `most_waiting`, and
    `trouble` says why. Intents, marks, holds and questions never wait in memory: CannotWrite. Who asks them waits for
    the disk, for seconds where somebody else keeps it: an event loop asks in a thread. `remember` returns at once, and
    so does what writes, but for intents.
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
        self._claim: Claim | None = None
        self._refused: dict[tuple[str, str], tuple[str, float]] = {}
        self._bound_s = BOUND_S / PATIENCE_S * patience_s
        self._writer = Writer(LedgerStore(settings.url, patience_s=patience_s), clock=clock, most_waiting=most_waiting)

    def ready(self) -> None:
        """Make or update the tables; BadLedger where they are not ours, CannotWrite where that may pass."""
        self._ask(lambda _: None)

    def claim(self) -> None:
        """Be the agent of this ledger, now and before every order; AlreadyRunning where another agent has it.

        CannotWrite where that cannot be found out; it is tried again before the next order.
        """
        self._claim = self._claim or claim_of(self.settings.url)
        self._claim.confirm()

    def confirm_claim(self) -> None:
        """Raise what `claim` raises where the claim is held no more, and cannot be had again; nothing if none is."""
        # In the writer's thread: a server that hangs keeps its caller no longer than a ledger that hangs.
        if self._claim is not None:
            claim = self._claim
            self._ask(lambda _: claim.confirm())

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Return the number of the intent, which is then on the disk; CannotWrite otherwise."""
        self.confirm_claim()
        return self._ask(lambda connection: journal.add_intent(connection, effect, at_unix_s))

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        """Write what became of an intent, once: the first outcome stays."""
        self._writer.add(RowKind.OUTCOMES, [{"intent": intent, "at_unix_s": at_unix_s} | columns_of(outcome)])

    def write_refusal(self, effect: Effect, refusal: Refusal, at_unix_s: float) -> None:
        """Write which rule refused an effect; of one that we ask for again and again, once an hour."""
        key, refused = (effect.subject, effect.order), (refusal.rule, at_unix_s)
        rule, before_unix_s = self._refused.get(key, ("", 0.0))
        if effect.by == US and rule == refusal.rule and 0 <= at_unix_s - before_unix_s < REFUSED_AGAIN_S:
            return
        self._refused[key] = refused
        self._writer.add(RowKind.REFUSALS, [journal.effect_columns(effect, at_unix_s) | columns_of(refusal)])

    def unfinished(self) -> tuple[Intent, ...]:
        """Return the intents without an outcome, the oldest first; those of now may still wait for theirs."""
        return self._ask(journal.unfinished_intents)

    def last_orders(self) -> tuple[Intent, ...]:
        """Return each node's last order that may have worked, however long ago, but for wakes for the scheduler."""
        return self._ask(journal.last_orders)

    def recent(self, since_unix_s: float) -> tuple[IntentResult, ...]:
        """Return the intents since then, with what became of them as far as it is written."""
        self.settle()
        return self._ask(lambda connection: journal.recent_intents(connection, since_unix_s))

    def write_states(self, states: Sequence[NodeStateRecord]) -> None:
        """Write what nodes are from now on: where something changed."""
        self._writer.add(RowKind.STATES, states)

    def write_decisions(self, decisions: Sequence[DecisionRecord]) -> None:
        """Write what was decided, with the numbers behind it."""
        self._writer.add(RowKind.DECISIONS, decisions)

    def write_readings(self, readings: Sequence[MeterReading]) -> None:
        """Write readings, a sweep at once."""
        self._writer.add(RowKind.READINGS, readings)

    def write_prices(self, prices: Sequence[Price]) -> None:
        """Write the prices that apply; a later one of the same instant replaces the earlier."""
        self._writer.add(RowKind.PRICES, prices)

    def write_jobs(self, jobs: Sequence[JobUse]) -> None:
        """Write what jobs used; a job is told by its id and start, what comes later replaces what was there."""
        self._writer.add(RowKind.JOBS, jobs)

    def write_savings(self, savings: Sequence[SavingRecord]) -> None:
        """Write what was saved against a baseline; a later figure of the same period replaces the earlier."""
        self._writer.add(RowKind.SAVINGS, savings)

    def latest(self) -> Mapping[str, NodeStateRecord]:
        """Return what was written last of every node."""
        self.settle()
        return self._ask(latest_states)

    def hold(self, node: str, hold: Hold, at_unix_s: float) -> None:
        """Keep a node as it is; BadInput where another owner holds it, the own hold is replaced."""
        self._ask(lambda connection: journal.add_hold(connection, node, hold, at_unix_s))

    def release(self, node: str, by: str, at_unix_s: float, *, take_over: bool = False) -> Hold | None:
        """End the hold of a node and return it, None if there was none; BadInput where only `take_over` ends it."""
        return self._ask(
            lambda connection: journal.release_hold(connection, node, by=by, at_unix_s=at_unix_s, take_over=take_over)
        )

    def holds(self, at_unix_s: float) -> Mapping[str, Hold]:
        """Return the holds that are neither released nor over, by node."""
        return self._ask(lambda connection: journal.open_holds(connection, at_unix_s))

    def remember_marks(self, changed: Sequence[JobMark]) -> None:
        """Write what is about to be changed of jobs: all is on the disk when this returns, or nothing is, CannotWrite.

        Of a change that is remembered already `was` stays as it is, the rest is replaced.
        """
        self.confirm_claim()
        self._ask(lambda connection: marks.write_marks(connection, changed))

    def forget_marks(self, undone: Sequence[JobMark]) -> None:
        """Forget what is changed no more, or whose job has gone; CannotWrite, and all stay, where that fails."""
        self._ask(lambda connection: marks.delete_marks(connection, undone))

    def marks(self) -> tuple[JobMark, ...]:
        """Return all that is changed of jobs, by job and kind."""
        return self._ask(marks.read_marks)

    def remember(self, name: str, text: str) -> None:
        """Keep a text for a later start, a later one of that name in its place; written as rows are, the last only."""
        self._writer.add(RowKind.MEMORY, [MemoryRecord(name, text, self._clock())])

    def remembered(self, name: str) -> str | None:
        """Return the text that was kept last, None if none was."""
        self.settle()
        return self._ask(lambda connection: read_memory(connection, name))

    def all_remembered(self, beginning: str) -> dict[str, str]:
        """Return the texts that were kept under names that begin so."""
        self.settle()
        return self._ask(lambda connection: read_memories(connection, beginning))

    def submission(self, key: str) -> SubmissionRecord | None:
        """Return what became of the job of that key, None if there is none."""
        return self._ask(lambda connection: submissions.find_submission(connection, key))

    def given(self, states: Sequence[str], recent_unix_s: float, since_unix_s: Mapping[str, float]) -> SiteSubmissions:
        """Return the jobs in one of these states that sites were given, as `submissions.list_submissions`."""
        return self._ask(
            lambda connection: submissions.list_submissions(connection, states, recent_unix_s, since_unix_s)
        )

    def change_submission(self, was: SubmissionRecord | None, now: SubmissionRecord) -> bool:
        """Write what became of a job, or begin its row; False, and nothing is written, if it is no more as it `was`."""
        return self._ask(lambda connection: submissions.change_submission(connection, was, now))

    def prune(self, now_unix_s: float) -> int:
        """Delete what is older than its table keeps; returns how many rows.

        Slice by slice, each a transaction of its own: what others write goes in between. Takes a while: for a thread
        that has time.
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

    def settle(self, bound_s: float = BOUND_S) -> bool:
        """Wait until everything is written, at most so long; returns whether it is."""
        return self._writer.settle(bound_s)

    def trouble(self) -> LedgerProblem | None:
        """Return what is wrong and what was lost since the start; None where nothing is and was."""
        return self._writer.trouble()

    def close(self, bound_s: float = 2 * BOUND_S) -> int:
        """Write what waits and close; returns how many rows could not be written any more."""
        lost = self._writer.close(bound_s)
        if self._claim is not None:
            self._claim.close()
        return lost

    def _ask(self, work: Callable[[Connection], Answer]) -> Answer:
        return self._writer.call(work, bound_s=self._bound_s)
