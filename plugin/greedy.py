"""Greedy: sort the window by power profile.

Source: Yang et al., "Integrating dynamic pricing of electricity into energy aware scheduling for HPC systems", SC 2013.
Its overview wants the hungriest jobs first off-peak and the most frugal first on-peak; the slide "Scheduling
Algorithms" prints the two the other way round, which `greedy-slide` follows to the letter.
"""

from offpeak.compiled import in_place, index
from offpeak.model.arrays import Float64, Int64


@in_place
def sort_by_power(order: Int64, first: int, node_power_w: Float64, hungriest_first: bool) -> None:
    """Sort ranks `first`.. of the window by draw per node [W]; equal jobs stay in submission order.

    `order[rank]` is the window position of the job at `rank`, `node_power_w[position]` its draw. Positions below
    `first` keep their place.
    """
    sign = -1.0 if hungriest_first else 1.0
    for rank in range(first, len(node_power_w)):
        key = sign * node_power_w[index(rank)]
        at = rank
        while at > first and sign * node_power_w[index(order[index(at - 1)])] > key:
            order[index(at)] = order[index(at - 1)]
            at -= 1
        order[index(at)] = rank
