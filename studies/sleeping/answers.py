"""Figures of policies and families, looked up in the results of their experiments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from studies.report import Range, range_of
from studies.sleeping.experiment import ALWAYS_ON, EQUAL_ENERGY_PCT, FAMILIES, TIMEOUT, Experiment, Replays, experiments
from studies.sleeping.result import Result

Figure = Callable[[Result], float]


def saved_pct(result: Result) -> float:
    """Return the share of the idle energy that was saved [%]."""
    return result.saved_pct


def delay_s(result: Result) -> float:
    """Return the mean boot delay a job [s]."""
    return result.delay_s


def cycles(result: Result) -> float:
    """Return the power cycles a node and day."""
    return result.cycles


@dataclass(frozen=True)
class Answers:
    """All results of the study."""

    results: Mapping[Experiment, Result]
    replays: Replays

    def each(self, log: str, policy: str) -> list[Result]:
        """Return the results of a policy's replays."""
        return [self.results[each] for each in experiments(log, policy, self.replays)]

    def of(self, log: str, policy: str, figure: Figure) -> Range:
        """Return a figure over the replays."""
        return range_of([figure(result) for result in self.each(log, policy)])

    def longer_s(self, log: str, policy: str) -> Range:
        """Return by how much jobs wait longer than on nodes that are always on, in the same replays [s]."""
        pairs = zip(self.each(log, policy), self.each(log, ALWAYS_ON), strict=False)
        return range_of([here.wait_s - there.wait_s for here, there in pairs])

    def at_energy(self, log: str, family: str, pct: float, figure: Figure) -> list[float | None]:
        """Return a figure of a family where it saves `pct` of the idle energy, by replay; None where it never does."""
        replays = zip(*(self.each(log, policy) for policy in FAMILIES[family]), strict=True)
        return [between([(saved_pct(each), figure(each)) for each in replay], pct) for replay in replays]

    def bound(self, log: str, pct: int) -> float | None:
        """Return the fewest cycles that save so much, were the future known; None if a replay cannot."""
        found = [result.bound[pct] for result in self.each(log, ALWAYS_ON)]
        known = [value for value in found if value is not None]
        return fmean(known) if len(known) == len(found) else None

    def equal_energy_pct(self, log: str) -> int:
        """Return the share [%] at which families are compared; of other logs what a time-out of 20 minutes saves."""
        for begins, pct in EQUAL_ENERGY_PCT.items():
            if log.startswith(begins):
                return pct
        return round(fmean(self.of(log, policy, saved_pct).mean for policy in FAMILIES[TIMEOUT][2:4]))


def between(points: Sequence[tuple[float, float]], x: float) -> float | None:
    """Return the height at `x` of the straight lines from point to point, in order of x; None outside of them."""
    at, height = zip(*sorted(points), strict=True)
    return float(np.interp(x, at, height)) if at[0] <= x <= at[-1] else None
