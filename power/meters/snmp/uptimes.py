"""Whether a PDU has started anew between two looks at its uptime: its rows may be others then."""

from dataclasses import dataclass

TICKS_PER_S = 100.0
SLOW = 0.9
"""A PDU's clock is at worst so slow, by far."""
LATE_S = 3.0
"""An answer may have been under way for so much longer than the one before."""


@dataclass(frozen=True)
class Uptime:
    """What a PDU said of its uptime [hundredths of a second], when, and whether it stands still: some never count."""

    ticks: float
    at_unix_s: float
    stands_still: bool = False


def after(before: Uptime | None, ticks: float, at_unix_s: float) -> Uptime:
    """Return the uptime that follows another."""
    return Uptime(ticks, at_unix_s, stands_still=before is not None and before.ticks == ticks)


def restarted(before: Uptime | None, now: Uptime) -> bool:
    """Tell whether less uptime has been added than time has passed, or even some is lost.

    A wrap (after 497 days) counts as a restart. One that stands still is believed to be a restart once.
    """
    if before is None or (now.stands_still and before.stands_still):
        return False
    passed_s = max(0.0, SLOW * (now.at_unix_s - before.at_unix_s) - LATE_S)
    return now.ticks < before.ticks + passed_s * TICKS_PER_S
