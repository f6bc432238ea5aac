"""Limits on orders: per sweep, per hour, per rack and PDU, per node and day, and on how fast power may change.

Wake-ups and shutdowns are staggered.

The circuit breaker refuses all orders after many failures, and all orders with a login after that was refused. It
closes when an order succeeds that was given after it opened: a trial after a pause, or an order of an admin. Only an
admin's order tries a refused login again, because accounts get locked.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from offpeak.display import watts_text
from offpeak.door.door import Limit
from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.door.journal import EffectHistory, HistoryEntry
from offpeak.errors import BadSetting, ErrorKind
from offpeak.machines.inventory import Inventory
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.node_class import NodeClass
from offpeak.power.drivers.port import NeededLogins

BURST_S = 10.0
PAUSE_S = 30.0
"""The time after any order to a node during which no order may remove its power."""

NodeGroups = Mapping[str, frozenset[str]]
"""The rack and the PDUs of each node, as text for messages."""

DEVICE_ERRORS = {ErrorKind.NO_ANSWER, ErrorKind.BAD_ANSWER, ErrorKind.ACCESS_REFUSED, ErrorKind.WRONG_DEVICE}
RESET_HINT = "a successful order by hand closes it: offpeak nodes NAME wake"


def limit_per_sweep(history: EffectHistory, most: int) -> Limit:
    """Refuse to remove power from more than so many nodes within a sweep."""
    return _limit_count("per_sweep", history.of_sweep, most, "in this sweep", "nodes_per_sweep")


def limit_per_hour(history: EffectHistory, most: int) -> Limit:
    """Refuse to remove power from more than so many nodes within an hour."""
    return _limit_count("per_hour", lambda: history.within(HOUR_S), most, "within an hour", "nodes_per_hour")


def count_burst(per_minute: int) -> int:
    """Return how many of the wakes per minute may fall within ten seconds."""
    return math.ceil(per_minute * BURST_S / MINUTE_S)


def limit_wakes(history: EffectHistory, per_minute: int) -> Limit:
    """Refuse to wake more than so many nodes within a minute, or a sixth of that within ten seconds."""

    def refuse(effect: Effect) -> Refusal | None:
        if effect.takes_power_away:
            return None
        for window_s, most in ((BURST_S, count_burst(per_minute)), (MINUTE_S, per_minute)):
            if sum(not entry.effect.takes_power_away for entry in history.within(window_s)) >= most:
                message = f"{effect.subject}: {most} nodes were ordered to wake within {window_s:.0f} s"
                return Refusal("wakes", message, "offpeak tries again later; wakes_per_min below [agent] is the bound")
        return None

    return refuse


def limit_cycles_per_day(history: EffectHistory, most: int) -> Limit:
    """Refuse to remove power from one node more than so many times within a day."""

    def refuse(effect: Effect) -> Refusal | None:
        today = [entry for entry in history.of_subject(effect.subject) if history.now_s - entry.begun_s < DAY_S]
        if not effect.takes_power_away or _count_power_cuts(today) < most:
            return None
        message = f"{effect.subject}: was ordered to go down {most} times within a day"
        return Refusal("cycles_per_day", message, "raise cycles_per_day below [agent], or wait")

    return refuse


def pause_after_order(history: EffectHistory) -> Limit:
    """Refuse to remove power shortly after another order to the node, while its effect cannot be observed yet."""

    def refuse(effect: Effect) -> Refusal | None:
        latest = history.of_subject(effect.subject)[-1:]
        if not effect.takes_power_away or not latest or history.now_s - latest[0].begun_s >= PAUSE_S:
            return None
        message = f"{effect.subject}: was ordered {latest[0].effect.order} less than {PAUSE_S:.0f} s ago"
        return Refusal("just_ordered", message, "offpeak first observes the effect of that order")

    return refuse


def limit_per_rack(history: EffectHistory, groups: NodeGroups, most: int) -> Limit:
    """Refuse any order to more than so many nodes of one rack, or on one PDU, within a minute."""

    def refuse(effect: Effect) -> Refusal | None:
        counts = dict.fromkeys(groups.get(effect.subject, ()), 0)
        for entry in history.within(MINUTE_S):
            for group in groups.get(entry.effect.subject, frozenset()) & counts.keys():
                counts[group] += 1
        full = next((group for group, count in sorted(counts.items()) if count >= most), None)
        if full is None:
            return None
        message = f"{effect.subject}: {most} nodes of {full} got orders within a minute"
        return Refusal("per_rack", message, "offpeak tries again later; rack_nodes_per_min below [agent] is the bound")

    return refuse


def find_groups(inventory: Inventory) -> NodeGroups:
    """Return the rack and the PDUs of each node."""
    groups: dict[str, set[str]] = {machine.node: set() for machine in inventory.machines}
    for machine in inventory.machines:
        if machine.rack:
            groups[machine.node].add(f"rack {machine.rack}")
    for pdu in inventory.pdus:
        for node in inventory.nodes_on(pdu):
            groups[node].add(f"PDU {pdu.name}")
    return {node: frozenset(names) for node, names in groups.items()}


def _limit_count(rule: str, entries: Callable[[], Iterable[HistoryEntry]], most: int, when: str, setting: str) -> Limit:
    def refuse(effect: Effect) -> Refusal | None:
        if not effect.takes_power_away or _count_power_cuts(entries()) < most:
            return None
        message = f"{effect.subject}: {most} nodes were ordered to go down {when}"
        return Refusal(rule, message, f"offpeak tries again later; {setting} below [agent] is the bound")

    return refuse


def _count_power_cuts(entries: Iterable[HistoryEntry]) -> int:
    return sum(entry.effect.takes_power_away for entry in entries)


@dataclass(frozen=True)
class PowerStep:
    """The rise of power [W] by a node's wake-up, including the surge of its boot, and the fall by its shutdown."""

    rise_w: float
    fall_w: float

    def of(self, effect: Effect) -> float:
        """Return the power change of an order [W]."""
        return self.fall_w if effect.takes_power_away else self.rise_w


FindPowerStep = Callable[[str], PowerStep | None]
"""Returns the power step of a node, None if its power is not configured."""


def power_step_of_class(node_class: NodeClass) -> PowerStep:
    """Return the power step of a node of this class, assuming that it draws nothing while asleep."""
    surges = [depth.leave.power_w for depth in node_class.depths]
    return PowerStep(max([node_class.idle_w, *surges]), node_class.idle_w)


def limit_ramps(
    history: EffectHistory, power_step_of: FindPowerStep, *, sleep_w: float | None, wake_w: float | None
) -> Limit:
    """Refuse an order if the power would fall, or rise, by more than this [W] within a minute; None is no bound.

    An order that can never pass is an error of the settings.
    """

    def refuse(effect: Effect) -> Refusal | None:
        bound_w, key = (sleep_w, "sleep_ramp") if effect.takes_power_away else (wake_w, "wake_ramp")
        if bound_w is None:
            return None
        power_step = power_step_of(effect.subject)
        if power_step is None:
            message = f"{effect.subject}: its power is not configured, and {key} limits power changes"
            return Refusal(key, message, "add node_class to its [hardware]", ErrorKind.BAD_SETTING)
        before_w = _last_minute_w(history, power_step_of, effect)
        if before_w + power_step.of(effect) <= bound_w:
            return None
        direction = "fall" if effect.takes_power_away else "rise"
        text = f"{effect.subject}: the draw would {direction} by more than {watts_text(bound_w)} within a minute"
        passes_later = power_step.of(effect) <= bound_w
        hint = "offpeak tries again later" if passes_later else f"one such node alone: raise {key}"
        kind = "" if passes_later else ErrorKind.BAD_SETTING
        return Refusal(key, text, f"{hint}; {key} below [agent] is the bound", kind)

    return refuse


def _last_minute_w(history: EffectHistory, power_step_of: FindPowerStep, effect: Effect) -> float:
    """Return the power change by the orders of the last minute in the same direction [W]."""
    total_w = 0.0
    for entry in history.within(MINUTE_S):
        power_step = power_step_of(entry.effect.subject)
        if power_step and entry.effect.takes_power_away == effect.takes_power_away:
            total_w += power_step.of(entry.effect)
    return total_w


@dataclass(frozen=True)
class BreakerTerms:
    """Opens after `failures` of the latest `orders`, then lets one pass each `pause_s`. Raises BadSetting if never."""

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

    def __init__(self, history: EffectHistory, terms: BreakerTerms, needed: Callable[[Effect], NeededLogins]) -> None:
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
