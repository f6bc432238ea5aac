"""The one thread that writes into the ledger, so that nobody else waits for its disk without end."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from sqlalchemy import Connection

from offpeak.errors import BadLedger, CannotWrite, OffpeakError
from offpeak.ledger.backlog import Backlog, Kind
from offpeak.ledger.call import Answer, Call
from offpeak.ledger.store import Store
from offpeak.ledger.trouble import Trouble
from offpeak.ledger.write import WRITES

MOST_WAITING = 100_000
"""Rows: a quarter of an hour of 1,000 nodes that are read every 10 s, and some 40 MiB."""
AT_ONCE = 2000
PAUSE_S = 0.3
"""Rows are gathered for so long, so that a sweep is one write."""
RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between attempts while nothing can be written; the last one from then on."""
HANGS_S = 15.0
HANGS_HINT = "is its disk or database overloaded, or its server away? what is to be written waits"


class Writer:
    """Takes rows at once and writes them soon; what cannot be written waits, within `most_waiting`."""

    def __init__(self, store: Store, *, clock: Callable[[], float], most_waiting: int = MOST_WAITING) -> None:
        self._store = store
        self._clock = clock
        self._backlog = Backlog(most_waiting)
        self._calls: deque[Call[Any]] = deque()
        self._changed = Condition()
        self._failure: OffpeakError | None = None
        self._failing_since_unix_s = 0.0
        self._attempts = 0
        self._next_at_s = 0.0
        self._vain_until_s = 0.0
        self._ending = False
        self._unfit = 0
        self._busy_since_s: float | None = None
        self._thread = Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def add(self, kind: Kind, rows: Sequence[Any]) -> None:
        """Queue rows; returns at once. After `close` nothing is taken any more."""
        with self._changed:
            if not len(self._backlog) and not self._failure:
                self._next_at_s = time.monotonic() + PAUSE_S
            self._backlog.add(kind, rows)
            self._changed.notify_all()

    def call(self, work: Callable[[Connection], Answer], *, bound_s: float) -> Answer:
        """Return what `work` returns, once it is written for good; CannotWrite or BadLedger otherwise.

        For as long after a vain attempt as that has taken, nothing is tried.
        """
        call = Call(work)
        with self._changed:
            if self._ending:
                raise CannotWrite("the ledger is closed")
            self._calls.append(call)
            self._changed.notify_all()
        return call.wait(bound_s)

    def settle(self, bound_s: float) -> bool:
        """Wait until no row waits any more, at most so long; returns whether that is so."""
        with self._changed:
            self._next_at_s = 0.0
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not len(self._backlog), bound_s)

    def trouble(self) -> Trouble | None:
        """Return what is wrong, None if nothing is and nothing was lost."""
        with self._changed:
            dropped = self._backlog.dropped
            others = sum(dropped.values()) - dropped[Kind.READINGS] + self._unfit
            failure, since_unix_s = self._present_failure()
            if not failure and not dropped and not self._unfit:
                return None
            said, hint = (str(failure), failure.hint) if failure else ("", "")
            return Trouble(said, hint, since_unix_s, len(self._backlog), dropped[Kind.READINGS], others)

    def close(self, bound_s: float) -> int:
        """Write what waits, if that works, and end the thread, at most in that time; returns how many rows are lost."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(bound_s)
        return len(self._backlog)

    def _present_failure(self) -> tuple[OffpeakError | None, float]:
        """Return why nothing can be written now, and since when; an attempt that does not end is a failure too."""
        hangs_s = 0.0 if self._busy_since_s is None else time.monotonic() - self._busy_since_s
        if hangs_s > HANGS_S:
            return CannotWrite(f"has not answered for {hangs_s:.0f} s", hint=HANGS_HINT), self._clock() - hangs_s
        return self._failure, self._failing_since_unix_s

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._has_work():
                    self._changed.wait(self._pause_s())
                call = self._calls.popleft() if self._calls else None
                taken = None if call or not self._is_time() else self._backlog.take(AT_ONCE)
                last = self._ending and not call and (not taken or self._failure is not None)
                vain = self._failure if time.monotonic() < self._vain_until_s else None
                self._busy_since_s = time.monotonic() if (call and not vain) or taken else None
            if call and vain:
                call.refuse(vain)
            elif call:
                self._note(call.run(self._store))
            elif taken:
                self._write(*taken)
            if last:
                break
        self._store.close()

    def _has_work(self) -> bool:
        return bool(self._calls) or self._ending or (len(self._backlog) > 0 and self._is_time())

    def _is_time(self) -> bool:
        return self._ending or time.monotonic() >= self._next_at_s

    def _pause_s(self) -> float | None:
        return max(0.0, self._next_at_s - time.monotonic()) + 0.001 if len(self._backlog) else None

    def _write(self, kind: Kind, rows: Sequence[Any]) -> None:
        """Write rows that were taken; where the database is in trouble they wait again, what is unfit is left out."""
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

    def _attempt(self, kind: Kind, rows: Sequence[Any]) -> Exception | None:
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
                # An agent asks for many nodes one by one: it must not stand still for as many vain attempts.
                self._vain_until_s = now_s + busy_s
                self._next_at_s = now_s + RETRY_S[min(self._attempts, len(RETRY_S) - 1)]
                self._attempts += 1
            self._changed.notify_all()
