"""Figures of cases, looked up in the results of their experiments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from studies.energy_carbon.grid.experiment import Case, Experiment
from studies.energy_carbon.grid.plan import experiments
from studies.energy_carbon.grid.result import Result
from studies.report import Range, confidence_of


@dataclass(frozen=True)
class Answers:
    """All results of the part, `count` replays of each case."""

    results: Mapping[Experiment, Result]
    count: int
    seed: int

    def of(self, case: Case, figure: Callable[[Result], float]) -> Range:
        """Return a figure of the case over the replays."""
        return confidence_of([figure(each) for each in self._each(case)])

    def saved_pct(self, case: Case, base: Case, figure: Callable[[Result], float]) -> Range:
        """Return by how much per cent a figure is lower than under another case in the same replay."""
        pairs = zip(self._each(case), self._each(base), strict=True)
        return confidence_of([100 * (1 - figure(one) / figure(other)) for one, other in pairs])

    def mean_by(self, case: Case, column: Callable[[Result], Sequence[float]]) -> list[float]:
        """Return the means over the replays of a column."""
        return [sum(values) / len(values) for values in zip(*map(column, self._each(case)), strict=True)]

    def _each(self, case: Case) -> list[Result]:
        return [self.results[each] for each in experiments(case, self.count, self.seed)]
