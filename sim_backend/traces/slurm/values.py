"""Reads what Slurm writes into a field: counts, durations, limits, energies, times. Whole columns, each text once.

Slurm's times are by the site's clock, which shows an hour twice a year doubly, as Unix seconds, or with an offset.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import to_unix_s

UNKNOWN, BAD = -1, -2  # the field is empty or says so; the field makes no sense

NO_LIMIT = frozenset((b"", b"UNLIMITED", b"Partition_Limit"))
DURATION = re.compile(rb"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
MOST = 10**15  # a field that says more makes no sense, and sums of such numbers would overflow
COUNT = re.compile(rb"(\d+(?:\.\d+)?)([KMGT]?)")
POWERS = {b"": 0, b"K": 1, b"M": 2, b"G": 3, b"T": 4}

UNKNOWN_TEXTS = pa.array(["", "Unknown", "None", "N/A"])
UNKNOWN_WIDTHS = tuple(len(text) for text in UNKNOWN_TEXTS.to_pylist())
LOCAL_WIDTH = len("2026-11-20T22:01:28")
UNIX_WIDTH = len("1795212088")
OFFSET_WIDTHS = tuple(LOCAL_WIDTH + len(offset) for offset in ("Z", "+01", "+0100", "+01:00"))
# A time before or after was never set.
EARLIEST_S, LATEST_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1990, 2100))


def by_distinct(column: pa.DictionaryArray, read: Callable[[bytes], int]) -> Int64:
    """Return the result of `read` for each value; it is called once for each distinct value."""
    read_values = (read(text) for text in column.dictionary.to_pylist())
    values = np.array([value if value <= MOST else BAD for value in read_values], np.int64)
    return values[column.indices.to_numpy()] if len(values) else np.empty(0, np.int64)


def whole_numbers(column: pa.StringArray) -> Int64:
    """Return the numbers, UNKNOWN if the field is empty and BAD where it is no whole number, or an absurd one."""
    try:
        numbers = np.asarray(column.cast(pa.int64()))
    except pa.ArrowInvalid:
        numbers = np.array([whole_number(text) for text in column.cast(pa.binary()).to_pylist()], np.int64)
    return np.where(numbers > MOST, BAD, numbers)


def whole_number(text: bytes) -> int:
    """Return the number, UNKNOWN for an empty text and BAD for any other that is no whole number."""
    return int(text) if text.isdigit() and len(text) < len(str(2**63)) else BAD if text else UNKNOWN


def duration_s(text: bytes) -> int:
    """Return the seconds of "1-02:03:04", "02:03:04" or "03:04.567"."""
    match = DURATION.fullmatch(text)
    if not match:
        return BAD if text else UNKNOWN
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def limit_of_minutes_s(text: bytes) -> int:
    """Return the limit [s] that is written in minutes, 0 for none."""
    if text in NO_LIMIT:
        return 0
    return 60 * int(text) if text.isdigit() else BAD


def limit_of_duration_s(text: bytes) -> int:
    """Return the limit [s] that is written as a duration, 0 for none."""
    return 0 if text in NO_LIMIT else duration_s(text)


def count(text: bytes) -> int:
    """Return the number, which older versions shorten to "1.50K", a K being 1024; 0 if the field is empty."""
    match = COUNT.fullmatch(text)
    return round(float(match[1]) * 1024 ** POWERS[match[2]]) if match else BAD if text else 0


def count_in(resource: str) -> Callable[[bytes], int]:
    """Return a reader of the number of a resource in a list such as "billing=4,cpu=4,node=1"; 0 if it is not."""
    pattern = re.compile(rb"(?:^|,)%b=([^,]*)" % resource.encode())

    def read(text: bytes) -> int:
        match = pattern.search(text)
        return count(match[1]) if match else 0

    return read


def energy_j(column: pa.Array) -> Float64:
    """Return the energies [J], NaN if the field is empty or no number."""
    if isinstance(column, pa.DictionaryArray):
        values = np.array([_joules(text) for text in column.dictionary.to_pylist()], np.float64)
        return values[column.indices.to_numpy()] if len(values) else np.empty(0)
    energy = np.full(len(column), np.nan)
    filled = pc.not_equal(pc.binary_length(column), 0)
    try:
        energy[np.asarray(filled)] = column.filter(filled).cast(pa.float64())
    except pa.ArrowInvalid:
        energy[:] = [_joules(text) for text in column.cast(pa.binary()).to_pylist()]
    return energy


def _joules(text: bytes) -> float:
    match = COUNT.fullmatch(text)
    return float(match[1]) * 1000.0 ** POWERS[match[2]] if match else float("nan")


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


def _iso_s(column: pa.StringArray, kind: pa.DataType) -> Int64:
    try:
        return np.asarray(np.maximum(column.cast(kind).cast(pa.int64()), 0))
    except pa.ArrowInvalid:
        times_s, is_aware = [], kind.tz is not None
    for text in column.cast(pa.binary()).to_pylist():
        try:
            time = datetime.fromisoformat(text.decode())
        except ValueError:
            times_s.append(BAD)
            continue
        seconds = int((time if is_aware else time.replace(tzinfo=UTC)).timestamp())
        times_s.append(max(seconds, 0) if (time.tzinfo is not None) == is_aware else BAD)
    return np.array(times_s, np.int64)


READ_BY_WIDTH: Mapping[tuple[int, ...], Callable[[pa.StringArray], Int64]] = {
    (LOCAL_WIDTH,): lambda column: _iso_s(column, pa.timestamp("s")),
    UNKNOWN_WIDTHS: lambda column: np.where(pc.is_in(column, value_set=UNKNOWN_TEXTS), UNKNOWN, BAD),
    (UNIX_WIDTH,): whole_numbers,
    OFFSET_WIDTHS: lambda column: _iso_s(column, pa.timestamp("s", "UTC")),
}


def start_s(start: Instants, end: Instants, *, not_before_s: Int64, runtime_s: Int64) -> Int64:
    """Return when the jobs started: of two instants the one that fits the end and the run time, else the first.

    It is the last one in any case if the first one is before `not_before_s`.
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
    """Return the time from start to end [s], UNKNOWN if one is; of two ends the first not before the start."""
    end_s = np.where(end.first >= start_s, end.first, end.last)
    return np.where((start_s >= 0) & (end_s >= 0), np.maximum(end_s - start_s, 0), UNKNOWN)
