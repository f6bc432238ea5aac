"""An admin's hold wins over everything but the admin who holds."""

from collections.abc import Callable

from offpeak.door.door import Limit
from offpeak.door.effect import ADMIN, Effect, Hold, Refusal

HELD = "held"


def held(hold_of: Callable[[str], Hold | None], clock: Callable[[], float]) -> Limit:
    """Refuse while somebody else holds the node, by the clock of Unix times."""

    def refuse(effect: Effect) -> Refusal | None:
        hold = hold_of(effect.subject)
        if hold is None or not hold.lasts(clock()) or effect.by == f"{ADMIN}{hold.owner}":
            return None
        said = f"{effect.subject}: {hold.owner} holds it: {hold.reason}"
        return Refusal(HELD, said, f"ask {hold.owner}, then: offpeak node {effect.subject} release")

    return refuse
