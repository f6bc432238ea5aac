"""A job's draw as a share of what the whole machine draws under Linpack.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", IEEE TPDS 2018,
doi:10.1109/TPDS.2017.2769082: P_J = n x (P_HPL / N) (section 4.5.1). In section 5.8 jobs draw from 40 % less to 40 %
more than that, any share as likely, or only the lower or the higher half of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from predictors.port import LEVELS, Prediction
from predictors.state import NOTHING, State


@dataclass(frozen=True)
class Spread:
    """Jobs draw from 1 + `low` to 1 + `high` times what Linpack does."""

    name: str
    low: float
    high: float

    def factor(self, share: Float64 | float) -> Float64:
        """Return the factor below which that share of the jobs lies."""
        return np.asarray(1 + self.low + (self.high - self.low) * share, np.float64)


LIKE_HPL = Spread("HPL", 0.0, 0.0)
LOWER_THAN_HPL = Spread("lower than HPL", -0.4, 0.0)
AVERAGE_HPL = Spread("average HPL", -0.4, 0.4)
HIGHER_THAN_HPL = Spread("higher than HPL", 0.0, 0.4)


@dataclass(frozen=True)
class Linpack:
    """A machine that draws `hpl_w` [W] under Linpack with `cores`, `cores_per_unit` of them in a unit of allocation."""

    hpl_w: float
    cores: int
    cores_per_unit: int = 1

    @property
    def unit_w(self) -> float:
        """What an allocated unit draws under Linpack."""
        return self.cores_per_unit * self.hpl_w / self.cores

    def draw_w(self, jobs: Jobs, spread: Spread, rng: Generator) -> Float64:
        """Draw for each job its power per unit [W], float64[n]: the paper's models, for studies."""
        return self.unit_w * spread.factor(rng.random(len(jobs)))


class HplPower:
    """Predicts from the machine alone; learns nothing."""

    def __init__(self, machine: Linpack, spread: Spread = AVERAGE_HPL) -> None:
        self.name = spread.name
        self._mean_w = machine.unit_w * float(spread.factor(0.5))
        self._quantiles_w = machine.unit_w * spread.factor(np.array(LEVELS))

    def learn(self, _outcome: Jobs, _at_s: int) -> None:
        """Take no notice."""

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the same of each job [W per allocated unit]."""
        count = len(question)
        return Prediction(
            np.full(count, self._mean_w), np.tile(self._quantiles_w, (count, 1)), ("power under Linpack",) * count
        )

    def state(self) -> State:
        """Return nothing."""
        return NOTHING

    def restore(self, _state: State) -> None:
        """Take no notice."""
