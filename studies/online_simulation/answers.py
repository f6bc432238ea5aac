"""Figures of setups, looked up in the results of their experiments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean

from studies.online_simulation.experiment import Experiment, Replays, Setup, experiments
from studies.online_simulation.result import ByWeek, Result
from studies.online_simulation.subject import Subject
from studies.report import Range, range_of

Figure = Callable[[Result], float]

PCT = 100


def slowdown(result: Result) -> float:
    """Return the mean slowdown."""
    return result.slowdown


def violations_pct(result: Result) -> float:
    """Return the share of jobs above the SLA [%]."""
    return PCT * result.violations


def utilization_pct(result: Result) -> float:
    """Return the utilization of active processors [%]."""
    return PCT * result.utilization


def inactive_pct(result: Result) -> float:
    """Return the inactive share [%]."""
    return PCT * result.inactive


def cycles(result: Result) -> float:
    """Return the power cycles a node and year."""
    return result.cycles


def idle_saved_pct(result: Result) -> float:
    """Return the share of the idle energy that was saved [%]."""
    return PCT * result.idle_saved


def worst_week(result: Result) -> float:
    """Return the highest of the weeks' mean slowdowns."""
    return max(week for week in result.weekly.slowdown if week is not None)


@dataclass(frozen=True)
class Answers:
    """All results of the study."""

    results: Mapping[Experiment, Result]
    replays: Replays

    def each(self, subject: Subject, setup: Setup, figure: Figure) -> list[float]:
        """Return a figure of each replay."""
        return [figure(self.results[each]) for each in experiments(subject.name, setup, self.replays)]

    def of(self, subject: Subject, setup: Setup, figure: Figure) -> Range:
        """Return a figure over the replays."""
        return range_of(self.each(subject, setup, figure))

    def over(self, subject: Subject, setup: Setup, base: Setup, figure: Figure) -> Range:
        """Return how many times a figure is that of another setup, in the same replays."""
        pairs = zip(self.each(subject, setup, figure), self.each(subject, base, figure), strict=False)
        return range_of([here / there for here, there in pairs])

    def weekly(self, subject: Subject, setup: Setup, by_week: Callable[[Result], ByWeek]) -> ByWeek:
        """Return the mean over the replays of a weekly figure; of some replays the last week is missing."""
        series = [by_week(self.results[each]) for each in experiments(subject.name, setup, self.replays)]
        return tuple(_mean_of_known(week) for week in zip_longest(*series))


def _mean_of_known(values: ByWeek) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
