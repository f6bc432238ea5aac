"""What is written of every effect before and after it, so that a crash between the two leaves a trace."""

from dataclasses import dataclass
from typing import Protocol

from offpeak.door.effect import DONE, REFUSED, Effect, Outcome, Refusal


@dataclass(frozen=True)
class Intent:
    """An effect that was about to happen, by its number in the journal."""

    number: int
    effect: Effect
    at_unix_s: float


@dataclass(frozen=True)
class Done:
    """An intent and what became of it; None for one whose outcome is not written, or not yet."""

    intent: Intent
    outcome: Outcome | None = None
    ended_unix_s: float | None = None

    @property
    def may_have_been_sent(self) -> bool:
        """Whether the device may have got the order."""
        return self.outcome is None or self.outcome.result != REFUSED

    @property
    def may_have_worked(self) -> bool:
        """Whether the node may be as ordered; a wake counts only if the device has accepted it."""
        if self.intent.effect.takes_power_away:
            return self.may_have_been_sent
        return self.outcome is not None and self.outcome.result == DONE


def counts_as_last_order(effect: Effect) -> bool:
    """Whether it decides if a node counts as put to sleep; a wake for the scheduler does not, it may be tried again."""
    return effect.is_to_node and not effect.wakes_for_scheduler


class Journal(Protocol):
    """Where effects are written. Calls are short and do not wait; all but `write_outcome` may raise CannotWrite."""

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Return the number of the intent once it is on the disk; CannotWrite if it is not."""

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        """Write what became of it."""

    def write_refusal(self, effect: Effect, refusal: Refusal, at_unix_s: float) -> None:
        """Write that nothing was done, and why."""

    def unfinished(self) -> tuple[Intent, ...]:
        """Return the intents without an outcome, oldest first."""

    def last_orders(self) -> tuple[Intent, ...]:
        """Return each node's last order that may have worked, however long ago, but for wakes for the scheduler."""

    def recent(self, since_unix_s: float) -> tuple[Done, ...]:
        """Return the intents since then, later ones that a clock has left behind too, with what became of them."""
