"""The one thread that writes to the ledger, so that other threads wait for the disk only for a bounded time.

The thread owns the database (`LedgerStore`). It writes the waiting rows and runs calls (`WriterCall`), whose callers
wait for the answer for a bounded time.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from offpeak.errors import BadLedger, CannotWrite, OffpeakError
from offpeak.ledger.backlog import WRITES, Backlog, LedgerProblem, MinuteSums, RowKind, SeriesNumbers
from offpeak.ledger.database import PATIENCE_S, ledger_address, make_file, prepare_schema, sqlite_file, writing_engine
from offpeak.ledger.lease import Lease

HINTS = {
    "locked": "another program writes to it and does not end; `fuser {place}` names it",
    "full": "make room: `df {folder}`; `offpeak ledger prune` deletes old readings",
    "readonly": "let the user that offpeak runs as write to it and to its folder: `ls -l {folder}`",
    "unable to open": "is the folder there, and may the user that offpeak runs as write to it? `ls -ld {folder}`",
    "No such file": "`mkdir -p {folder}` makes the folder; url below [ledger] names another place",
    "malformed": "its disk or file is damaged: bring back a copy of `offpeak ledger backup`",
}
DATABASE_HINT = "is the database up, and may this user log in? psql '{place}'"


class LedgerStore:
    """One database. It opens at the first write and again after each error. For one thread only."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S, lease: Lease | None = None) -> None:
        self.url, self._lease = url, lease
        self.series = SeriesNumbers()
        self._patience_s = patience_s
        self._engine: Engine | None = None
        self._file = sqlite_file(url)
        self._file_is: tuple[int, int] | None = None
        self._logs_are: set[tuple[int, int]] = set()

    @contextmanager
    def transaction(self, *, to_act: bool = False) -> Iterator[Connection]:
        """Open a transaction and commit it when the block ends. Raises CannotWrite or BadLedger if that fails.

        Errors of a row itself pass through.
        """
        try:
            # A lost SQLite file is not created again: its record of open intents is lost too.
            if self._file:
                self._look_at(self._file)
            if self._engine is None:
                name = "offpeak" if self._lease is None else self._lease.holder
                self._engine = writing_engine(self.url, patience_s=self._patience_s, name=name)
                prepare_schema(self._engine, self.url)
            engine = self._engine
            with engine.begin() as connection:
                if self._lease is not None:
                    # What an agent writes after it has lost its lease would replace what the next one has written.
                    self._lease.check(connection, to_act=to_act)
                yield connection
        except (DBAPIError, OSError) as problem:
            self.close()
            if isinstance(problem, IntegrityError | DataError):
                raise
            raise self._ledger_error(problem) from problem
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the database and drop cached data."""
        self.series.forget()
        if self._engine:
            self._engine.dispose()
        self._engine = None

    def _look_at(self, file: Path) -> None:
        if self._file_is is None:
            make_file(file)
        elif not file.exists():
            raise CannotWrite(f"{file}: is gone", hint="bring it back, or restart offpeak to begin a new one")
        found = _identity(file)
        logs = {_identity(log): log for log in (Path(f"{file}-wal"), Path(f"{file}-shm")) if log.exists()}
        if found != self._file_is:
            self.close()
            # SQLite would write the log of the former file into a copy that was moved here.
            for log in self._logs_are & logs.keys():
                logs[log].unlink(missing_ok=True)
        self._file_is, self._logs_are = found, set(logs)

    def _ledger_error(self, problem: Exception) -> CannotWrite:
        message = (
            str(problem.orig) if isinstance(problem, DBAPIError) else getattr(problem, "strerror", None) or str(problem)
        )
        first = next(iter(message.strip().splitlines()), type(problem).__name__)
        place = ledger_address(self.url)
        hint = next((hint for token, hint in HINTS.items() if self._file and token in first), "")
        hint = hint or (f"try `ls -l {place}`" if self._file else DATABASE_HINT)
        return CannotWrite(f"{place}: {first}", hint=hint.format(place=place, folder=Path(place).parent))


def _identity(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_dev, status.st_ino


Answer = TypeVar("Answer")


class _CallGivenUp(Exception):
    """The caller no longer waits for the call."""


class WriterCall(Generic[Answer]):
    """One transaction whose caller waits. It is committed, or the caller gets an error."""

    def __init__(self, work: Callable[[Connection], Answer], *, to_act: bool) -> None:
        self._work, self._to_act = work, to_act
        self._changed = Condition()
        self._state = "waiting"
        self._answer: list[Answer] = []
        self._error: Exception | None = None

    def run(self, store: LedgerStore) -> Exception | None:
        """Do the work in the thread of the writer; return the error of the database, if any."""
        try:
            with store.transaction(to_act=self._to_act) as connection:
                answer = self._work(connection)
                if not self._go_to("committing", unless="given up"):
                    raise _CallGivenUp
            self._answer.append(answer)
        except _CallGivenUp:
            return None
        except Exception as problem:
            self._error = problem
        self._go_to("done")
        return self._error

    def refuse(self, problem: OffpeakError) -> None:
        """Give the caller an error without another attempt."""
        # A copy: an exception collects the traceback of each thread that raises it.
        self._error = type(problem)(str(problem), hint=problem.hint)
        self._go_to("done")

    def wait(self, bound_s: float) -> Answer:
        """Return the answer or raise the error. Raises CannotWrite if neither is there in time.

        Then nothing was written, unless the disk hung during the commit: the ledger may hold an intent without an act.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._state in ("committing", "done"), bound_s):
                self._state = "given up"
                raise _not_in_time(bound_s)
            if not self._changed.wait_for(lambda: self._state == "done", bound_s):
                raise _not_in_time(2 * bound_s)
        if self._error:
            raise self._error
        return self._answer[0]

    def _go_to(self, state: str, *, unless: str = "") -> bool:
        with self._changed:
            if self._state == unless:
                return False
            self._state = state
            self._changed.notify_all()
            return True


def _not_in_time(bound_s: float) -> CannotWrite:
    return CannotWrite(f"the ledger did not answer within {bound_s:g} s", hint="is its disk or database overloaded?")


MOST_WAITING = 100_000
"""Rows: a quarter of an hour of 1,000 nodes that are read every 10 s, or ten minutes of 10,000 nodes, and 40 MiB."""
AT_ONCE = 2000
PAUSE_S = 0.3
"""The writer gathers rows for this time, so that a sweep is one write."""
RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between attempts while nothing can be written; the last one from then on."""
HANGS_S = 15.0
HANGS_HINT = "is its disk or database overloaded, or its server away? rows wait until it works again"


class Writer:
    """Queues rows at once and writes them soon; rows that cannot be written wait, within `most_waiting`.

    `by_minute` it writes minutes in place of readings, once they are over, and at `close`.
    """

    def __init__(self, store: LedgerStore, *, clock: Callable[[], float], most_waiting: int, by_minute: bool) -> None:
        self._store = store
        self._clock = clock
        self._backlog = Backlog(most_waiting)
        self._minutes = MinuteSums() if by_minute else None
        self._calls: deque[WriterCall[Any]] = deque()
        self._changed = Condition()
        self._failure: OffpeakError | None = None
        self._failing_since_unix_s = 0.0
        self._attempts = 0
        self._next_at_s = 0.0
        self._retry_at_s = 0.0
        self._ending = False
        self._unfit = 0
        self._busy_since_s: float | None = None
        self._thread = Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def add(self, kind: RowKind, rows: Sequence[Any]) -> None:
        """Queue rows and return at once. After `close` the writer takes no rows."""
        with self._changed:
            if not len(self._backlog) and not self._failure:
                self._next_at_s = time.monotonic() + PAUSE_S
            if self._minutes and kind is RowKind.READINGS:
                rows = self._minutes.add(rows)
            self._backlog.add(kind, rows)
            self._changed.notify_all()

    def call(self, work: Callable[[Connection], Answer], *, bound_s: float, to_act: bool = False) -> Answer:
        """Run `work` in a transaction and return its result after the commit. Raises CannotWrite or BadLedger if it
        fails.

        After a failed attempt the writer refuses calls for as long as the attempt took.
        """
        call = WriterCall(work, to_act=to_act)
        with self._changed:
            if self._ending:
                raise CannotWrite("the ledger is closed")
            self._calls.append(call)
            self._changed.notify_all()
        return call.wait(bound_s)

    def settle(self, bound_s: float) -> bool:
        """Wait until no row waits, at most `bound_s`; return whether that is so."""
        with self._changed:
            self._next_at_s = 0.0
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not len(self._backlog), bound_s)

    def problem(self) -> LedgerProblem | None:
        """Return the problem and the losses, None if there are none."""
        with self._changed:
            dropped = self._backlog.dropped
            others = sum(dropped.values()) - dropped[RowKind.READINGS] + self._unfit
            failure, since_unix_s = self._present_failure()
            if not failure and not dropped and not self._unfit:
                return None
            message, hint = (str(failure), failure.hint) if failure else ("", "")
            return LedgerProblem(message, hint, since_unix_s, len(self._backlog), dropped[RowKind.READINGS], others)

    def close(self, bound_s: float) -> int:
        """Write the waiting rows and end the thread, at most within `bound_s`; return the number of lost rows."""
        with self._changed:
            if self._minutes:
                self._backlog.add(RowKind.READINGS, self._minutes.take())
            self._ending = True
            self._changed.notify_all()
        self._thread.join(bound_s)
        return len(self._backlog)

    def _present_failure(self) -> tuple[OffpeakError | None, float]:
        """Return the present failure and its begin; an attempt that hangs is a failure too."""
        hangs_s = 0.0 if self._busy_since_s is None else time.monotonic() - self._busy_since_s
        if hangs_s > HANGS_S:
            return CannotWrite(f"has not answered for {hangs_s:.0f} s", hint=HANGS_HINT), self._clock() - hangs_s
        return self._failure, self._failing_since_unix_s

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._calls or self._ending or (len(self._backlog) > 0 and self._is_time())):
                    self._changed.wait(self._pause_s())
                call = self._calls.popleft() if self._calls else None
                taken = None if call or not self._is_time() else self._backlog.take(AT_ONCE)
                last = self._ending and not call and not taken
                failure = self._failure if time.monotonic() < self._retry_at_s else None
                self._busy_since_s = time.monotonic() if (call and not failure) or taken else None
            if call and failure:
                call.refuse(failure)
            elif call:
                self._note(call.run(self._store))
            elif taken:
                self._write(*taken)
            if last or (self._ending and taken and self._failure):
                break
        self._store.close()

    def _is_time(self) -> bool:
        return self._ending or time.monotonic() >= self._next_at_s

    def _pause_s(self) -> float | None:
        return max(0.0, self._next_at_s - time.monotonic()) + 0.001 if len(self._backlog) else None

    def _write(self, kind: RowKind, rows: Sequence[Any]) -> None:
        """Write rows of the queue. If the database fails they go back to the queue; unfit rows are dropped."""
        problem = self._attempt(kind, rows)
        if problem and not isinstance(problem, CannotWrite | BadLedger) and len(rows) > 1:
            half = len(rows) // 2
            self._write(kind, rows[:half])
            self._write(kind, rows[half:])
            return
        with self._changed:
            if isinstance(problem, CannotWrite | BadLedger):
                self._backlog.put_back(kind, rows)
            else:
                self._unfit += problem is not None
                self._backlog.written(rows)
        self._note(problem)

    def _attempt(self, kind: RowKind, rows: Sequence[Any]) -> Exception | None:
        try:
            with self._store.transaction() as connection:
                WRITES[kind](connection, rows, self._store.series)
        except Exception as problem:
            return problem
        return None

    def _note(self, problem: Exception | None) -> None:
        with self._changed:
            now_s = time.monotonic()
            busy_s = 0.0 if self._busy_since_s is None else now_s - self._busy_since_s
            self._busy_since_s = None
            if problem is None:
                self._failure, self._attempts = None, 0
                self._next_at_s = min(self._next_at_s, now_s)
            elif isinstance(problem, CannotWrite | BadLedger):
                if self._failure is None:
                    self._failing_since_unix_s = self._clock()
                self._failure = problem
                # The agent calls for many nodes in turn: it must not block for as many failed attempts.
                self._retry_at_s = now_s + busy_s
                self._next_at_s = now_s + RETRY_S[min(self._attempts, len(RETRY_S) - 1)]
                self._attempts += 1
            self._changed.notify_all()
