"""Which readings can be true, by the class and the state of the node, else by what the meter has shown before.

An impossible reading is refused: it becomes a gap with the reason, and is counted. A doubtful reading is refused, too,
until the next ones confirm it: a node that is off may still draw much. Then all are booked, and the node is named.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTH_OF_STATE
from offpeak.model.orders import NodeState
from offpeak.power.meters.port import Reading

POSSIBLE_FACTOR = 1.5
"""A node draws at most so many times the maximum of its class: classes hold means, and meters are inexact."""
AGREE_FACTOR = 2.0
"""Readings up to this factor above another one agree with it. Without a class, more than that above all is doubtful."""
CONFIRM_READINGS, CONFIRM_S = 3, 120.0
"""So many doubtful readings in a row, over at least this time, are a real draw; BMCs repeat a spike for a minute."""
STUCK_S = float(DAY_S)
"""A reading that has not changed for so long while its node was up is stuck."""
STUCK_IN_BOTH_S = 600.0
"""A reading is stuck, too, if it has not changed for so long with the node up and as long with the node asleep."""


@dataclass(frozen=True)
class DrawBound:
    """The most that a part can draw [W], and the most that its state lets expect, None where that is not known.

    `of` names what is bounded, and `asleep` is None for an unknown state.
    """

    possible_w: float | None = None
    expected_w: float | None = None
    of: str = ""
    asleep: bool | None = None


def find_draw_bound(node_class: NodeClass | None, state: NodeState | None) -> DrawBound:
    """Return the bound of a node; one that sleeps is not expected to draw more than an idle one."""
    asleep = None if state is None or state is NodeState.UNKNOWN else state in DEPTH_OF_STATE
    if node_class is None:
        return DrawBound(asleep=asleep)
    changes_w = [change.power_w for depth in node_class.depths for change in (depth.enter, depth.leave)]
    possible_w = POSSIBLE_FACTOR * max(node_class.running[-1][1], *changes_w, node_class.idle_w)
    expected_w = None if asleep is None else node_class.idle_w if asleep else possible_w
    return DrawBound(possible_w, expected_w, f"a node of class {node_class.name}", asleep)


def find_enclosure_bound(name: str, bounds: Sequence[DrawBound]) -> DrawBound:
    """Return the bound of nodes that share supplies, the sum of their bounds."""
    asleep = [each.asleep for each in bounds]
    return DrawBound(
        _sum_known([each.possible_w for each in bounds]),
        _sum_known([each.expected_w for each in bounds]),
        f"the {len(bounds)} nodes of {name}",
        None if None in asleep else all(asleep),
    )


def _sum_known(powers_w: Sequence[float | None]) -> float | None:
    return None if None in powers_w else sum(each or 0.0 for each in powers_w)


@dataclass(frozen=True)
class PartHistory:
    """What the readings of a part have shown.

    `known_w` are its last values. `held_w` is the highest that CONFIRM_READINGS in a row reached, or the median of
    doubtful readings that were confirmed, if that is higher. The readings of `waiting` are doubtful. `refused` readings
    were counted, the last at `refused_unix_s`. The value contradicts the node's state since `unexpected_s`. It has not
    changed for `up_s` with the node up and for `asleep_s` with the node asleep.
    """

    known_w: tuple[float, ...] = ()
    held_w: float = 0.0
    waiting: tuple[Reading, ...] = ()
    refused: int = 0
    refused_unix_s: float = -math.inf
    refusal: str = ""
    unexpected_s: float = math.inf
    last_unix_s: float = math.inf
    up_s: float = 0.0
    asleep_s: float = 0.0

    @property
    def problem(self) -> str:
        """What an admin should look at, "" for nothing."""
        if self.last_unix_s - self.unexpected_s >= CONFIRM_S:
            return f"draws {self.known_w[-1]:,.0f} W although it sleeps; `offpeak nodes` shows its state"
        if self.up_s >= STUCK_S or min(self.up_s, self.asleep_s) >= STUCK_IN_BOTH_S:
            beside = ", with the node up and asleep" if self.asleep_s else ""
            hours = (self.up_s + self.asleep_s) / HOUR_S
            return f"shows exactly {self.known_w[-1]:,.0f} W for {hours:.1f} h{beside}; is its meter stuck?"
        if self.refused and (not self.known_w or self.last_unix_s - self.refused_unix_s < DAY_S):
            lasts = not self.known_w or self.refused_unix_s - self.last_unix_s >= CONFIRM_S
            hint = "; it lasts: is node_class right, and the meter's unit?" if lasts else ""
            return f"has readings that are refused: {self.refusal}{hint}"
        return ""


def check_reading(
    reading: Reading, before: PartHistory, bound: DrawBound
) -> tuple[Reading, tuple[Reading, ...], PartHistory]:
    """Return the reading, without its value if that is refused, and the doubtful readings before that it confirms."""
    power_w, waiting = reading.power_w, before.waiting
    if power_w is None:
        return reading, (), _refuse(before, waiting)
    if impossible := _find_impossible(power_w, bound):
        refused = replace(reading, power_w=None, why=f"refused: {impossible}")
        return refused, (), _refuse(before, (*waiting, refused))
    if bound.expected_w is not None:
        usual_w, of = bound.expected_w, f"the most expected of {bound.of} in this state"
    else:
        usual_w, of = AGREE_FACTOR * before.held_w or math.inf, "twice the highest draw that lasted"
    contradiction = "" if power_w <= usual_w else f"{power_w:,.0f} W, more than {usual_w:,.0f} W, {of}"
    if contradiction and not (before.known_w and power_w <= AGREE_FACTOR * max(before.known_w)):
        refused = replace(reading, power_w=None, why=f"refused: {contradiction}")
        waiting = (*waiting, replace(reading, why=refused.why))
        if len(waiting) < CONFIRM_READINGS or reading.at_unix_s - waiting[0].at_unix_s < CONFIRM_S:
            return refused, (), replace(before, waiting=waiting)
        lasting_w = median(each.power_w or 0.0 for each in waiting)
        before, waiting = replace(before, held_w=max(before.held_w, lasting_w)), waiting[:-1]
    elif waiting and not _agree(waiting[-1].power_w, power_w):
        before, waiting = _refuse(before, waiting), ()
    confirmed = tuple(replace(each, why="") for each in waiting)
    unexpected_s = math.inf
    if contradiction and bound.expected_w is not None:
        unexpected_s = min(before.unexpected_s, *(each.at_unix_s for each in (*confirmed, reading)))
    for each in confirmed:
        before = _add_known(before, each, bound)
    return reading, confirmed, replace(_add_known(before, reading, bound), waiting=(), unexpected_s=unexpected_s)


def _agree(one_w: float | None, other_w: float) -> bool:
    return one_w is not None and max(one_w, other_w) <= AGREE_FACTOR * min(one_w, other_w)


def _find_impossible(power_w: float, bound: DrawBound) -> str:
    if not power_w >= 0 or math.isinf(power_w):
        return f"{power_w:,.0f} W is not a power"
    if bound.possible_w is not None and power_w > bound.possible_w:
        return f"{power_w:,.0f} W, more than {bound.possible_w:,.0f} W, the most that is possible for {bound.of}"
    return ""


def _refuse(history: PartHistory, refused: tuple[Reading, ...]) -> PartHistory:
    """Count refused readings; no doubtful reading waits any more."""
    if not refused:
        return history
    last = refused[-1]
    return replace(
        history,
        waiting=(),
        refused=history.refused + len(refused),
        refused_unix_s=last.at_unix_s,
        refusal=last.why.removeprefix("refused: "),
    )


def _add_known(before: PartHistory, reading: Reading, bound: DrawBound) -> PartHistory:
    power_w = reading.power_w or 0.0
    known_w = (*before.known_w, power_w)[-CONFIRM_READINGS:]
    held_w = max(before.held_w, min(known_w)) if len(known_w) == CONFIRM_READINGS else before.held_w
    passed_s = max(0.0, reading.at_unix_s - before.last_unix_s)
    is_same = before.known_w[-1:] == (power_w,)
    return replace(
        before,
        known_w=known_w,
        held_w=held_w,
        last_unix_s=reading.at_unix_s,
        up_s=before.up_s + (0.0 if bound.asleep else passed_s) if is_same else 0.0,
        asleep_s=before.asleep_s + (passed_s if bound.asleep else 0.0) if is_same else 0.0,
    )
