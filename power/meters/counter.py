"""Energy counters, as a cross-check of integrated watts: what one counted from look to look.

A counter of a PDU can be reset by hand, is reset by some firmwares, and belongs to another PDU after an exchange. A
number that is less than before is therefore a reset, never a wrap.
"""

from dataclasses import dataclass

from power.meters.integrate import Energy

AGREE = 0.1
"""Counter and integrated watts agree within this share: meters are exact to some percent, polls miss short peaks."""
STEPS = 2.0
"""Or within so many steps of the counter: both looks at it are rounded."""


@dataclass(frozen=True)
class Counted:
    """What was counted [J], how often the counter was reset, and what it said last; None before the first look."""

    energy_j: float = 0.0
    resets: int = 0
    last_j: float | None = None


def counted(so_far: Counted, energy_j: float | None) -> Counted:
    """Return the count after one more look. Over a reset nothing is added: what was used meanwhile is not known.

    No value (None) is no reset; the next number counts from the one before.
    """
    if energy_j is None:
        return so_far
    if so_far.last_j is None:
        return Counted(so_far.energy_j, so_far.resets, energy_j)
    if energy_j < so_far.last_j:
        return Counted(so_far.energy_j, so_far.resets + 1, energy_j)
    return Counted(so_far.energy_j + energy_j - so_far.last_j, so_far.resets, energy_j)


def contradiction(count: Counted, integrated: Energy, *, step_j: float) -> str:
    """Return how a counter contradicts the watts of the same time, "" if it does not or cannot be told.

    `step_j` is one step of the counter. After a reset the counter misses energy, over gaps the watts do: then only the
    other one can be too small.
    """
    bound_j = max(AGREE * max(count.energy_j, integrated.energy_j), STEPS * step_j, integrated.rounding_j)
    difference_j = count.energy_j - integrated.energy_j
    if difference_j > bound_j and integrated.gap_s == 0:
        return _said(count, integrated)
    if -difference_j > bound_j and count.resets == 0:
        return _said(count, integrated)
    return ""


def _said(count: Counted, integrated: Energy) -> str:
    kwh, watts_kwh = count.energy_j / 3.6e6, integrated.energy_j / 3.6e6
    return f"the counter says {kwh:.3g} kWh, the watts of the same time {watts_kwh:.3g} kWh"
