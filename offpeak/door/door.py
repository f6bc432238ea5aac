"""The door: asks the rules, writes what is about to happen, lets it happen, and writes what came of it."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.door.history import History
from offpeak.door.journal import Journal
from offpeak.door.mode import ModeOf, refused_by_mode
from offpeak.errors import OffpeakError
from offpeak.printable import printable

Rule = Callable[[Effect], Awaitable[Refusal | None]]
"""Reads something and refuses, or does not. What it raises refuses too: who cannot tell keeps the hands off."""

Limit = Callable[[Effect], Refusal | None]
"""Refuses by what is known without waiting: counts, lists, the latest look."""

Act = Callable[[], Awaitable[str]]
"""Does it, and returns what the device said. An OffpeakError is an outcome."""

PATIENCE_S = 60.0


class Door:
    """Lets effects through, one at a time for each subject; rules and limits are pairs of a name and what is asked.

    `patience_s` bounds each rule. `history` is what the limits count; it should hold what the journal knows.
    """

    def __init__(
        self,
        mode_of: ModeOf,
        *,
        journal: Journal,
        clock: Callable[[], float],
        rules: Sequence[tuple[str, Rule]] = (),
        limits: Sequence[tuple[str, Limit]] = (),
        history: History | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._mode_of = mode_of
        self.history = history or History()
        self._rules, self._limits = tuple(rules), tuple(limits)
        self._journal, self._clock, self._patience_s = journal, clock, patience_s
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def let_through(self, effect: Effect, act: Act) -> Outcome | Refusal:
        """Return what became of the effect; nothing is done where it is refused.

        The limits are asked first, so that no device is asked in vain, then the rules, then the limits again and last
        the mode: a record of the shadow mode says which other rule would have refused. What takes power away is refused
        where its intent cannot be written; what gives power goes on. Cancelled, the outcome is "interrupted".
        """
        async with self._turns[effect.subject]:
            begun = await self._asked(effect) or self._begun(effect)
            if isinstance(begun, Refusal):
                self._try_to_write(lambda: self._journal.write_refusal(effect, begun, self._clock()))
                self.history.refused(effect, begun)
                return begun
            return await self._done(effect, begun[0], act)

    async def _asked(self, effect: Effect) -> Refusal | None:
        if refusal := self._over_limit(effect):
            return refusal
        for name, rule in self._rules:
            try:
                async with asyncio.timeout(self._patience_s):
                    refusal = await rule(effect)
            except Exception as problem:
                refusal = _cannot_tell(name, effect, problem)
            if refusal:
                return refusal
        return None

    def _begun(self, effect: Effect) -> Refusal | tuple[int | None]:
        """Refuse, or write the intent and return its number, None if a wake goes on without.

        Nothing here waits: two effects at once can not both take the last place below a limit.
        """
        if refusal := self._over_limit(effect) or refused_by_mode(self._mode_of(effect), effect):
            return refusal
        number: int | None = None

        def write() -> None:
            nonlocal number
            number = self._journal.write_intent(effect, self._clock())

        trouble = self._try_to_write(write)
        if trouble and effect.takes_power_away:
            said = f"{effect.subject}: nothing is switched off that cannot be recorded: {trouble}"
            return Refusal("ledger", said, "offpeak ledger actions; df -h")
        return (number,)

    def _over_limit(self, effect: Effect) -> Refusal | None:
        for name, limit in self._limits:
            try:
                refusal = limit(effect)
            except Exception as problem:
                refusal = _cannot_tell(name, effect, problem)
            if refusal:
                return refusal
        return None

    async def _done(self, effect: Effect, intent: int | None, act: Act) -> Outcome:
        entry = self.history.begun(effect)
        try:
            outcome = Outcome("done", printable(await act()))
        except Exception as problem:
            outcome = Outcome("failed", _said(problem), type(problem).__name__)
        except BaseException:
            self._end(entry, intent, Outcome("interrupted", "nobody waited for its end"))
            raise
        return self._end(entry, intent, outcome)

    def _end(self, entry: int, intent: int | None, outcome: Outcome) -> Outcome:
        self.history.ended(entry, outcome)
        trouble = "its intent could not be written"
        if intent is not None:
            number = intent
            trouble = self._try_to_write(lambda: self._journal.write_outcome(number, outcome, self._clock()))
        return replace(outcome, said=f"{outcome.said}; not in the ledger: {trouble}") if trouble else outcome

    def _try_to_write(self, write: Callable[[], object]) -> str:
        """Write, and return why it could not be: whatever fails there must not hide what was done."""
        try:
            write()
        except Exception as problem:
            return _said(problem)
        return ""


def _cannot_tell(rule: str, effect: Effect, problem: Exception) -> Refusal:
    said = f"{effect.subject}: cannot tell: {_said(problem)}"
    hint = problem.hint if isinstance(problem, OffpeakError) else "it is asked again later"
    return Refusal(rule, said, hint, type(problem).__name__)


def _said(problem: Exception) -> str:
    if isinstance(problem, OffpeakError):
        return str(problem)
    text = "took too long" if isinstance(problem, TimeoutError) else printable(str(problem))
    return f"{type(problem).__name__}: {text}"
