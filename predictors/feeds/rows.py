"""From the rows of an answer to a series: times, values, and the gaps between them."""

from collections.abc import Sequence

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.step_series import Series, series_of_rows, split, usual_lengths
from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.port import Answer, Window


def series_of(
    source: str, unit: str, start_s: Sequence[int], value: Sequence[float | None], *, length_s: Int64 | None = None
) -> Answer:
    """Return the rows as a series; None and the time between two rows that are further apart than usual are gaps.

    `length_s` [s] says how long each row holds where the answer tells.
    """
    start = np.array(start_s, np.int64)
    if len(start) != len(value):
        return Trouble(Condition.GARBAGE, source, f"{len(start)} times but {len(value)} values")
    if len(start) == 0:
        return Trouble(Condition.NOT_YET_PUBLISHED, source, "the answer holds no values")
    if np.any(np.diff(start) <= 0):
        return Trouble(Condition.GARBAGE, source, "the times of the answer do not rise")
    lengths = usual_lengths(start) if length_s is None else length_s
    if np.any(lengths <= 0) or np.any(start[1:] < (start + lengths)[:-1]):
        return Trouble(Condition.GARBAGE, source, "the answer does not tell how long its values hold")
    return series_of_rows(start, lengths, np.array(value, np.float64), unit=unit, source=source)


def clipped(series: Series, window: Window) -> Series | None:
    """Return the part of the series inside the window, None if there is none."""
    cut = split(series, np.array(window, np.int64))
    inside = (cut.start_s >= window.from_s) & (cut.start_s < window.until_s)
    if not inside.any():
        return None
    end_s = min(series.end_s, window.until_s)
    return Series(cut.start_s[inside], end_s, cut.value[inside], series.unit, series.source)


def known_s(series: Series | None, window: Window) -> int:
    """Return how many seconds of the window have a value."""
    part = None if series is None else clipped(series, window)
    return 0 if part is None else int(part.length_s[part.known].sum())
