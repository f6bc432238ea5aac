"""Slurm's times: by the site's clock, which shows an hour twice a year doubly, as Unix seconds, or with an offset."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.local_time import to_unix_s
from sim_backend.traces.slurm.values import BAD, UNKNOWN, whole_numbers

UNKNOWN_WORDS = pa.array(["", "Unknown", "None", "N/A"])
WORD_WIDTHS = tuple(len(word) for word in UNKNOWN_WORDS.to_pylist())
LOCAL_WIDTH = len("2026-11-20T22:01:28")
UNIX_WIDTH = len("1795212088")
OFFSET_WIDTHS = tuple(LOCAL_WIDTH + len(offset) for offset in ("Z", "+01", "+0100", "+01:00"))
# A time before or after was never set.
EARLIEST_S, LATEST_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1990, 2100))


@dataclass(frozen=True)
class Instants:
    """The first and the last instant [Unix s] that a time can mean; UNKNOWN or BAD in both."""

    first: Int64
    last: Int64


def instants(column: pa.StringArray, zone: tzinfo) -> Instants:
    """Read a column of times; `zone` is the clock of those without an offset."""
    width = np.asarray(pc.binary_length(column))
    time_s = np.full(len(column), BAD)
    for widths, read in READ_BY_WIDTH.items():
        of_width = np.isin(width, widths)
        if of_width.any():
            time_s[of_width] = read(column if of_width.all() else column.filter(pa.array(of_width)))
    time_s[(time_s >= 0) & ((time_s < EARLIEST_S) | (time_s > LATEST_S))] = UNKNOWN
    shown = (width == LOCAL_WIDTH) & (time_s >= 0)
    last = time_s.copy()
    time_s[shown], last[shown] = to_unix_s(time_s[shown], zone)
    return Instants(time_s, last)


def _words(column: pa.StringArray) -> Int64:
    return np.where(pc.is_in(column, value_set=UNKNOWN_WORDS), UNKNOWN, BAD)


def _local_s(column: pa.StringArray) -> Int64:
    return _iso_s(column, pa.timestamp("s"))


def _offset_s(column: pa.StringArray) -> Int64:
    return _iso_s(column, pa.timestamp("s", "UTC"))


def _iso_s(column: pa.StringArray, kind: pa.DataType) -> Int64:
    try:
        return np.asarray(np.maximum(column.cast(kind).cast(pa.int64()), 0))
    except pa.ArrowInvalid:
        texts = column.cast(pa.binary()).to_pylist()
        return np.array([_one_iso_s(text, aware=kind.tz is not None) for text in texts], np.int64)


def _one_iso_s(text: bytes, *, aware: bool) -> int:
    try:
        time = datetime.fromisoformat(text.decode())
    except ValueError:
        return BAD
    if (time.tzinfo is not None) != aware:
        return BAD
    return max(int((time if aware else time.replace(tzinfo=UTC)).timestamp()), 0)


READ_BY_WIDTH = {
    (LOCAL_WIDTH,): _local_s,
    WORD_WIDTHS: _words,
    (UNIX_WIDTH,): whole_numbers,
    OFFSET_WIDTHS: _offset_s,
}


def start_s(start: Instants, end: Instants, *, not_before_s: Int64, runtime_s: Int64) -> Int64:
    """Return when the jobs started: of two instants the one that fits the end and the run time, else the first.

    It is the last in any case where the first lies before `not_before_s`.
    """
    if (start.first == start.last).all():
        return start.first
    late = _fits(start.last, end, runtime_s) & ~_fits(start.first, end, runtime_s)
    return np.where(late | (start.first < not_before_s), start.last, start.first)


def _fits(start_s: Int64, end: Instants, runtime_s: Int64) -> NDArray[np.bool_]:
    ended_s = start_s + runtime_s
    fits: NDArray[np.bool_] = (runtime_s >= 0) & ((ended_s == end.first) | (ended_s == end.last))
    return fits


def between_s(start_s: Int64, end: Instants) -> Int64:
    """Return the time from start to end [s], UNKNOWN where one is; of two ends the first not before the start."""
    end_s = np.where(end.first >= start_s, end.first, end.last)
    return np.where((start_s >= 0) & (end_s >= 0), np.maximum(end_s - start_s, 0), UNKNOWN)
