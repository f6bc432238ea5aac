"""The lowest and the highest pieces of a step function within stretches of time: what is kept where it is thinned."""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64


@kernel
def extreme_pieces(edges_s: Int64, value: Float64, bins_s: Int64) -> Int64:
    """Return for each bin the pieces of its lowest and its highest value, in the order of time: int64[bins, 2].

    `value[i]` holds from `edges_s[i]` to `edges_s[i + 1]`. Neighbours of `bins_s` bound a bin; all lie within the edges
    of the step function. Of equal values the first counts; an unknown value (NaN) counts as the highest.
    """
    pieces = np.empty((len(bins_s) - 1, 2), dtype=np.int64)
    first = 0
    for at in range(len(bins_s) - 1):
        while edges_s[first + 1] <= bins_s[at]:
            first += 1
        low = high = first
        piece = first + 1
        while piece < len(value) and edges_s[piece] < bins_s[at + 1]:
            if value[piece] < value[low] or (np.isnan(value[low]) and not np.isnan(value[piece])):
                low = piece
            if value[piece] > value[high] or (np.isnan(value[piece]) and not np.isnan(value[high])):
                high = piece
            piece += 1
        pieces[at, 0], pieces[at, 1] = min(low, high), max(low, high)
    return pieces
