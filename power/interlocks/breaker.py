"""The circuit breaker: it refuses all orders after many failures, and all orders with a login after that was refused.

It closes when an order succeeds that was given after it opened: a trial after a pause, or an order of an admin. Only an
admin's order tries a refused login again, because accounts get locked.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.door.journal import EffectHistory, HistoryEntry
from offpeak.errors import BadSetting, ErrorKind
from power.drivers.port import NeededLogins

DEVICE_ERRORS = {ErrorKind.NO_ANSWER, ErrorKind.BAD_ANSWER, ErrorKind.ACCESS_REFUSED, ErrorKind.WRONG_DEVICE}
RESET_HINT = "a successful order by hand closes it: offpeak node NAME wake"


@dataclass(frozen=True)
class BreakerTerms:
    """The breaker opens after `failures` among the latest `orders`, and then lets one order pass every `pause_s`.

    Raises BadSetting if it could never open.
    """

    failures: int
    orders: int
    pause_s: float

    def __post_init__(self) -> None:
        if self.failures > self.orders:
            message = f"agent.breaker_failures: {self.failures} among {self.orders} orders can never be"
            raise BadSetting(message, hint="breaker_orders below [agent] has to be as large, or larger")


@dataclass(frozen=True)
class BreakerState:
    """Open since `opened_s` on the steady clock, None while closed; `latest` says for each order whether it failed."""

    latest: tuple[bool, ...] = ()
    opened_s: float | None = None
    message: str = ""


def update_breaker(state: BreakerState, entry: HistoryEntry, terms: BreakerTerms) -> BreakerState:
    """Return the state after an order has ended. An order with an unknown outcome changes nothing."""
    failed, answer = _has_failed(entry), entry.answer
    if failed is None or answer is None:
        return state
    if state.opened_s is not None:
        if entry.begun_s <= state.opened_s:
            return state
        return replace(state, opened_s=entry.ended_s, message=answer.message) if failed else BreakerState()
    latest = (*state.latest, failed)[-terms.orders :]
    opens = sum(latest) >= terms.failures
    return BreakerState(latest, entry.ended_s if opens else None, answer.message if opens else "")


def _has_failed(entry: HistoryEntry) -> bool | None:
    """Return whether the device failed, at the order or at its identification; None if unknown."""
    if isinstance(entry.answer, Outcome):
        return None if entry.answer.result == "interrupted" else entry.answer.result == "failed"
    return True if entry.answer is not None and entry.answer.error_kind in DEVICE_ERRORS else None


class Breaker:
    """The breaker of a site."""

    def __init__(
        self,
        history: EffectHistory,
        terms: BreakerTerms,
        needed: Callable[[Effect], NeededLogins],
    ) -> None:
        self._history, self._terms, self._needed = history, terms, needed
        self._state, self._refused, self._seen = BreakerState(), dict[str, HistoryEntry](), 0

    def for_all(self, effect: Effect) -> Refusal | None:
        """Refuse while the breaker is open, except an admin's order and one trial after the pause."""
        self._catch_up()
        opened_s, pause_s = self._state.opened_s, self._terms.pause_s
        if opened_s is None or effect.by_admin:
            return None
        wait_s = opened_s + pause_s - self._history.now_s
        if wait_s <= 0 and not self._on_trial(opened_s):
            return None
        when = f"one order is tried in {wait_s:,.0f} s" if wait_s > 0 else "one order is on trial"
        message = f"{effect.subject}: too many orders failed, the last: {self._state.message}; {when}"
        return Refusal("breaker", message, RESET_HINT)

    def for_login(self, effect: Effect) -> Refusal | None:
        """Refuse orders that need a login that a device has refused, except an admin's order."""
        self._catch_up()
        needed = self._needed(effect)
        name = next((name for name in (needed.to_act, needed.to_identify) if name in self._refused), None)
        if name is None or effect.by_admin:
            return None
        answer = self._refused[name].answer
        message = f"{effect.subject}: the login {name} was refused: {answer.message if answer else ''}"
        return Refusal("refused_login", message, f"fix [credentials.{name}]; {RESET_HINT}")

    def _on_trial(self, opened_s: float) -> bool:
        latest = self._history.within(self._terms.pause_s)
        return any(entry.answer is None and entry.begun_s > opened_s for entry in latest)

    def _catch_up(self) -> None:
        for number, entry in self._history.ends_after(self._seen):
            self._state = update_breaker(self._state, entry, self._terms)
            self._note_login(entry)
            self._seen = number

    def _note_login(self, entry: HistoryEntry) -> None:
        answer, needed = entry.answer, self._needed(entry.effect)
        name = needed.to_act if isinstance(answer, Outcome) else needed.to_identify
        if name is None or answer is None:
            return
        if answer.error_kind == ErrorKind.ACCESS_REFUSED:
            self._refused[name] = entry
        elif isinstance(answer, Outcome) and answer.result == "done" and self._came_after(entry, name):
            del self._refused[name]

    def _came_after(self, entry: HistoryEntry, login: str) -> bool:
        return login in self._refused and entry.begun_s > self._refused[login].ended_s
