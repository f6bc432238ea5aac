"""Outside temperature over time: hourly weather or a day's model, and segments in which it is nearly the same."""

from dataclasses import dataclass

import numpy as np

from offpeak.jobs import Float64, Int64
from offpeak.zones import DAY_S

HOUR_S = 3600
TOLERANCE_C = 5.0
WARMEST_HOUR = 15


@dataclass(frozen=True, eq=False)
class Segments:
    """Stretches of time: `temperature_c[i]` holds from `edge_s[i]` to `edge_s[i + 1]`."""

    edge_s: Int64
    temperature_c: Float64


def segments_of(edge_s: Int64, temperature_c: Float64, *, tolerance_c: float = TOLERANCE_C) -> Segments:
    """Return the longest stretches, from the first on, whose temperatures lie within the tolerance, at their mean.

    `edge_s` has one more entry than `temperature_c`.
    """
    firsts, low, high = [0], temperature_c[0], temperature_c[0]
    for at, value in enumerate(temperature_c):
        low, high = min(low, value), max(high, value)
        if high - low > tolerance_c:
            firsts.append(at)
            low = high = value
    length_s = np.diff(edge_s)
    mean_c = np.add.reduceat(temperature_c * length_s, firsts) / np.add.reduceat(length_s, firsts)
    return Segments(np.append(edge_s[firsts], edge_s[-1]), mean_c)


def day_model(mean_c: float, swing_c: float, hours: int = 24) -> tuple[Int64, Float64]:
    """Return hourly edges [s] and temperatures of a sine from the coldest, at 03:00, to the warmest, at 15:00."""
    hour = np.arange(hours)
    phase = 2 * np.pi * (hour + 0.5 - WARMEST_HOUR) * HOUR_S / DAY_S
    return HOUR_S * np.arange(hours + 1), mean_c + swing_c * np.cos(phase)
