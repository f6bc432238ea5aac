"""What speaks against a PDU's total: a unit that is wrong by ten cannot be seen from one number, but from two."""

from collections.abc import Iterator, Sequence

from power.meters.port import Reading

TOO_MUCH = 0.25
"""Parts may add up to so much more than the total: meters of PDUs are exact to a few percent, and read in turn."""
TOO_LITTLE = 0.5
"""Or to so much less: in a chain some units have no meters for phases or outlets."""
LEAST_FACTOR = 0.125
"""No rack of computers has a lower power factor, idle ones included; a tenth of the watts has."""
STEPS = 3.0
"""So many of the coarsest steps in which either is told are never a doubt."""


def doubts(total: Reading, phases: Sequence[Reading], outlets: Sequence[Reading]) -> Iterator[str]:
    """Give what does not fit the total, in words; a doubt hides no value.

    Phases and outlets are held against the total where each of them has a value.
    """
    for parts, name in ((phases, "phases"), (outlets, "outlets")):
        sum_w = sum_of(parts)
        if total.power_w is None or sum_w is None:
            continue
        step_w = max(total.resolution_w, *(part.resolution_w for part in parts))
        if not add_up(sum_w, total.power_w, step_w):
            yield f"{total.power_w:g} W in all, but its {name} add up to {sum_w:g} W"


def add_up(sum_w: float, total_w: float, step_w: float) -> bool:
    """Tell whether parts of that sum may be those of the total."""
    margin_w = STEPS * step_w
    return (1 - TOO_LITTLE) * total_w - margin_w <= sum_w <= (1 + TOO_MUCH) * total_w + margin_w


def fits(power_w: float, apparent_va: float, step_w: float) -> bool:
    """Tell whether watts may go with volt-amperes: never clearly more, and not so few as no power supply draws."""
    margin_w = STEPS * step_w
    return LEAST_FACTOR * apparent_va - margin_w <= power_w <= (1 + TOO_MUCH) * apparent_va + margin_w


def sum_of(parts: Sequence[Reading]) -> float | None:
    """Return the watts of all parts, None if there are none or one has no value."""
    known_w = [part.power_w for part in parts if part.power_w is not None]
    return sum(known_w) if known_w and len(known_w) == len(parts) else None
