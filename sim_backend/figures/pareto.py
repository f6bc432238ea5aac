"""Which of several choices no other beats: the Pareto front."""

import numpy as np

from offpeak.model.arrays import Float64, Int64


def pareto_front(loss: Float64, gain: Float64) -> Int64:
    """Return the choices to which none is better in one and no worse in the other, least loss first; of equals one."""
    order = np.lexsort((-gain, loss))
    best_before = np.maximum.accumulate(np.append(-np.inf, gain[order][:-1]))
    front: Int64 = order[gain[order] > best_before]
    return front
