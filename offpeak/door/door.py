"""The door: checks the rules, writes the intent, runs the act, and writes the outcome."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from offpeak.door.effect import DONE, REFUSED, Effect, ModeOf, Outcome, Refusal, refused_by_mode
from offpeak.door.journal import EffectHistory, Journal
from offpeak.errors import OffpeakError, OrderTooLate, error_kind
from offpeak.model.clock import boot_s
from offpeak.text import printable

Rule = Callable[[Effect], Awaitable[Refusal | None]]
"""Refuses an effect, or returns None. An exception refuses too: a rule that cannot decide allows nothing."""

LastRule = Callable[[Effect], Awaitable[Refusal | float]]
"""A rule that runs when the order is ready. It returns the steady time at which its query began, or refuses."""

Limit = Callable[[Effect], Refusal | None]
"""Refuses by data at hand, without waiting: counts, lists, the latest observation."""

Act = Callable[[], Awaitable[str]]
"""Carries out the effect and returns the reply of the device. An OffpeakError becomes the outcome."""

Guard = Callable[[], float | None]
"""Raises OrderTooLate if the last answer is too old, or the lease has ended. The driver calls it directly before it
sends the command. It returns for how long both still hold [s]: a program that sends the command itself ends by then.
"""

Confirm = Callable[[], Awaitable[Guard]]
"""Checks the last rules and writes the intent. It raises if a rule refuses: the driver then sends nothing."""

PreparedAct = Callable[[Confirm], Awaitable[str]]
"""Prepares the order (login, state), awaits Confirm, calls its Guard and sends the one command."""

LEASE_RULE = "lease"
"""The rule that refuses every order of an agent that may no longer act."""
PATIENCE_S = 60.0
FRESH_S = 2.0
"""An order that takes power away is sent within this time after the last query began, or not at all."""
ATTEMPTS = 3
"""How often the door repeats the last rules if their answer comes, or is used, too late."""


JOIN_S = 0.05
"""How long a call that others can share waits for them."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class SharedCall(Generic[Item, Answer]):
    """Makes one blocking call for all items that are ready at about the same time, one call after the other.

    A call begins after each of its items was ready. If it fails, it fails for all of them. Calls that have a `turn` in
    common run at the same time, as many as it admits.
    """

    def __init__(self, call: Callable[[Sequence[Item]], Answer], turn: asyncio.Semaphore | None = None) -> None:
        self._call, self._turn = call, turn or asyncio.Semaphore(1)
        self._items: list[Item] = []
        self._next: asyncio.Task[Answer] | None = None

    async def join(self, item: Item) -> Answer:
        """Return the answer to a call with this item. An item that is cancelled before the call begins is left out."""
        if self._next is None or self._next.done():
            self._items, self._next = [], asyncio.create_task(self._run())
        items, call = self._items, self._next
        items.append(item)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            if call is self._next:
                items.remove(item)
                if not items:
                    self._next = None
                    call.cancel()
            raise

    async def _run(self) -> Answer:
        await asyncio.sleep(JOIN_S)
        async with self._turn:
            items, self._next = self._items, None
            return await asyncio.to_thread(self._call, items)


class _EffectRefused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass
class _EffectProgress:
    """The state of one effect in the door: whether its intent is written, its number, and its entry in the history."""

    written: bool = False
    intent: int | None = None
    entry: int | None = None


class Door:
    """Lets effects through, one at a time for each subject. Rules and limits are pairs of a name and a function.

    `patience_s` bounds each rule. The limits count `history`, which starts from the journal. The answers of the `last`
    rules must be fresh on the clock `steady`. `put_to_sleep` tells of another door's orders to sleep.
    """

    def __init__(
        self,
        mode_of: ModeOf,
        *,
        journal: Journal,
        clock: Callable[[], float],
        rules: Sequence[tuple[str, Rule]] = (),
        last: Sequence[tuple[str, LastRule]] = (),
        limits: Sequence[tuple[str, Limit]] = (),
        history: EffectHistory | None = None,
        patience_s: float = PATIENCE_S,
        steady: Callable[[], float] = boot_s,
        put_to_sleep: Callable[[str], bool] | None = None,
    ) -> None:
        self._mode_of = mode_of
        self.history = history or EffectHistory()
        self._rules, self._last, self._limits = tuple(rules), tuple(last), tuple(limits)
        self._journal, self._clock, self._patience_s, self._steady = journal, clock, patience_s, steady
        self._put_to_sleep = put_to_sleep or self.history.was_put_to_sleep
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def let_through(self, effect: Effect, act: Act) -> Outcome | Refusal:
        """Carry out an effect that needs no preparation and return its outcome, as `let_through_prepared` does."""

        async def at_once(confirm: Confirm) -> str:
            (await confirm())()
            return await act()

        return await self.let_through_prepared(effect, at_once)

    async def let_through_prepared(self, effect: Effect, act: PreparedAct) -> Outcome | Refusal:
        """Carry out the effect and return its outcome, or return the refusal and do nothing.

        The door checks the limits before the rules, so that it queries no device in vain. Then `act` prepares the
        order and awaits `confirm`, which checks the last rules, the limits and the mode, and writes the intent. If more
        than FRESH_S have passed since the last query began, the door repeats it, up to ATTEMPTS times. The door refuses
        an order that takes power away if it cannot write the intent; an order that gives power proceeds. If the task
        is cancelled, the outcome is "interrupted".
        """
        async with self._turns[effect.subject]:
            try:
                await self._ask_rules(effect)
                if self._refused_by_mode(effect):
                    # The order is not prepared; the record names any other rule that would have refused it.
                    await self._ask_last(effect)
                    self._check_now(effect)
            except _EffectRefused as refused:
                return self._refuse(effect, refused.refusal, _EffectProgress())
            return await self._carry_out(effect, act)

    async def settle(self, subject: str) -> None:
        """Wait until no effect on the subject is in progress."""
        async with self._turns[subject]:
            return

    async def _carry_out(self, effect: Effect, act: PreparedAct) -> Outcome | Refusal:
        progress = _EffectProgress()
        try:
            for _ in range(ATTEMPTS):
                confirm = partial(self._confirm, effect, progress)
                try:
                    message = await act(confirm)
                    if progress.entry is None:
                        # Nothing was sent; the door still checks the rules and writes the intent.
                        await confirm()
                    return self._end(progress, Outcome(DONE, printable(message)))
                except OrderTooLate:
                    self._forget(progress)
            return self._refuse(effect, _too_late(effect), progress)
        except _EffectRefused as refused:
            return self._refuse(effect, refused.refusal, progress)
        except Exception as problem:
            return await self._failed(effect, progress, Outcome("failed", _error_text(problem), error_kind(problem)))
        except BaseException:
            if progress.written:
                result = REFUSED if progress.entry is None else "interrupted"
                self._end(progress, Outcome(result, "nobody waited for its end"))
            raise

    def predict_refusal(self, effect: Effect) -> Refusal | None:
        """Return the refusal of a limit or the mode without effect, None if only a rule might refuse."""
        return self._over_limit(effect) or self._refused_by_mode(effect)

    def guard_of(self, effect: Effect) -> Guard:
        """Return the guard of an order that only renews what the door has let through, such as a timer."""
        return partial(self._guard, effect, math.inf)

    def _refused_by_mode(self, effect: Effect) -> Refusal | None:
        return refused_by_mode(self._mode_of(effect), effect, put_to_sleep=self._put_to_sleep(effect.subject))

    async def _ask_rules(self, effect: Effect) -> None:
        if refusal := self._over_limit(effect):
            raise _EffectRefused(refusal)
        for name, rule in self._rules:
            await self._ask(name, rule, effect)

    async def _ask_last(self, effect: Effect) -> float:
        """Return when the query of the oldest answer began; without last rules no answer is ever too old."""
        begun_s = [math.inf]
        for name, rule in self._last:
            begun_s.append(await self._ask(name, rule, effect) or 0.0)
        return min(begun_s)

    async def _ask(
        self, name: str, rule: Callable[[Effect], Awaitable[Refusal | float | None]], effect: Effect
    ) -> float | None:
        try:
            async with asyncio.timeout(self._patience_s):
                answer = await rule(effect)
        except Exception as problem:
            raise _EffectRefused(_rule_failed(name, effect, problem)) from None
        if isinstance(answer, Refusal):
            raise _EffectRefused(answer)
        return answer

    async def _confirm(self, effect: Effect, progress: _EffectProgress) -> Guard:
        for _ in range(ATTEMPTS):
            begun_s = await self._ask_last(effect)
            await self._begin(effect, progress)
            if not effect.takes_power_away or self._steady() - begun_s <= FRESH_S:
                return partial(self._guard, effect, begun_s)
            self._forget(progress)
        raise _EffectRefused(_too_late(effect))

    def _guard(self, effect: Effect, begun_s: float) -> float:
        acts_for_s = self._journal.acts_for_s()
        if not acts_for_s:
            raise OrderTooLate(f"{effect.subject}: not sent: the lease of this agent has ended")
        if not effect.takes_power_away:
            return acts_for_s
        age_s = self._steady() - begun_s
        if age_s > FRESH_S:
            raise OrderTooLate(f"{effect.subject}: not sent: the last answer is {age_s:.1f} s old")
        return min(acts_for_s, FRESH_S - age_s)

    def _check_now(self, effect: Effect) -> None:
        if refusal := self.predict_refusal(effect):
            raise _EffectRefused(refusal)

    def _take_place(self, effect: Effect, progress: _EffectProgress) -> None:
        """Count the effect in the history, or refuse it by a limit or the mode.

        No await between both: two concurrent effects cannot both take the last place below a limit.
        """
        self._forget(progress)
        self._check_now(effect)
        progress.entry = self.history.begun(effect)

    async def _begin(self, effect: Effect, progress: _EffectProgress) -> None:
        """Refuse, or write the intent once; a wake proceeds without, but never without the lease.

        A slow ledger keeps only this effect waiting. What an admin decides meanwhile counts.
        """
        self._take_place(effect, progress)
        problem = ""
        if not progress.written:

            def write() -> None:
                progress.intent = self._journal.write_intent(effect, self._clock())

            writing = asyncio.create_task(asyncio.to_thread(self._try_to_write, write))
            try:
                problem = await asyncio.shield(writing)
            except asyncio.CancelledError:
                self._forget(progress)
                progress.written = not await writing
                raise
            self._take_place(effect, progress)
        if not self._journal.acts_for_s():
            message = f"{effect.subject}: this agent does not hold the lease{f': {problem}' if problem else ''}"
            raise _EffectRefused(Refusal(LEASE_RULE, message, "`offpeak status` says which agent acts"))
        if problem and effect.takes_power_away:
            message = f"{effect.subject}: nothing is switched off that cannot be recorded: {problem}"
            raise _EffectRefused(Refusal("ledger", message, "offpeak ledger actions; df -h"))
        progress.written = True

    def _refuse(self, effect: Effect, refusal: Refusal, progress: _EffectProgress) -> Refusal:
        self._forget(progress)
        if progress.intent is not None:
            number = progress.intent
            outcome = Outcome(REFUSED, refusal.message, refusal.rule)
            self._try_to_write(lambda: self._journal.write_outcome(number, outcome, self._clock()))
        self._try_to_write(lambda: self._journal.write_refusal(effect, refusal, self._clock()))
        self.history.refused(effect, refusal)
        return refusal

    def _forget(self, progress: _EffectProgress) -> None:
        if progress.entry is not None:
            self.history.cancelled(progress.entry)
            progress.entry = None

    async def _failed(self, effect: Effect, progress: _EffectProgress, outcome: Outcome) -> Outcome | Refusal:
        """Write the outcome of an order that failed, even while it was prepared."""
        if progress.entry is None:
            try:
                await self._begin(effect, progress)
            except _EffectRefused as refused:
                return self._refuse(effect, refused.refusal, progress)
        return self._end(progress, outcome)

    def _over_limit(self, effect: Effect) -> Refusal | None:
        for name, limit in self._limits:
            try:
                refusal = limit(effect)
            except Exception as problem:
                refusal = _rule_failed(name, effect, problem)
            if refusal:
                return refusal
        return None

    def _end(self, progress: _EffectProgress, outcome: Outcome) -> Outcome:
        if progress.entry is not None:
            self.history.ended(progress.entry, outcome)
        problem = "its intent could not be written"
        if progress.intent is not None:
            number = progress.intent
            problem = self._try_to_write(lambda: self._journal.write_outcome(number, outcome, self._clock()))
        return replace(outcome, message=f"{outcome.message}; not in the ledger: {problem}") if problem else outcome

    def _try_to_write(self, write: Callable[[], object]) -> str:
        """Write and return the error text, "" on success: a failed write must not hide what was done."""
        try:
            write()
        except Exception as problem:
            return _error_text(problem)
        return ""


def _too_late(effect: Effect) -> Refusal:
    subject = effect.subject
    message = f"{subject}: no answer of the scheduler was younger than {FRESH_S:g} s when the order was to be sent"
    hint = "is the scheduler, the ledger or the BMC slow? it is asked again later"
    return Refusal("too_late", message, hint)


def _rule_failed(rule: str, effect: Effect, problem: Exception) -> Refusal:
    message = f"{effect.subject}: cannot tell: {_error_text(problem)}"
    hint = problem.hint if isinstance(problem, OffpeakError) else "offpeak tries again later"
    return Refusal(rule, message, hint, error_kind(problem))


def _error_text(problem: Exception) -> str:
    if isinstance(problem, OffpeakError):
        return str(problem)
    text = "took too long" if isinstance(problem, TimeoutError) else printable(str(problem))
    return f"{type(problem).__name__}: {text}"
