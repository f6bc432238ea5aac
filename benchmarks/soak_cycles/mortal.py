"""A journal whose program is killed in the middle: between an intent and its act, while other acts are under way."""

import math

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.door.journal import Intent, IntentResult
from offpeak.ledger.ledger import Ledger


class Killed(BaseException):
    """The program has ended there."""


class MortalJournal:
    """Implements offpeak.door.journal.Journal by a ledger, in which a dead program writes nothing any more."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._intents_left: int | None = None
        self._dead = False

    def dies_after(self, intents: int) -> None:
        """Let the program be killed when it has written so many more intents."""
        self._intents_left = intents

    def acts_for_s(self) -> float:
        """A dead program is stopped by what it writes."""
        return math.inf

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Write it; Killed once it is on the disk, if the time has come."""
        if self._dead:
            raise Killed
        number = self._ledger.write_intent(effect, at_unix_s)
        if self._intents_left is not None:
            self._intents_left -= 1
            if self._intents_left <= 0:
                self._dead = True
                raise Killed
        return number

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        """Write it while there is a program."""
        if not self._dead:
            self._ledger.write_outcome(intent, outcome, at_unix_s)

    def write_refusal(self, effect: Effect, refusal: Refusal, at_unix_s: float) -> None:
        """Write it while there is a program."""
        if not self._dead:
            self._ledger.write_refusal(effect, refusal, at_unix_s)

    def unfinished(self) -> tuple[Intent, ...]:
        """Return what the ledger has."""
        return self._ledger.unfinished()

    def last_orders(self) -> tuple[Intent, ...]:
        """Return what the ledger has."""
        return self._ledger.last_orders()

    def recent(self, since_unix_s: float) -> tuple[IntentResult, ...]:
        """Return what the ledger has."""
        return self._ledger.recent(since_unix_s)
