"""The distribution of a measure over jobs, in few points that lie exactly on it."""

import numpy as np

from offpeak.model.arrays import Float64, Int64


def cumulative_share(value: Int64, *, lowest: int, most_points: int) -> tuple[Int64, Float64]:
    """Return x and the share of `value` that is <= x, from `lowest` to the highest value; at most `most_points` points.

    Each x after the first is one of the values; of many they are chosen evenly on a logarithmic axis, so `lowest` is
    above 0.
    """
    ordered = np.sort(value)
    x = np.unique(np.append(ordered[ordered > lowest], lowest))
    if len(x) > most_points:
        wanted = np.geomspace(lowest, x[-1], most_points - 1)
        x = np.unique(np.append(x[np.searchsorted(x, wanted, side="right") - 1], x[-1]))
    return x, np.searchsorted(ordered, x, side="right") / len(ordered)
