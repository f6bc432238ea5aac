"""How long each row of a series of prices holds, and the gaps between rows."""

import numpy as np

from offpeak.jobs import Float64, Int64
from offpeak.prices.series import Series

# How many rows before and after a row decide which step is usual there: a day of hours.
NEIGHBOURS = 24
# Files are regular: among more than a few different steps, the rare ones are gaps and need no counting.
COUNTED_STEPS = 8


def series_of_rows(start_s: Int64, length_s: Int64, value: Float64, *, unit: str, source: str) -> Series:
    """Return rows that begin and hold so long [s], and do not overlap, as a series; the time between two is a gap."""
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
