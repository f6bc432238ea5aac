"""Parts and extremes of a meter's series."""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_integrals import StepIntegral


def clipped(meter: StepIntegral, lowest: float, highest: float) -> StepIntegral:
    """Return the meter of the same series, held between two bounds."""
    value = np.clip(meter.value, lowest, highest)
    total = np.append(0.0, np.cumsum(value[:-1] * np.diff(meter.at_s)))
    return StepIntegral(meter.at_s, value, total)


def most(meter: StepIntegral, from_s: Int64, until_s: Int64) -> Float64:
    """Return the highest value of the series within each [from_s, until_s)."""
    return -least(StepIntegral(meter.at_s, -meter.value, -meter.total), from_s, until_s)


def least(meter: StepIntegral, from_s: Int64, until_s: Int64) -> Float64:
    """Return the lowest value of the series within each [from_s, until_s), of an empty one that at `from_s`.

    Before the series' first second its first value counts.
    """
    first = np.maximum(np.searchsorted(meter.at_s, from_s, side="right") - 1, 0)
    last = np.maximum(np.searchsorted(meter.at_s, until_s, side="left") - 1, first)
    pieces = last - first + 1
    found = np.empty(len(first))
    # `lowest[i]` is that of `width` pieces from `i` on: two such runs of them cover up to twice as many.
    lowest, width = meter.value, 1
    while width <= pieces.max(initial=0):
        fits = (pieces >= width) & (pieces < 2 * width)
        found[fits] = np.minimum(lowest[first[fits]], lowest[last[fits] - width + 1])
        lowest, width = np.minimum(lowest[:-width], lowest[width:]), 2 * width
    return found
