"""Nothing is ordered of a node whose state is unknown or was read long ago, or where the order makes no sense."""

from collections.abc import Callable

from offpeak.door.door import Limit
from offpeak.door.effect import Effect, Refusal
from power.interlocks.sighting import BOOTING, GOING_DOWN, OFF, ON, STANDBY, UNKNOWN, Sighting, SightingOf, is_fresh

FROM = {
    # A BMC may drop an "on" while the host shuts down, and it is sent again.
    "on": {OFF, STANDBY, GOING_DOWN, BOOTING},
    "standby": {ON},
    "soft_off": {ON},
    # What hangs is only known as on its way.
    "hard_off": {ON, BOOTING, GOING_DOWN},
}
"""The states in which an order makes sense."""


def observed_fresh(sighting_of: SightingOf, clock: Callable[[], float], fresh_s: float) -> Limit:
    """Refuse unless the node was seen within `fresh_s`, in a state from which the order leads somewhere."""
    return lambda effect: refusal_of(effect, sighting_of(effect.subject), clock(), fresh_s)


def refusal_of(effect: Effect, sighting: Sighting | None, now_unix_s: float, fresh_s: float) -> Refusal | None:
    """Return the refusal of an order for a node that was last seen so."""
    node = effect.subject
    if sighting is None or sighting.state == UNKNOWN:
        return Refusal("observed_fresh", f"{node}: its state is not known", f"offpeak check {node}")
    if not is_fresh(sighting, now_unix_s, fresh_s):
        age_s = now_unix_s - sighting.at_unix_s
        when = "later than the clock says now" if age_s < 0 else f"{age_s:,.0f} s ago"
        return Refusal("observed_fresh", f"{node}: its state was read {when}", "it is read again in the next sweep")
    if sighting.state not in FROM.get(effect.order, ()):
        return Refusal("observed_fresh", f"{node}: is {sighting.state}: {effect.order} makes no sense")
    return None
