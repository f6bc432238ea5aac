"""Figures of cases, looked up in the results of their experiments."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from studies.day_ahead.experiment import Case, Experiment, Replays, experiments
from studies.day_ahead.plan import BASELINE
from studies.day_ahead.result import Result
from studies.report import Range, confidence_of


@dataclass(frozen=True)
class Answers:
    """All results of the study, and the names of the sites."""

    results: Mapping[Experiment, Result]
    replays: Replays
    sites: tuple[str, ...]

    def each(self, case: Case) -> list[Result]:
        """Return the results of a case, one a replay; of most cases there are those of the first few replays alone."""
        return [self.results[each] for each in experiments(case, self.replays) if each in self.results]

    def shared(self, cases: Iterable[Case]) -> "Answers":
        """Return the answers over the first replays, which all these cases have: only then do they compare."""
        count = min(len(self.each(case)) for case in cases)
        return replace(self, replays=Replays(count, self.replays.seed))

    def of(self, case: Case, figure: Callable[[Result], float]) -> Range:
        """Return a figure of the case over the replays."""
        return confidence_of([figure(each) for each in self.each(case)])

    def less_pct(self, case: Case, than: Case, figure: Callable[[Result], float]) -> Range:
        """Return by how much per cent a figure is lower than under another case in the same replay."""
        pairs = zip(self.each(case), self.each(than), strict=False)
        return confidence_of([100 * (1 - figure(one) / figure(other)) for one, other in pairs])

    def saved_pct(self, case: Case, figure: Callable[[Result], float]) -> Range:
        """Return by how much per cent a figure is lower than under the baseline."""
        return self.less_pct(case, BASELINE, figure)

    def mean_by(self, case: Case, column: Callable[[Result], Sequence[float | None]]) -> list[float | None]:
        """Return the means over the replays of a column, None where a replay has none."""
        columns = zip(*(column(each) for each in self.each(case)), strict=True)
        return [_mean(values) for values in columns]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
