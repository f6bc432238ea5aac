"""A price or a carbon intensity over time: a piecewise constant series, whose gaps are known as gaps."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.jobs import Float64, Int64
from offpeak.zones import WEEK_S


@dataclass(frozen=True)
class Series:
    """`value[i]` holds from `start_s[i]` to the next start, the last until `end_s` (Unix seconds, UTC).

    NaN is an interval without a known value: a gap. `unit` is "EUR/MWh" or "g/kWh", `source` the file name or rule
    that it came from. BadPrices unless the starts rise strictly and the values are finite or NaN.
    """

    start_s: Int64
    end_s: int
    value: Float64
    unit: str
    source: str

    def __post_init__(self) -> None:
        if len(self.start_s) == 0 or len(self.start_s) != len(self.value):
            raise BadPrices(f"{self.source}: {len(self.start_s)} times and {len(self.value)} values")
        if np.any(self.length_s <= 0):
            raise BadPrices(f"{self.source}: the times of a series must rise")
        if np.any(np.isinf(self.value)):
            raise BadPrices(f"{self.source}: a value is infinite")

    def __len__(self) -> int:
        return len(self.start_s)

    @property
    def currency(self) -> str:
        """What a MWh is paid in, such as "EUR"."""
        return self.unit.split("/")[0]

    @property
    def length_s(self) -> Int64:
        """The length of each interval [s]."""
        return np.diff(self.start_s, append=self.end_s)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which intervals have a value."""
        return ~np.isnan(self.value)

    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Return (start, end) of each time without a value [Unix s], neighbours joined."""
        missing = np.concatenate([[False], ~self.known, [False]])
        edges = np.append(self.start_s, self.end_s)[np.flatnonzero(missing[1:] != missing[:-1])]
        return tuple((int(start), int(end)) for start, end in edges.reshape(-1, 2))


def value_at(series: Series, unix_s: Int64) -> Float64:
    """Return the value at each instant; NaN in gaps, before the series and after it."""
    index = np.searchsorted(series.start_s, unix_s, side="right") - 1
    inside = (index >= 0) & (unix_s < series.end_s)
    return np.where(inside, series.value[np.maximum(index, 0)], np.nan)


def split(series: Series, at_s: Int64) -> Series:
    """Return the same series with its intervals cut at those of the instants that lie inside it."""
    inside = at_s[(at_s > series.start_s[0]) & (at_s < series.end_s)]
    start_s = np.union1d(series.start_s, inside)
    return replace(series, start_s=start_s, value=value_at(series, start_s))


def merge(series: Series) -> Series:
    """Return the same series with neighbours of one value, or of none, joined."""
    before, after = series.value[:-1], series.value[1:]
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    kept = np.append(True, ~same)
    return replace(series, start_s=series.start_s[kept], value=series.value[kept])


def fill_gaps(series: Series) -> Series:
    """Return the series with each gap filled from exactly one week earlier, or the latest earlier week that is known.

    "One week" is 168 hours, so across a change of the clocks it is the neighbouring local hour. A gap with no known
    value at any whole week before it stays a gap.
    """
    while True:
        filled = _filled_once(series)
        if _unknown_s(filled) == _unknown_s(series):
            return series
        series = filled


def _unknown_s(series: Series) -> int:
    return int(series.length_s[~series.known].sum())


def _filled_once(series: Series) -> Series:
    # The week before may have been divided more finely than the gap: its edges divide the gap.
    week_later = series.start_s + WEEK_S
    series = split(series, week_later[np.isnan(value_at(series, week_later))])
    return replace(series, value=np.where(series.known, series.value, value_at(series, series.start_s - WEEK_S)))
