"""How long a solver may take, on a clock that is handed in."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """The instant of `clock` at which the best plan so far is wanted, and the seed of all chances."""

    until_s: float
    seed: int = 1
    clock: Callable[[], float] = time.monotonic

    @property
    def left_s(self) -> float:
        """The time that is left, 0 at the least."""
        return max(self.until_s - self.clock(), 0.0)


def budget_of(seconds: float, *, seed: int = 1) -> Budget:
    """Return the budget of so many seconds from now."""
    return Budget(time.monotonic() + seconds, seed)
