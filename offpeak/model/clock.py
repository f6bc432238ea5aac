"""The clock of a program: the machine's own, or a faster one for a simulated site; and pauses after failures."""

import time
from collections.abc import Callable
from dataclasses import dataclass


def backoff_s(failures: int, *, first_s: float, longest_s: float) -> float:
    """Return the pause after so many failures in a row: `first_s`, doubled with each more up to `longest_s`."""
    return min(first_s * 2.0 ** min(failures - 1, 50), longest_s)


def boot_s() -> float:
    """Return the time since the machine's start [s]: nobody can set it, and it counts a suspended machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class Clock:
    """`unix_s` is the displayed time, `steady_s` monotonic; `factor` seconds of both pass in a real one."""

    unix_s: Callable[[], float] = time.time
    steady_s: Callable[[], float] = boot_s
    factor: float = 1.0


class FastClock:
    """Shows a fixed time until `start`; then it runs `factor` times as fast as real time, until `stop`."""

    def __init__(self, factor: float, unix_s: float) -> None:
        self._factor, self._unix_s = factor, unix_s
        self._began_s: float | None = None
        self._stopped_s: float | None = None

    def start(self) -> None:
        """Let it run."""
        self._began_s = time.monotonic()

    def stop(self) -> None:
        """Stop the clock for good."""
        self._stopped_s = self.steady_s()

    def steady_s(self) -> float:
        """Return how many of its seconds have passed."""
        if self._stopped_s is not None:
            return self._stopped_s
        return 0.0 if self._began_s is None else (time.monotonic() - self._began_s) * self._factor

    def unix_s(self) -> float:
        """Return the displayed time."""
        return self._unix_s + self.steady_s()

    @property
    def clock(self) -> Clock:
        """The clock in the form that programs use."""
        return Clock(self.unix_s, self.steady_s, self._factor)
