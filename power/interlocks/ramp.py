"""How fast the draw may change: nodes that wake are staggered, and so are those that go down."""

from collections.abc import Callable
from dataclasses import dataclass

from offpeak.door.door import Limit
from offpeak.door.effect import Effect, Refusal
from offpeak.door.journal import EffectHistory
from offpeak.errors import BadSetting
from offpeak.model.node_class import NodeClass
from power.interlocks.counts import MINUTE_S


@dataclass(frozen=True)
class Swing:
    """By how much [W] a node's waking raises the draw, surge of its boot included, and its going down lowers it."""

    rise_w: float
    fall_w: float

    def of(self, effect: Effect) -> float:
        """Return what the order changes [W]."""
        return self.fall_w if effect.takes_power_away else self.rise_w


SwingOf = Callable[[str], Swing | None]
"""The swing of a node, None where nobody has said what it draws."""


def swing_of_class(node_class: NodeClass) -> Swing:
    """Return the swing of nodes of a class, as if they drew nothing asleep."""
    surges = [depth.leave.power_w for depth in node_class.depths]
    return Swing(max([node_class.idle_w, *surges]), node_class.idle_w)


def ramps(history: EffectHistory, swing_of: SwingOf, *, sleep_w: float | None, wake_w: float | None) -> Limit:
    """Refuse an order with which the draw would fall, or rise, by more [W] within a minute; None is no bound.

    An order that never passes is a trouble of the settings.
    """

    def refuse(effect: Effect) -> Refusal | None:
        bound_w, key = (sleep_w, "sleep_ramp") if effect.takes_power_away else (wake_w, "wake_ramp")
        if bound_w is None:
            return None
        swing = swing_of(effect.subject)
        if swing is None:
            said = f"{effect.subject}: nobody has said what it draws, and {key} bounds that"
            return Refusal(key, said, "add node_class to its [hardware]", BadSetting.__name__)
        before_w = _so_far_w(history, swing_of, effect)
        if before_w + swing.of(effect) <= bound_w:
            return None
        word = "fall" if effect.takes_power_away else "rise"
        said = f"{effect.subject}: the draw would {word} by more than {bound_w:,.0f} W within a minute"
        passes_later = swing.of(effect) <= bound_w
        hint = "it is asked again later" if passes_later else f"one such node alone: raise {key}"
        trouble = "" if passes_later else BadSetting.__name__
        return Refusal(key, said, f"{hint}; {key} below [agent] is the bound", trouble)

    return refuse


def _so_far_w(history: EffectHistory, swing_of: SwingOf, effect: Effect) -> float:
    """Return what the orders of the last minute change in the same direction [W]."""
    total_w = 0.0
    for entry in history.within(MINUTE_S):
        swing = swing_of(entry.effect.subject)
        if swing and entry.effect.takes_power_away == effect.takes_power_away:
            total_w += swing.of(entry.effect)
    return total_w
