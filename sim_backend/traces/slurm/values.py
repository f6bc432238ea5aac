"""What Slurm writes into a field: counts, durations, limits, energies. Whole columns; texts are read once each."""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offpeak.model.arrays import Float64, Int64

UNKNOWN, BAD = -1, -2  # the field is empty or says so; the field makes no sense

NO_LIMIT = frozenset((b"", b"UNLIMITED", b"Partition_Limit"))
DURATION = re.compile(rb"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
MOST = 10**15  # a field that says more makes no sense, and sums of such numbers would overflow
COUNT = re.compile(rb"(\d+(?:\.\d+)?)([KMGT]?)")
POWERS = {b"": 0, b"K": 1, b"M": 2, b"G": 3, b"T": 4}


def by_distinct(column: pa.DictionaryArray, read: Callable[[bytes], int]) -> Int64:
    """Return what `read` makes of each value; it is asked once for each that is different."""
    read_values = (read(text) for text in column.dictionary.to_pylist())
    values = np.array([value if value <= MOST else BAD for value in read_values], np.int64)
    return values[column.indices.to_numpy()] if len(values) else np.empty(0, np.int64)


def whole_numbers(column: pa.StringArray) -> Int64:
    """Return the numbers, UNKNOWN where the field is empty and BAD where it is no whole number, or an absurd one."""
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
    """Return the number, which older versions shorten to "1.50K", a K being 1024; 0 where the field is empty."""
    match = COUNT.fullmatch(text)
    return round(float(match[1]) * 1024 ** POWERS[match[2]]) if match else BAD if text else 0


def count_in(resource: str) -> Callable[[bytes], int]:
    """Return a reader of the number of a resource in a list such as "billing=4,cpu=4,node=1"; 0 where it is not."""
    pattern = re.compile(rb"(?:^|,)%b=([^,]*)" % resource.encode())

    def read(text: bytes) -> int:
        match = pattern.search(text)
        return count(match[1]) if match else 0

    return read


def energy_j(column: pa.Array) -> Float64:
    """Return the energies [J], NaN where the field is empty or no number."""
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
