"""How long nodes of a kind take to boot, resume, shut down and suspend, learned from those that did."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from power.lifecycle.life import Took

REMEMBERED = 50
ENOUGH = 5
QUANTILE = 0.95
SPARE = 1.5
LEAST, MOST = 0.25, 2.0
"""A time-out is never below or above these shares of the inventory's patience."""


@dataclass(frozen=True)
class LearnedTimes:
    """The latest durations [s] of each change of one kind of hardware, oldest first."""

    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def learn(self, took: Took) -> "LearnedTimes":
        """Return the times with one more; what is no duration is left out."""
        if not (math.isfinite(took.seconds) and took.seconds >= 0):
            return self
        latest = (*self.seconds.get(took.change, ()), took.seconds)[-REMEMBERED:]
        return LearnedTimes({**self.seconds, took.change: latest})

    def time_out_s(self, change: str, patience_s: float) -> float:
        """Return after how long a change counts as failed: the patience until enough is known.

        Then half as long again as nearly all took, a quarter of the patience at least and twice the patience at most.
        """
        known = sorted(self.seconds.get(change, ()))
        if len(known) < ENOUGH:
            return patience_s
        nearly_all_s = known[math.ceil(QUANTILE * len(known)) - 1]
        return min(max(SPARE * nearly_all_s, LEAST * patience_s), MOST * patience_s)

    def expected_s(self, change: str) -> float | None:
        """Return how long such a change mostly takes, None if none was seen."""
        known = self.seconds.get(change)
        return median(known) if known else None

    def to_json(self) -> dict[str, list[float]]:
        """Return the times as `from_json` takes them."""
        return {change: list(seconds) for change, seconds in self.seconds.items()}


def learned_from_json(stored: Mapping[str, list[float]]) -> LearnedTimes:
    """Return what `LearnedTimes.to_json` gave."""
    return LearnedTimes({change: tuple(seconds[-REMEMBERED:]) for change, seconds in stored.items()})


NOTHING_LEARNED = LearnedTimes()
