"""What each job would take and cost at each site: the matrices that policies choose by."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64


@dataclass(frozen=True, eq=False)
class Predictions:
    """Matrices [n jobs, m sites].

    `units` a job takes there, `delay_s` until it starts (its wait in the queue, or its data's way if that is longer),
    `runtime_s`, `energy_j` at the site's meter (PUE included), `cost` in the currency of the prices, `co2_g`. What is
    not `compatible` can never run there as things are; its figures mean nothing.
    """

    units: Int64
    delay_s: Float64
    runtime_s: Float64
    energy_j: Float64
    cost: Float64
    co2_g: Float64
    compatible: NDArray[np.bool_]

    @property
    def response_s(self) -> Float64:
        """Time from now to the end: eq. (7) of the day-ahead paper."""
        return self.delay_s + self.runtime_s
