"""Figures of setups, looked up in the results of their experiments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from studies.price_capacity.experiment import Experiment, Setup
from studies.price_capacity.plan import Replays, experiments
from studies.price_capacity.result import Result
from studies.report import Range, range_of


@dataclass(frozen=True)
class Answers:
    """All results of the study."""

    results: Mapping[Experiment, Result]
    replays: Replays

    def each(self, log: str, setup: Setup) -> Sequence[Result]:
        """Return the results of a setup's replays."""
        return [self.results[experiment] for experiment in experiments(log, setup, self.replays)]

    def of(self, log: str, setup: Setup, figure: Callable[[Result], float]) -> Range:
        """Return a figure over the replays."""
        return range_of([figure(result) for result in self.each(log, setup)])

    def saved_per_100_h(self, log: str, setup: Setup, policy: str) -> float | None:
        """Return what is saved of the machine's cost for 100 hours that jobs wait longer, all replays together.

        None where they do not wait longer.
        """
        results = self.each(log, setup)
        saved = sum(result.policies[0].cost - result.of(policy).cost for result in results)
        hours = sum(result.policies[0].jobs * result.longer_h(policy) for result in results)
        return 100 * saved / hours if hours > 0 else None
