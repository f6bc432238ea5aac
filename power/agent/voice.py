"""What the agent writes into its log: a line when something changes, not one a cycle."""

import logging
import time
from collections.abc import Callable

from power.drivers.poll import ReportedProblem, limit_repeats

LOG = logging.getLogger("offpeak")


class Voice:
    """Says what troubles something, once; the same again after a minute and then ever more rarely, and its end."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._said: dict[str, ReportedProblem | None] = {}
        self._clock = clock

    def trouble(self, about: str, trouble: str | None) -> None:
        """Say what is wrong with it; None where nothing is."""
        self._said[about], line = limit_repeats(self._said.get(about), trouble, at_unix_s=self._clock())
        if line:
            LOG.log(logging.WARNING if trouble else logging.INFO, "%s: %s", about, line)

    @property
    def summary(self) -> str:
        """All in one line."""
        return "; ".join(self.troubles) or "all is well"

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong now."""
        return tuple(f"{about}: {said.trouble}" for about, said in self._said.items() if said)
