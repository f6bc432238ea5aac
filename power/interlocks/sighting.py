"""What a node was last seen to be, as the rules need it."""

from collections.abc import Callable
from dataclasses import dataclass

ON, BOOTING, GOING_DOWN, STANDBY, OFF, UNKNOWN = "on", "booting", "going down", "standby", "off", "unknown"


@dataclass(frozen=True)
class Sighting:
    """A node's state, one of those above, and when it was read."""

    state: str
    at_unix_s: float


SightingOf = Callable[[str], Sighting | None]
"""The latest sighting of a node, None if it was never seen."""


def is_fresh(sighting: Sighting | None, now_unix_s: float, fresh_s: float) -> bool:
    """Whether the state is known and was read lately; a time ahead of the clock was read nobody knows when."""
    return (
        sighting is not None and sighting.state != UNKNOWN and now_unix_s - fresh_s <= sighting.at_unix_s <= now_unix_s
    )
