"""What is run once, and what it came to."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from offpeak.model.local_time import DAY_S


@dataclass(frozen=True)
class Experiment:
    """A solver, by name, in a scenario; a search has so many seconds a plan."""

    scenario: str
    solver: str
    search_s: float
    seed: int


@dataclass(frozen=True)
class Result:
    """Profits of the days up to the last submission, and what the whole came to.

    `gap` has a share for each of these days, empty for rule-based schedulers. `seconds` is what all plans took,
    of which `search_s` after the plans that a search began with; `own` plans are others than those. `notes` say, for
    each plan that a search has not made itself, why.
    """

    profit: tuple[float, ...]
    gap: tuple[float, ...]
    makespan_s: int
    pue: float
    seconds: float
    search_s: float
    own: int
    plans: int
    violations: int
    notes: tuple[str, ...] = ()

    @property
    def profit_then(self) -> float:
        """The profit until the last submission."""
        return sum(self.profit)

    @property
    def makespan_d(self) -> float:
        """The time until the last job ended, in days."""
        return self.makespan_s / DAY_S

    @property
    def median_gap_pct(self) -> float | None:
        """The median of the days' gaps to the upper bound."""
        return 100 * median(self.gap) if self.gap else None


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    return Result(**{**told, **{name: tuple(told[name]) for name in ("profit", "gap", "notes")}})
