"""Figures of cases, looked up in the results of their experiments."""

from collections.abc import Mapping
from dataclasses import dataclass

from studies.energy_carbon.experiment import Experiment, Measurement, Replays, Simulation, experiments
from studies.energy_carbon.result import Result, SimulationResult
from studies.report import Range, range_of


@dataclass(frozen=True)
class Answers:
    """All results of the part."""

    results: Mapping[Experiment, Result]
    replays: Replays

    def of(self, case: Measurement | Simulation, figure: str) -> Range:
        """Return the field of that name of the case's results, over the replays."""
        return range_of([getattr(self.results[each], figure) for each in experiments(case, self.replays)])

    def waited_longer_s(self, case: Simulation) -> Range:
        """Return by how much the mean wait is longer under the energy-aware scheduler [s]."""
        found = (self.results[each] for each in experiments(case, self.replays))
        return range_of([each.aware_wait_s - each.wait_s for each in found if isinstance(each, SimulationResult)])
