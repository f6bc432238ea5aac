"""Runs one experiment: a pure function of the case and the seed."""

import numpy as np

from studies.energy_carbon.grid.bench import measure
from studies.energy_carbon.grid.clusters import simulate
from studies.energy_carbon.grid.experiment import Bench, Experiment
from studies.energy_carbon.grid.result import Result


def run(experiment: Experiment) -> Result:
    """Return what the case comes to in that replay; all cases of a replay have the same jobs but for their arrivals."""
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    case = experiment.case
    return measure(case, rng) if isinstance(case, Bench) else simulate(case, rng)
