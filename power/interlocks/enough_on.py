"""So many nodes stay on, and none is put to sleep while too many are out of sight. Wakes are never refused here."""

from collections.abc import Callable, Collection

from offpeak.door.door import Limit
from offpeak.door.effect import Effect, Hold, Refusal
from offpeak.door.journal import EffectHistory
from power.interlocks.counts import HOUR_S
from power.interlocks.sighting import ON, UNKNOWN, SightingOf, is_fresh


class EnoughOn:
    """Counts nodes, all of them those that were opted in."""

    def __init__(
        self,
        nodes: Collection[str],
        sighting_of: SightingOf,
        hold_of: Callable[[str], Hold | None],
        clock: Callable[[], float],
        fresh_s: float,
    ) -> None:
        self._nodes, self._sighting_of, self._hold_of = nodes, sighting_of, hold_of
        self._clock, self._fresh_s = clock, fresh_s

    def min_on(self, history: EffectHistory, least: int) -> Limit:
        """Refuse what takes power away where fewer nodes than `least` would be left on.

        Left on is what was seen on lately, what nobody holds, and what was not told within an hour, as its last order,
        to go down: it may still do so.
        """

        def refuse(effect: Effect) -> Refusal | None:
            if not effect.takes_power_away or least == 0:
                return None
            going = _told_to_go_down(history)
            left = sum(self._is_on(node) for node in self._nodes if node != effect.subject and node not in going)
            if left >= least:
                return None
            said = f"{effect.subject}: {left} nodes would be left on, {least} have to be"
            return Refusal("min_on", said, "min_on below [agent] is the bound")

        return refuse

    def not_too_many_unknown(self, percent: float) -> Limit:
        """Refuse what takes power away where the state of more than this share of nodes is not known."""

        def refuse(effect: Effect) -> Refusal | None:
            if not effect.takes_power_away:
                return None
            unknown = sum(not self._is_known(node) for node in self._nodes)
            if unknown * 100 <= percent * len(self._nodes):
                return None
            said = f"{effect.subject}: the state of {unknown} of {len(self._nodes)} nodes is not known"
            return Refusal("unknown_nodes", said, "is the network down? offpeak check")

        return refuse

    def _is_on(self, node: str) -> bool:
        sighting, now_unix_s = self._sighting_of(node), self._clock()
        if sighting is None or sighting.state != ON or not is_fresh(sighting, now_unix_s, self._fresh_s):
            return False
        hold = self._hold_of(node)
        return hold is None or not hold.lasts(now_unix_s)

    def _is_known(self, node: str) -> bool:
        sighting = self._sighting_of(node)
        return sighting is not None and sighting.state != UNKNOWN


def _told_to_go_down(history: EffectHistory) -> set[str]:
    latest: dict[str, bool] = {}
    for entry in history.within(HOUR_S):
        latest.setdefault(entry.effect.subject, entry.effect.takes_power_away)
    return {node for node, down in latest.items() if down}
