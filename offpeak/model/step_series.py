"""A price or a carbon intensity over time: a piecewise constant series with explicit gaps.

`usual_lengths` finds how long each row of a file holds, so that a missing row becomes a gap.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import WEEK_S


@dataclass(frozen=True)
class Series:
    """`value[i]` holds from `start_s[i]` to the next start, the last until `end_s` (Unix seconds, UTC).

    NaN is an interval without a known value: a gap. `unit` is "EUR/MWh" or "g/kWh", `source` the file name or rule
    that it came from. Raises BadPrices unless the starts rise strictly and the values are finite or NaN.
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


def sorted_once(*parts: Int64) -> Int64:
    """Return all instants of the parts in order, each once.

    np.unique puts integers into a hash table first, which takes dozens of times as long where the parts are sorted.
    """
    ordered: Int64 = np.sort(np.concatenate(parts), kind="stable")
    once: Int64 = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return once


def split(series: Series, at_s: Int64) -> Series:
    """Return the same series with its intervals cut at those of the instants that lie inside it."""
    inside = at_s[(at_s > series.start_s[0]) & (at_s < series.end_s)]
    start_s = sorted_once(series.start_s, inside)
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


def running_integral(edge_s: Int64 | Float64, value: Float64) -> Float64:
    """Return the integral of a step function up to each edge; `value[i]` holds from edge i to edge i + 1."""
    return np.append(0.0, np.cumsum(value * np.diff(edge_s)))


def integral_between(edges_s: Int64, value: Float64, at_s: Int64) -> Float64:
    """Return the integral of a step function between neighbours of `at_s`: float64[len(at_s) - 1], in its unit x s.

    `value[i]` holds from `edges_s[i]` to `edges_s[i + 1]`; nothing is counted outside.
    """
    return np.diff(np.interp(at_s, edges_s, running_integral(edges_s, value)))


@dataclass(frozen=True, eq=False)
class IntegralCurve:
    """`total[i]` is the integral of a step function up to `edge_s[i]`; the function is 0 outside the edges."""

    edge_s: Float64
    total: Float64

    def between(self, from_s: Int64 | Float64, until_s: Int64 | Float64) -> Float64:
        """Return the integral [unit x s] of each stretch."""
        return np.interp(until_s, self.edge_s, self.total) - np.interp(from_s, self.edge_s, self.total)


# How many rows before and after a row decide which step is usual there: a day of hours.
NEIGHBOURS = 24
# Files are regular: among more than a few different steps, the rare ones are gaps and need no counting.
COUNTED_STEPS = 8


def series_of_rows(start_s: Int64, length_s: Int64, value: Float64, *, unit: str, source: str) -> Series:
    """Return non-overlapping rows with starts and lengths [s] as a series; the time between two rows is a gap."""
    until_s = start_s + length_s
    gap_s = until_s[:-1][until_s[:-1] < start_s[1:]]
    all_s = np.concatenate([start_s, gap_s])
    order = np.argsort(all_s, kind="stable")
    values = np.concatenate([value, np.full(len(gap_s), np.nan)])
    return Series(all_s[order], int(until_s[-1]), values[order], unit, source)


def usual_lengths(start_s: Int64) -> Int64:
    """Return how long each row's value holds [s]: to the next row, unless that is further than usual there.

    Usual is the most frequent step among the rows before, or the most frequent among the rows after: so a change from
    hours to quarter-hours is none too far, and a missing row is. What is left to the next row is a gap. One row alone
    has length 0.
    """
    step_s = np.diff(start_s)
    if len(step_s) == 0:
        return np.zeros(len(start_s), np.int64)
    before, after = _usual_steps(step_s)
    usual = (step_s == before) | (step_s == after)
    length_s = np.where(usual, step_s, np.minimum(step_s, np.minimum(before, after)))
    return np.append(length_s, length_s[-1])


def _usual_steps(step_s: Int64) -> tuple[Int64, Int64]:
    """Return the most frequent of the steps before and of those after each step, the longer one of a draw."""
    steps, counts = np.unique(step_s, return_counts=True)
    steps = np.sort(steps[np.argsort(counts)[-COUNTED_STEPS:]])[::-1]
    seen = np.cumsum(step_s == steps[:, None], axis=1)
    seen = np.concatenate([np.zeros((len(steps), 1), np.int64), seen], axis=1)
    row = np.arange(len(step_s))
    count_before = seen[:, row] - seen[:, np.maximum(row - NEIGHBOURS, 0)]
    count_after = seen[:, np.minimum(row + 1 + NEIGHBOURS, len(row))] - seen[:, row + 1]
    before, after = (steps[count.argmax(axis=0)] for count in (count_before, count_after))
    has_before, has_after = count_before.any(axis=0), count_after.any(axis=0)
    usual_before = np.where(has_before, before, np.where(has_after, after, step_s))
    return usual_before, np.where(has_after, after, usual_before)
