"""How far the door is open: for nobody, for what an admin orders by hand, or for the agent too."""

from collections.abc import Callable
from enum import StrEnum

from offpeak.door.effect import TELLS, Effect, Refusal


class Mode(StrEnum):
    """SHADOW: nothing is done, all is recorded. ADVISE: jobs' owners are told, and what an admin orders is done.

    ACTIVE: all is done.
    """

    SHADOW = "shadow"
    ADVISE = "advise"
    ACTIVE = "active"


ModeOf = Callable[[Effect], Mode]
"""The mode that holds for an effect: partitions may have their own."""


FINISHES = frozenset({"power_down", "open", "resume"})
"""What the scheduler is told of a node that is off, so that a job is given it and has it woken."""


def refused_by_mode(mode: Mode, effect: Effect, *, put_to_sleep: bool) -> Refusal | None:
    """Return the mode's refusal, None if it lets the effect through.

    A node that was `put_to_sleep` by an order through a door is woken for the scheduler in every mode, and the
    scheduler is told in every mode that it may ask for it: no mode leaves a node behind that a job cannot wake.
    """
    if put_to_sleep and (effect.wakes_for_scheduler or effect.order in FINISHES):
        return None
    if mode is Mode.ACTIVE or (mode is Mode.ADVISE and (effect.by_admin or effect.order == TELLS)):
        return None
    asked = f"{effect.subject}: {effect.order} is only recorded in mode {mode}"
    if effect.by_admin:
        hint = 'set mode = "advise" below [agent], and what an admin orders is done'
    else:
        hint = 'set mode = "active" below [agent] once its records have convinced you'
    return Refusal("mode", asked, hint)
