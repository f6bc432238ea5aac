"""Figures of variants, looked up in the results of their experiments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from studies.dynamic_pricing.experiment import Experiment
from studies.dynamic_pricing.result import Result, ceiling_pct, saved_pct
from studies.dynamic_pricing.subject import Subject
from studies.dynamic_pricing.variant import Replays, Variant, experiments
from studies.report import Range, range_of

GREEDY, KNAPSACK = 1, 2
"""Places of the policies in a setup, behind the baseline."""


@dataclass(frozen=True)
class Answers:
    """All results of the study."""

    results: Mapping[Experiment, Result]
    replays: Replays

    def each(self, subject: Subject, variant: Variant, figure: Callable[[Result], float]) -> list[float]:
        """Return a figure of each replay, the mean over the months where these are apart."""
        groups = experiments(variant, subject.log.source.name, subject.months, self.replays)
        return [fmean(figure(self.results[experiment]) for experiment in group) for group in groups]

    def saved(self, subject: Subject, variant: Variant, policy: int) -> Range:
        """Return what a policy saves [%]."""
        return range_of(self.each(subject, variant, partial(saved_pct, at=policy, bill=variant.bill)))

    def saved_more(self, subject: Subject, variant: Variant, base: Variant, policy: int) -> Range:
        """Return by how many points it saves more than in another variant, in the same replays."""
        figures = (self.each(subject, each, partial(saved_pct, at=policy, bill=each.bill)) for each in (variant, base))
        return range_of([here - there for here, there in zip(*figures, strict=True)])

    def ceiling(self, subject: Subject, variant: Variant) -> Range:
        """Return what the best order could save [%] if node-hours on-peak stayed the same."""
        return range_of(self.each(subject, variant, partial(ceiling_pct, bill=variant.bill)))

    def utilization(self, subject: Subject, variant: Variant, policy: int) -> float:
        """Return the mean utilization [%]."""
        return 100 * fmean(self.each(subject, variant, lambda result: result.policies[policy].utilization))

    def wait_s(self, subject: Subject, variant: Variant, policy: int) -> float:
        """Return the mean of the mean waits [s]."""
        return fmean(self.each(subject, variant, lambda result: result.policies[policy].mean_wait_s))
