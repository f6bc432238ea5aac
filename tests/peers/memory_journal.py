"""A journal that is forgotten when the program ends."""

import math
from threading import Lock

from offpeak.door.effect import DONE, Effect, Outcome, Refusal
from offpeak.door.journal import Intent, IntentResult, counts_as_last_order


def may_have_worked(done: IntentResult) -> bool:
    """Return whether the node may have followed the order; a wake counts only if the device accepted it."""
    if done.intent.effect.takes_power_away:
        return done.may_have_been_sent
    return done.outcome is not None and done.outcome.result == DONE


class MemoryJournal:
    """Implements offpeak.door.journal.Journal; `refusals` are all that were written."""

    def __init__(self) -> None:
        self._done: dict[int, IntentResult] = {}
        self.refusals: list[tuple[Effect, Refusal]] = []
        self._turn = Lock()

    def acts_for_s(self) -> float:
        """No other program shares the journal."""
        return math.inf

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Return the intent's number."""
        with self._turn:
            number = len(self._done) + 1
            self._done[number] = IntentResult(Intent(number, effect, at_unix_s))
        return number

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        """Keep it with its intent."""
        self._done[intent] = IntentResult(self._done[intent].intent, outcome, at_unix_s)

    def write_refusal(self, effect: Effect, refusal: Refusal, _at_unix_s: float) -> None:
        """Keep it."""
        self.refusals.append((effect, refusal))

    def unfinished(self) -> tuple[Intent, ...]:
        """Return the intents without an outcome."""
        return tuple(done.intent for done in self._all() if done.outcome is None)

    def last_orders(self) -> tuple[Intent, ...]:
        """Return the last order to each node."""
        sent = [done.intent for done in self._all() if may_have_worked(done)]
        last = {intent.effect.subject: intent for intent in sent if counts_as_last_order(intent.effect)}
        return tuple(last.values())

    def recent(self, since_unix_s: float) -> tuple[IntentResult, ...]:
        """Return the intents since then."""
        return tuple(done for done in self._all() if done.intent.at_unix_s >= since_unix_s)

    def _all(self) -> tuple[IntentResult, ...]:
        with self._turn:
            return tuple(self._done.values())
