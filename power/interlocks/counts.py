"""How many nodes may be told something at once: per sweep, per hour, per rack and PDU, per node and day."""

import math
from collections.abc import Callable, Iterable, Mapping

from offpeak.door.door import Limit
from offpeak.door.effect import Effect, Refusal
from offpeak.door.journal import EffectHistory, HistoryEntry
from offpeak.machines.inventory import Inventory

BURST_S, MINUTE_S, HOUR_S, DAY_S = 10.0, 60.0, 3600.0, 86_400.0
PAUSE_S = 30.0
"""So long after any order to a node none follows that takes power away: two of them at once are one too many."""

Groups = Mapping[str, frozenset[str]]
"""The rack and the PDUs of each node, in words."""


def per_sweep(history: EffectHistory, most: int) -> Limit:
    """Refuse what takes power away from more than so many nodes since the sweep began."""
    return _counted("per_sweep", history.of_sweep, most, "in this sweep", "nodes_per_sweep")


def per_hour(history: EffectHistory, most: int) -> Limit:
    """Refuse what takes power away from more than so many nodes within an hour."""
    return _counted("per_hour", lambda: history.within(HOUR_S), most, "within an hour", "nodes_per_hour")


def burst_of(per_minute: int) -> int:
    """Return how many of the nodes that may wake within a minute may do so within ten seconds."""
    return math.ceil(per_minute * BURST_S / MINUTE_S)


def wakes(history: EffectHistory, per_minute: int) -> Limit:
    """Refuse to wake more than so many nodes within a minute, or a sixth of that within ten seconds."""

    def refuse(effect: Effect) -> Refusal | None:
        if effect.takes_power_away:
            return None
        for window_s, most in ((BURST_S, burst_of(per_minute)), (MINUTE_S, per_minute)):
            if sum(not entry.effect.takes_power_away for entry in history.within(window_s)) >= most:
                said = f"{effect.subject}: {most} nodes were told to wake within {window_s:.0f} s"
                return Refusal("wakes", said, "it is asked again later; wakes_per_min below [agent] is the bound")
        return None

    return refuse


def cycles_per_day(history: EffectHistory, most: int) -> Limit:
    """Refuse what takes power away from one node more often than so within a day."""

    def refuse(effect: Effect) -> Refusal | None:
        today = [entry for entry in history.of_subject(effect.subject) if history.now_s - entry.begun_s < DAY_S]
        if not effect.takes_power_away or _taking(today) < most:
            return None
        said = f"{effect.subject}: was told {most} times within a day to go down"
        return Refusal("cycles_per_day", said, "raise cycles_per_day below [agent], or wait")

    return refuse


def just_ordered(history: EffectHistory) -> Limit:
    """Refuse what takes power away so soon after another order to the node that its effect cannot be seen yet."""

    def refuse(effect: Effect) -> Refusal | None:
        latest = history.of_subject(effect.subject)[-1:]
        if not effect.takes_power_away or not latest or history.now_s - latest[0].begun_s >= PAUSE_S:
            return None
        said = f"{effect.subject}: was told {latest[0].effect.order} less than {PAUSE_S:.0f} s ago"
        return Refusal("just_ordered", said, "what became of that is looked at first")

    return refuse


def per_rack(history: EffectHistory, groups: Groups, most: int) -> Limit:
    """Refuse any order to more than so many nodes of one rack, or on one PDU, within a minute."""

    def refuse(effect: Effect) -> Refusal | None:
        counts = dict.fromkeys(groups.get(effect.subject, ()), 0)
        for entry in history.within(MINUTE_S):
            for group in groups.get(entry.effect.subject, frozenset()) & counts.keys():
                counts[group] += 1
        full = next((group for group, count in sorted(counts.items()) if count >= most), None)
        if full is None:
            return None
        said = f"{effect.subject}: {most} nodes of {full} were told something within a minute"
        return Refusal("per_rack", said, "it is asked again later; rack_nodes_per_min below [agent] is the bound")

    return refuse


def groups_of(inventory: Inventory) -> Groups:
    """Return which racks and PDUs each node belongs to."""
    groups: dict[str, set[str]] = {machine.node: set() for machine in inventory.machines}
    for machine in inventory.machines:
        if machine.rack:
            groups[machine.node].add(f"rack {machine.rack}")
    for pdu in inventory.pdus:
        for _, node in pdu.outlets:
            groups[node].add(f"PDU {pdu.name}")
    return {node: frozenset(names) for node, names in groups.items()}


def _counted(rule: str, entries: Callable[[], Iterable[HistoryEntry]], most: int, when: str, setting: str) -> Limit:
    def refuse(effect: Effect) -> Refusal | None:
        if not effect.takes_power_away or _taking(entries()) < most:
            return None
        said = f"{effect.subject}: {most} nodes were told to go down {when}"
        return Refusal(rule, said, f"it is asked again later; {setting} below [agent] is the bound")

    return refuse


def _taking(entries: Iterable[HistoryEntry]) -> int:
    return sum(entry.effect.takes_power_away for entry in entries)
