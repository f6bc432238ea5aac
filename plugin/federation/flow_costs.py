"""What a job's place costs in the flow: time, money, CO2 and energy brought to one scale, and weighted.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", equations (4) to (6), whose
two terms are the first two here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from plugin.federation.cycle import WHOLE_PERCENT, Cycle, Weights
from plugin.federation.jobs import Goal
from plugin.federation.predictions import Predictions

SCALED_BY = 100
# A thousand times the range: beyond it the solver's integers would overflow, and no site is meant.
HIGHEST = 1e5


@dataclass(frozen=True)
class Scale:
    """The least and the range of each of the four terms over the cycle's arcs (the paper's normalisation)."""

    least: tuple[float, ...]
    extent: tuple[float, ...]

    def of(self, term: Float64, number: int) -> Float64:
        """Return the term from 0 to 1; 0 everywhere if it is the same everywhere."""
        if self.extent[number] == 0:
            return np.zeros_like(term)
        return np.asarray((term - self.least[number]) / self.extent[number])


def terms(predicted: Predictions) -> Sequence[Float64]:
    """Return time, cost, CO2 and energy, in the order of `Goal` and of `Weights`."""
    return predicted.response_s, predicted.cost, predicted.co2_g, predicted.energy_j


def scale_of(predicted: Predictions, allowed: NDArray[np.bool_]) -> Scale:
    """Return the scale of a cycle's first predictions, over the allowed arcs, of which there is at least one."""
    among = [term[allowed] for term in terms(predicted)]
    return Scale(tuple(float(each.min()) for each in among), tuple(float(np.ptp(each)) for each in among))


def weights_of(cycle: Cycle) -> Float64:
    """Return each job's weights in per cent, float64[n, 4]: all on its owner's goal, the rules' where there is none."""
    usual: Weights = cycle.rules.weights
    weights = np.tile((usual.time, usual.cost, usual.co2, usual.energy), (len(cycle.jobs), 1))
    for goal in (Goal.TIME, Goal.COST, Goal.CO2, Goal.ENERGY):
        weights[cycle.jobs.goal == goal] = np.eye(weights.shape[1])[goal] * WHOLE_PERCENT
    return weights


def flow_cost(predicted: Predictions, weights: Float64, scale: Scale) -> Float64:
    """Return the cost of each job at each site, float64[n, m]: from 0 to 100 on the scale that it was made with."""
    each = [weights[:, [number]] * scale.of(term, number) for number, term in enumerate(terms(predicted))]
    return np.asarray(sum(each))


def per_second(weights: Float64, scale: Scale) -> Float64:
    """Return what each second of a job's response time costs, float64[n]."""
    extent_s = scale.extent[Goal.TIME]
    return np.asarray(weights[:, Goal.TIME] / extent_s if extent_s else np.zeros(len(weights)))


def as_integers(cost: Float64, allowed: NDArray[np.bool_]) -> Int64:
    """Return the costs as the flow takes them: a hundredfold and rounded; 0 where they do not count."""
    scaled = np.rint(np.where(allowed, np.minimum(cost, HIGHEST), 0.0) * SCALED_BY)
    return np.asarray(scaled, np.int64)
