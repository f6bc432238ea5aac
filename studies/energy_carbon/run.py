"""Runs one experiment: a pure function of the case and the seed."""

import numpy as np

from studies.energy_carbon.experiment import Experiment, Measurement
from studies.energy_carbon.measure import measure
from studies.energy_carbon.result import Result
from studies.energy_carbon.simulate import simulate


def run(experiment: Experiment) -> Result:
    """Return what the case comes to in that replay."""
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    case = experiment.case
    return measure(case, rng) if isinstance(case, Measurement) else simulate(case, rng)
