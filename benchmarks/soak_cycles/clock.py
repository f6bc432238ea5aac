"""The room's two clocks, which advance only when they are moved."""

from dataclasses import dataclass

from offpeak.power.lifecycle.node_record import Instant

BEGIN_UNIX_S = 1.8e9


@dataclass
class RoomClock:
    """Seconds that only grow, and a clock on the wall that may be set back."""

    monotonic_s: float = 0.0
    set_back_s: float = 0.0

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self.monotonic_s += seconds

    def set_back(self, seconds: float) -> None:
        """Set the clock on the wall back."""
        self.set_back_s += seconds

    def steady(self) -> float:
        """Return the seconds that only grow."""
        return self.monotonic_s

    def unix_s(self) -> float:
        """Return the time of the wall clock."""
        return BEGIN_UNIX_S + self.monotonic_s - self.set_back_s

    def now(self) -> Instant:
        """Return the present on both."""
        return Instant(self.steady(), self.unix_s())
