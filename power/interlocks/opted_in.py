"""Only nodes that the operator has named are touched."""

from collections.abc import Collection

from offpeak.door.door import Limit
from offpeak.door.effect import Effect, Refusal


def opted_in(nodes: Collection[str]) -> Limit:
    """Refuse for every node but these."""

    def refuse(effect: Effect) -> Refusal | None:
        if effect.subject in nodes:
            return None
        return Refusal("opted_in", f"{effect.subject}: is not ours to touch", "add it to nodes below [agent]")

    return refuse
