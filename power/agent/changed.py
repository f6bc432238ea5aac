"""Which decisions are worth writing: those that differ from what was written of the same subject before."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from offpeak.ledger.rows import DecisionRecord

TIMES = ("begin_s", "planned_start_s")
"""Inputs that say for when something is decided. A forecast moves them a little in each cycle."""
SAME_TIME_S = 900
"""A time that moves by less makes no new decision."""

What = TypeVar("What")


@dataclass(frozen=True)
class _Essence:
    """What a decision is without its grounds: prices, draws and other moving figures."""

    decided: str
    beside: float | str | None
    time_s: float | None
    reason: str


class Changed:
    """Remembers what was written last of each subject: `latest`, by subject.

    What is decided again, differently, is written after `again_after_s` at the earliest.
    """

    def __init__(self, *, again_after_s: float = 0.0) -> None:
        self.latest: dict[str, DecisionRecord] = {}
        self._again_after_s = again_after_s
        self._known: dict[str, tuple[DecisionRecord, ...]] = {}

    def of(self, decisions: Iterable[DecisionRecord], alive: Collection[str]) -> tuple[DecisionRecord, ...]:
        """Return the decisions that are new; subjects that are not `alive` any more are forgotten.

        A subject may have several decisions in one cycle: each is compared with all of the cycle before.
        """
        new: list[DecisionRecord] = []
        known: dict[str, tuple[DecisionRecord, ...]] = {}
        for each in decisions:
            before = next((one for one in self._known.get(each.subject, ()) if self._is_same(one, each)), None)
            if before is None:
                new.append(each)
            known[each.subject] = (*known.get(each.subject, ()), before or each)
        self._known = _of_alive(self._known | known, alive)
        self.latest = _of_alive(self.latest | {each.subject: each for each in new}, alive)
        return tuple(new)

    def _is_same(self, before: DecisionRecord, now: DecisionRecord) -> bool:
        if before.decided == now.decided and now.at_unix_s - before.at_unix_s < self._again_after_s:
            return True
        was, essence = _essence(before), _essence(now)
        if was.time_s is None or essence.time_s is None or was.decided != essence.decided:
            return was == essence
        return was.beside == essence.beside and abs(was.time_s - essence.time_s) < SAME_TIME_S


def _essence(decision: DecisionRecord) -> _Essence:
    inputs = dict(decision.inputs)
    time_s = next((value for name in TIMES if isinstance(value := inputs.get(name), float)), None)
    beside = inputs.get("beside")
    # Behind the semicolon stands until when, which moves on with the clock.
    reason = decision.reason.partition(";")[0] if time_s is None and beside is None else ""
    return _Essence(decision.decided, beside, time_s, reason)


def _of_alive(by_subject: dict[str, What], alive: Collection[str]) -> dict[str, What]:
    return {subject: each for subject, each in by_subject.items() if subject in alive}
