"""An answer against the last good one, where they overlap: a shifted clock, or another auction or zone."""

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.step_series import Series, split

# Fewer common hours prove nothing.
HOURS_NEEDED = 12
# What rounding and the mean of quarter-hours may change in an hour's value.
ABSOLUTE, RELATIVE = 0.05, 0.01
DISAGREEING_SHARE = 0.1
# A shift must explain nearly all of the difference.
EXPLAINED = 0.1


def hourly(series: Series, first_h: int, hours: int) -> Float64:
    """Return the mean of each of the hours since `first_h` [Unix h]; NaN where any of the hour is unknown."""
    edges_s = 3600 * np.arange(first_h, first_h + hours + 1, dtype=np.int64)
    cut = split(series, edges_s)
    hour = cut.start_s // 3600 - first_h
    inside = (hour >= 0) & (hour < hours)
    length_s = np.bincount(hour[inside], cut.length_s[inside], hours)
    total = np.bincount(hour[inside], (cut.value * cut.length_s)[inside], hours)
    return np.where(length_s == 3600, total / 3600, np.nan)


def difference(new: Series, last: Series, shift_h: int = 0) -> Float64:
    """Return by how much they differ in each hour that both know, if the new one's clock is `shift_h` ahead.

    Each is counted in units of what rounding could make of it: more than 1 is a difference.
    """
    first_h = int(last.start_s[0]) // 3600
    hours = -(-last.end_s // 3600) - first_h
    was, said = hourly(last, first_h, hours), hourly(new, first_h + shift_h, hours)
    apart = np.abs(said - was) / (ABSOLUTE + RELATIVE * np.abs(was))
    return apart[~np.isnan(apart)]


def shift_h(new: Series, last: Series, candidates: frozenset[int]) -> int:
    """Return by how many hours the new one's clock is ahead of the last good one's, of the candidates; else 0."""
    as_stamped = difference(new, last)
    if len(as_stamped) < HOURS_NEEDED or as_stamped.mean() <= 1:
        return 0
    shifted = {hours: difference(new, last, hours) for hours in candidates if hours}
    errors = {hours: apart.mean() for hours, apart in shifted.items() if len(apart) >= HOURS_NEEDED}
    best = min(errors, key=lambda hours: errors[hours], default=0)
    return best if best and errors[best] < EXPLAINED * as_stamped.mean() else 0


def contradicts(new: Series, last: Series) -> bool:
    """Return whether more than a few of the common hours have another value."""
    apart = difference(new, last)
    return len(apart) >= HOURS_NEEDED and bool(np.mean(apart > 1) > DISAGREEING_SHARE)
