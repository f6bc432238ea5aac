"""The times of a price file: text to Unix seconds, in whole columns."""

from collections.abc import Callable
from datetime import datetime, tzinfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.jobs import Int64
from offpeak.zones import offset_at, to_local_s, to_unix_s

Where = Callable[[int], str]


def times_of_text(times: pa.Array, zone: tzinfo | None, where: Where) -> Int64:
    """Return the Unix seconds of ISO times; those without an offset are on the zone's clock.

    `where(row)` names a row for an error. BadPrices for a time that is missing, unreadable, without offset or zone,
    or never shown by the zone's clock.
    """
    aware = _seconds(times, pa.timestamp("us", "UTC"))
    if aware is not None:
        return aware
    local = _seconds(times, pa.timestamp("us"))
    if local is None:
        raise _unreadable(times, where)
    if zone is None:
        raise BadPrices(
            f"{where(0)}: the time {times[0].as_py()!r} has neither Z nor an offset",
            hint="declare whose clock it is, such as zone=Europe/Berlin or zone=UTC",
        )
    return _unix_of_clock(local, zone, where)


def _seconds(times: pa.Array, kind: pa.DataType) -> Int64 | None:
    try:
        microseconds = times.cast(kind).cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    # A missing time makes the column floating.
    return None if microseconds.dtype != np.int64 else microseconds // 1_000_000


def _unreadable(times: pa.Array, where: Where) -> BadPrices:
    kinds = (pa.timestamp("us", "UTC"), pa.timestamp("us"))
    kind = next((kind for kind in kinds if _seconds(times[:1], kind) is not None), kinds[0])
    row = first_failing(len(times), lambda count: _seconds(times[:count], kind) is None)
    text = times[row].as_py() or ""
    other = any(_seconds(times[row : row + 1], kind) is not None for kind in kinds)
    said = "is written unlike the times before it" if other else "cannot be read"
    return BadPrices(f"{where(row)}: the time {text!r} {said}", hint="write all like 2024-01-31T23:00Z, or with +01:00")


def first_failing(rows: int, fails: Callable[[int], bool]) -> int:
    """Return the first row that makes the first `count` rows fail; they must fail as a whole."""
    good, bad = 0, rows
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if fails(middle) else (middle, bad)
    return good


def _unix_of_clock(local_s: Int64, zone: tzinfo, where: Where) -> Int64:
    first_s, last_s = to_unix_s(local_s, zone)
    never = np.flatnonzero(to_local_s(first_s, zone) != local_s)
    if len(never):
        row = int(never[0])
        raise _never_shown(int(local_s[row]), int(first_s[row]), zone, where(row))
    return np.where(_second_time_round(local_s, last_s > first_s), last_s, first_s)


def _second_time_round(local_s: Int64, doubled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows lie in the second run of a doubled hour: those after the clock's step back in that hour."""
    steps_back = np.cumsum(np.diff(local_s, prepend=local_s[0] - 1) <= 0)
    enters = doubled & ~np.append(False, doubled[:-1])
    entered_at = np.maximum.accumulate(np.where(enters, np.arange(len(local_s)), 0))
    second: NDArray[np.bool_] = doubled & (steps_back > steps_back[entered_at])
    return second


def _never_shown(local_s: int, change_s: int, zone: tzinfo, place: str) -> BadPrices:
    text = str(np.datetime64(local_s, "s")).replace("T", " ")
    winter = str(datetime.fromtimestamp(change_s - 1, zone))[-6:]
    return BadPrices(
        f"{place}: {zone} has no {text}: its clock goes from {_clock(change_s - 1, zone)} to {_clock(change_s, zone)}",
        hint=f"if all days of the file have 24 hours, declare a fixed offset, such as zone={winter}",
    )


def _clock(unix_s: int, zone: tzinfo) -> str:
    return str(np.datetime64(unix_s + offset_at(unix_s, zone), "s"))[11:]
