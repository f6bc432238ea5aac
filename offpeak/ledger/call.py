"""Something that the writer's thread does at once and whose answer somebody waits for, but not for ever."""

from collections.abc import Callable
from threading import Condition
from typing import Generic, TypeVar

from sqlalchemy import Connection

from offpeak.errors import CannotWrite, OffpeakError
from offpeak.ledger.store import Store

Answer = TypeVar("Answer")


class _TooLate(Exception):
    """Nobody waits for it any more."""


class Call(Generic[Answer]):
    """One transaction for one who waits. It is either done for good, or he is told that it was not."""

    def __init__(self, work: Callable[[Connection], Answer]) -> None:
        self._work = work
        self._changed = Condition()
        self._state = "waiting"
        self._answer: list[Answer] = []
        self._error: Exception | None = None

    def run(self, store: Store) -> Exception | None:
        """Do the work, in the writer's thread; returns what went wrong with the database."""
        try:
            with store.transaction() as connection:
                answer = self._work(connection)
                if not self._go_to("committing", unless="given up"):
                    raise _TooLate
            self._answer.append(answer)
        except _TooLate:
            return None
        except Exception as problem:
            self._error = problem
        self._go_to("done")
        return self._error

    def refuse(self, problem: OffpeakError) -> None:
        """Tell who waits that it was not done, without another attempt."""
        # One of his own: an exception gathers the trace of everybody who raises it.
        self._error = type(problem)(str(problem), hint=problem.hint)
        self._go_to("done")

    def wait(self, bound_s: float) -> Answer:
        """Return the answer, or raise what went wrong; CannotWrite where neither is there in time.

        Then nothing was written, unless the disk hangs in the very act: so an intent may be found that nobody followed.
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
