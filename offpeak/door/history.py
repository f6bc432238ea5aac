"""What went through the door within a day, for the limits that count it. A restart does not forget: the journal knows.

Ages are measured by a clock that nobody can set. Where the journal's times lie ahead of the present, since the clock
was set back, what is written there counts as having happened just now: a limit never gets wider by that.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from offpeak.door.effect import DONE, Effect, Outcome, Refusal
from offpeak.door.journal import Journal, counts_as_last_order

KEPT_S = 86_400.0


@dataclass(frozen=True)
class Entry:
    """An effect that went through, with its steady times [s]; or one that a device's trouble kept from it.

    `answer` is None for one under way, or of which nobody knows what became.
    """

    number: int
    effect: Effect
    begun_s: float
    answer: Outcome | Refusal | None = None
    ended_s: float = 0.0


class History:
    """The effects of the last day. `steady` tells seconds that only ever grow."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._entries: dict[int, Entry] = {}
        self._by_subject: defaultdict[str, dict[int, Entry]] = defaultdict(dict)
        self._ends: deque[tuple[int, Entry]] = deque()
        self._last: dict[str, Effect | None] = {}
        self._before_last: dict[int, Effect | None] = {}
        self._numbers = self._end_numbers = self._sweep_mark = 0

    @classmethod
    def of(cls, journal: Journal, unix_now_s: float, steady: Callable[[], float] = time.monotonic) -> "History":
        """Return what the journal knows of the last day's orders to nodes; whatever error the journal raises."""
        history = cls(steady)
        history._last = {each.effect.subject: each.effect for each in journal.last_orders()}
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
        for entry in sorted(ends, key=lambda each: each.ended_s):
            history._end(entry)
        history.begin_sweep()
        return history

    @property
    def now_s(self) -> float:
        """The present on the steady clock."""
        return self._steady()

    def begin_sweep(self) -> None:
        """Count anew what belongs to one sweep."""
        self._sweep_mark = self._numbers

    def begun(self, effect: Effect) -> int:
        """Remember that an effect is about to happen; returns the number of its entry."""
        self._forget()
        entry = self._add(effect, self.now_s)
        if counts_as_last_order(effect):
            self._before_last[entry.number] = self._last.get(effect.subject)
            self._last[effect.subject] = effect
        return entry.number

    def was_put_to_sleep(self, subject: str) -> bool:
        """Whether the last order to a node's hardware, however long ago, took power away.

        Wakes that failed do not count, nor those for the scheduler, which may be tried again.
        """
        last = self._last.get(subject)
        return last is not None and last.takes_power_away

    def ended(self, number: int, outcome: Outcome) -> None:
        """Remember what became of it."""
        entry = self._entries.get(number)
        if number in self._before_last:
            before = self._before_last.pop(number)
            if entry and not entry.effect.takes_power_away and outcome.result != DONE:
                # The node may be as it was.
                self._last[entry.effect.subject] = before
        if entry:
            self._end(replace(entry, answer=outcome, ended_s=self.now_s))

    def cancelled(self, number: int) -> None:
        """Forget an effect that was not carried out."""
        if entry := self._entries.pop(number, None):
            del self._by_subject[entry.effect.subject][number]
            if number in self._before_last:
                self._last[entry.effect.subject] = self._before_last.pop(number)

    def refused(self, effect: Effect, refusal: Refusal) -> None:
        """Remember a device's trouble that a rule met; it counts for no limit but the breaker."""
        if refusal.trouble:
            self._append_end(Entry(0, effect, self.now_s, refusal, self.now_s))

    def within(self, window_s: float) -> Iterator[Entry]:
        """Give the entries that began less than so long ago, latest first."""
        now_s = self.now_s
        for entry in reversed(self._entries.values()):
            if now_s - entry.begun_s >= window_s:
                return
            yield entry

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        """Return the entries of one node, latest last."""
        return tuple(self._by_subject[subject].values()) if subject in self._by_subject else ()

    def of_sweep(self) -> Iterator[Entry]:
        """Give the entries since the sweep began, latest first."""
        for entry in reversed(self._entries.values()):
            if entry.number <= self._sweep_mark:
                return
            yield entry

    def ends_after(self, number: int) -> tuple[tuple[int, Entry], ...]:
        """Return what ended after the end of that number, each with its own number, first to last."""
        first = self._ends[0][0] if self._ends else 0
        return tuple(self._ends)[max(0, number + 1 - first) :]

    def _add(self, effect: Effect, begun_s: float) -> Entry:
        self._numbers += 1
        entry = Entry(self._numbers, effect, begun_s)
        self._entries[entry.number] = self._by_subject[effect.subject][entry.number] = entry
        return entry

    def _end(self, entry: Entry) -> None:
        self._entries[entry.number] = self._by_subject[entry.effect.subject][entry.number] = entry
        self._append_end(entry)

    def _append_end(self, entry: Entry) -> None:
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
