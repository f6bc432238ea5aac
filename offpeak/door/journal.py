"""The book that the door writes into: what is about to be done, before it is done, and what became of it."""

from dataclasses import dataclass
from typing import Protocol

from offpeak.door.effect import Effect, Outcome, Refusal


@dataclass(frozen=True)
class Intent:
    """An effect that was let through, by its number in the journal."""

    number: int
    effect: Effect
    at_unix_s: float


class Journal(Protocol):
    """Where intents, outcomes and refusals are kept."""

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Return the intent's number once it is there for good; CannotWrite otherwise."""

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        """Write what became of an intent, at once or a little later."""

    def write_refusal(self, effect: Effect, refusal: Refusal, at_unix_s: float) -> None:
        """Write which rule refused an effect, at once or a little later."""

    def unfinished(self) -> tuple[Intent, ...]:
        """Return the intents without an outcome, the oldest first."""
