"""The record of effects: the port to which each is written before and after it, and the history of one day.

A crash between intent and outcome leaves a trace. The limits count the history; a restart reads it back from the
journal. Ages use a clock that nobody can set. If the clock was set back and times in the journal lie in the future,
those entries count as if they had happened now: this never widens a limit.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from offpeak.door.effect import DONE, REFUSED, Effect, Outcome, Refusal
from offpeak.model.clock import boot_s
from offpeak.model.constants import DAY_S


@dataclass(frozen=True)
class Intent:
    """An effect that was about to happen, and its number in the journal."""

    number: int
    effect: Effect
    at_unix_s: float


@dataclass(frozen=True)
class IntentResult:
    """An intent and its outcome; None if the outcome is not written, or not yet."""

    intent: Intent
    outcome: Outcome | None = None
    ended_unix_s: float | None = None

    @property
    def may_have_been_sent(self) -> bool:
        """Whether the device may have received the order."""
        return self.outcome is None or self.outcome.result != REFUSED


def counts_as_last_order(effect: Effect) -> bool:
    """Whether the effect decides if a node counts as put to sleep; a wake for the scheduler does not."""
    return effect.is_to_node and not effect.wakes_for_scheduler


@dataclass(frozen=True)
class LeaseState:
    """Which of two agents acts, in words; whether this one does; whether another one stands by, or else is active."""

    text: str
    is_active: bool
    has_peer: bool


class Journal(Protocol):
    """The record of effects. All calls but `write_outcome` may raise CannotWrite. Several threads may call it at once.

    `write_intent` may wait for seconds; the door calls it in a thread.
    """

    def acts_for_s(self) -> float:
        """Return for how long this program may act, 0 if it may not: of two agents that share a journal, one may.

        It does not wait.
        """

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Write an intent to the disk and return its number. Raises CannotWrite if that fails."""

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        """Write the outcome of an intent."""

    def write_refusal(self, effect: Effect, refusal: Refusal, at_unix_s: float) -> None:
        """Write that the effect was refused, and why."""

    def unfinished(self) -> tuple[Intent, ...]:
        """Return the intents without an outcome, oldest first."""

    def last_orders(self) -> tuple[Intent, ...]:
        """Return the last order to each node that may have worked, of any age, except wakes for the scheduler."""

    def recent(self, since_unix_s: float) -> tuple[IntentResult, ...]:
        """Return the intents since then with their outcomes, also those with times in the future."""


KEPT_S = DAY_S


@dataclass(frozen=True)
class HistoryEntry:
    """An effect that passed the door, with its steady times [s], or one that an error of a device stopped.

    `answer` is None while the effect is in progress, or if its outcome is not known.
    """

    number: int
    effect: Effect
    begun_s: float
    answer: Outcome | Refusal | None = None
    ended_s: float = 0.0


class EffectHistory:
    """The effects of the last day. `steady` is a monotonic clock [s]."""

    def __init__(self, steady: Callable[[], float] = boot_s) -> None:
        self._steady = steady
        self._entries: dict[int, HistoryEntry] = {}
        self._by_subject: defaultdict[str, dict[int, HistoryEntry]] = defaultdict(dict)
        self._ends: deque[tuple[int, HistoryEntry]] = deque()
        self._last: dict[str, Effect | None] = {}
        self._before_last: dict[int, Effect | None] = {}
        self._numbers = self._end_numbers = self._sweep_mark = 0

    @classmethod
    def of(cls, journal: Journal, unix_now_s: float, steady: Callable[[], float] = boot_s) -> "EffectHistory":
        """Read the orders to nodes of the last day from the journal; the errors of the journal pass through."""
        history = cls(steady)
        history._last = {order.effect.subject: order.effect for order in journal.last_orders()}
        now_s = steady()

        def steady_time(at_unix_s: float) -> float:
            return now_s - max(0.0, unix_now_s - at_unix_s)

        known = [(steady_time(done.intent.at_unix_s), done) for done in journal.recent(unix_now_s - KEPT_S)]
        known = [(at_s, done) for at_s, done in known if done.intent.effect.is_to_node and done.may_have_been_sent]
        ends = []
        for begun_s, done in sorted(known, key=lambda each: each[0]):
            entry = history._add(done.intent.effect, begun_s)
            if done.outcome is not None and done.ended_unix_s is not None:
                ended_s = max(begun_s, steady_time(done.ended_unix_s))
                ends.append(replace(entry, answer=done.outcome, ended_s=ended_s))
        for entry in sorted(ends, key=lambda end: end.ended_s):
            history._end(entry)
        history.begin_sweep()
        return history

    @property
    def now_s(self) -> float:
        """The present on the steady clock."""
        return self._steady()

    def begin_sweep(self) -> None:
        """Begin a sweep: `of_sweep` counts from here."""
        self._sweep_mark = self._numbers

    def begun(self, effect: Effect) -> int:
        """Add an effect that is about to happen and return the number of its entry."""
        self._forget()
        entry = self._add(effect, self.now_s)
        if counts_as_last_order(effect):
            self._before_last[entry.number] = self._last.get(effect.subject)
            self._last[effect.subject] = effect
        return entry.number

    def was_put_to_sleep(self, subject: str) -> bool:
        """Whether the node's last order to hardware took power away; failed wakes and the scheduler's do not count."""
        last = self._last.get(subject)
        return last is not None and last.takes_power_away

    def ended(self, number: int, outcome: Outcome) -> None:
        """Add the outcome of an entry."""
        entry = self._entries.get(number)
        if number in self._before_last:
            before = self._before_last.pop(number)
            if entry and not entry.effect.takes_power_away and outcome.result != DONE:
                # The node may be as it was.
                self._last[entry.effect.subject] = before
        if entry:
            self._end(replace(entry, answer=outcome, ended_s=self.now_s))

    def cancelled(self, number: int) -> None:
        """Remove an effect that was not carried out."""
        if entry := self._entries.pop(number, None):
            del self._by_subject[entry.effect.subject][number]
            if number in self._before_last:
                self._last[entry.effect.subject] = self._before_last.pop(number)

    def refused(self, effect: Effect, refusal: Refusal) -> None:
        """Add an error of a device that a rule met; only the breaker counts it."""
        if refusal.error_kind:
            self._append_end(HistoryEntry(0, effect, self.now_s, refusal, self.now_s))

    def within(self, window_s: float) -> Iterator[HistoryEntry]:
        """Yield the entries that began within the window, the latest first."""
        now_s = self.now_s
        for entry in reversed(self._entries.values()):
            if now_s - entry.begun_s >= window_s:
                return
            yield entry

    def of_subject(self, subject: str) -> tuple[HistoryEntry, ...]:
        """Return the entries of one node, the latest last."""
        return tuple(self._by_subject[subject].values()) if subject in self._by_subject else ()

    def of_sweep(self) -> Iterator[HistoryEntry]:
        """Yield the entries since the sweep began, the latest first."""
        for entry in reversed(self._entries.values()):
            if entry.number <= self._sweep_mark:
                return
            yield entry

    def ends_after(self, number: int) -> tuple[tuple[int, HistoryEntry], ...]:
        """Return the entries that ended after that end, with the number of each end, in order."""
        first = self._ends[0][0] if self._ends else 0
        return tuple(self._ends)[max(0, number + 1 - first) :]

    def _add(self, effect: Effect, begun_s: float) -> HistoryEntry:
        self._numbers += 1
        entry = HistoryEntry(self._numbers, effect, begun_s)
        self._entries[entry.number] = self._by_subject[effect.subject][entry.number] = entry
        return entry

    def _end(self, entry: HistoryEntry) -> None:
        self._entries[entry.number] = self._by_subject[entry.effect.subject][entry.number] = entry
        self._append_end(entry)

    def _append_end(self, entry: HistoryEntry) -> None:
        self._end_numbers += 1
        self._ends.append((self._end_numbers, entry))

    def _forget(self) -> None:
        oldest_s = self.now_s - KEPT_S
        while self._entries and (entry := next(iter(self._entries.values()))).begun_s <= oldest_s:
            del self._entries[entry.number]
            of_subject = self._by_subject[entry.effect.subject]
            of_subject.pop(entry.number, None)
            if not of_subject:
                del self._by_subject[entry.effect.subject]
        while self._ends and self._ends[0][1].ended_s <= oldest_s:
            self._ends.popleft()
