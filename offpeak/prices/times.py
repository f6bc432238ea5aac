"""Columns of times, as files write them, to Unix seconds.

Times are ISO 8601, with or without an offset, or Unix seconds or milliseconds, or dates such as 26.10.2024, 10/26/2024
and Oct 26, 2024 with a clock of 24 or 12 hours. Of "A - B" the first counts. The name of the clock behind a time, such
as "(CEST)", tells the hours of a repeated hour apart, else their order does.
"""

import calendar
from collections.abc import Callable
from datetime import datetime, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import to_local_s, to_unix_s
from offpeak.model.zones import offset_at

RowName = Callable[[int], str]

_UNTIL = r"\s+-\s+.*$"
_MARKED_AHEAD_S = {
    name: hours * HOUR_S
    for name, hours in {
        "UTC": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3,
        "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    }.items()
}  # fmt: skip
"""The clocks whose names stand behind times, in Europe and in North America."""
_MARK = rf"\s*\(?(?P<mark>{'|'.join(_MARKED_AHEAD_S)})\)?\s*$"
_EPOCH = r"^\d{9,10}(?:\d{3})?$"
_LONGEST_EPOCH_S = 10**11
YEAR_DIGITS = 4
EARLIEST_S, LATEST_S = -70 * 31_556_952, 230 * 31_556_952
"""The begins of 1900 and 2200: clocks of time zones end with the years 1 and 9999."""
_PARTS = (
    r"^(?P<a>\d{1,4})(?P<sep>[./-])(?P<b>\d{1,2})[./-](?P<c>\d{2,4})"
    r"(?:[ T,]+(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:\.\d+)?)?)?\s*(?P<half>[AaPp][Mm])?$"
)
_NAMED_MONTH = r"^(?P<month>[A-Za-z]{3})[a-z]*\.? (?P<day>\d{1,2}),? (?P<rest>\d{4}.*)$"
_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}


def parse_times(times: pa.Array, zone: tzinfo | None, where: RowName, *, month_first: bool | None = None) -> Int64:
    """Return the Unix seconds of times; those without an offset are in the time zone.

    `where(row)` names a row for an error, and `month_first` says of 10/11/2024 which part is the month, None for what
    the column shows. Raises BadPrices for a time that is missing, unreadable, without offset or zone, or skipped by the
    zone's clock.
    """
    times, mark = _without_marks(times)
    aware = _aware_seconds(times)
    if aware is not None:
        return _plausible(aware, times, where)
    local = _local_seconds(times, month_first)
    if local is None:
        raise _unreadable(times, where, month_first)
    _plausible(local, times, where)
    unmarked = np.flatnonzero(mark == "")
    if zone is None and len(unmarked):
        raise BadPrices(
            f"{where(int(unmarked[0]))}: the time {times[int(unmarked[0])].as_py()!r} has neither Z nor an offset",
            hint="declare whose clock it is, such as zone=Europe/Berlin or zone=UTC",
        )
    unix_s = local - np.array([_MARKED_AHEAD_S.get(name, 0) for name in mark.tolist()], np.int64)
    if zone is not None and len(unmarked):
        unix_s[unmarked] = unix_of_clock(local[unmarked], zone, lambda row: where(int(unmarked[row])))
    return unix_s


def _plausible(seconds: Int64, times: pa.Array, where: RowName) -> Int64:
    """Return the seconds. Raises BadPrices for a year in which electricity had or will have no price."""
    odd = np.flatnonzero((seconds < EARLIEST_S) | (seconds >= LATEST_S))
    if len(odd):
        row = int(odd[0])
        hint = "it lies between 1900 and 2200: check the columns and the clock that wrote them"
        raise BadPrices(f"{where(row)}: {times[row].as_py()!r} is not a plausible time of a price", hint=hint)
    return seconds


def fall(times: pa.Array, *, month_first: bool | None = None) -> bool:
    """Tell whether most times are before the one above: a repeated hour rises once."""
    times, _ = _without_marks(times)
    shown_s = _aware_seconds(times)
    shown_s = _local_seconds(times, month_first) if shown_s is None else shown_s
    return shown_s is not None and len(shown_s) > 1 and bool(np.mean(np.diff(shown_s) < 0) > 0.5)


def parse_dates(dates: pa.Array, where: RowName, *, month_first: bool | None = None) -> Int64:
    """Return the local second at which each date begins. Raises BadPrices for one that cannot be read."""
    local = _local_seconds(dates, month_first)
    if local is None:
        raise _unreadable(dates, where, month_first)
    return local // DAY_S * DAY_S


def unix_of_clock(local_s: Int64, zone: tzinfo, where: RowName) -> Int64:
    """Return the Unix seconds of what the zone's clock shows; of a repeated hour, rows in their order are two.

    Raises BadPrices for a time that it never shows.
    """
    first_s, last_s = to_unix_s(local_s, zone)
    never = np.flatnonzero(to_local_s(first_s, zone) != local_s)
    if len(never):
        row = int(never[0])
        raise _never_shown(int(local_s[row]), int(first_s[row]), zone, where(row))
    doubled = last_s > first_s
    steps_back = np.cumsum(np.diff(local_s, prepend=local_s[0] - 1) <= 0)
    enters = doubled & ~np.append(False, doubled[:-1])
    entered_at = np.maximum.accumulate(np.where(enters, np.arange(len(local_s)), 0))
    second: NDArray[np.bool_] = doubled & (steps_back > steps_back[entered_at])
    return np.where(second, last_s, first_s)


def first_failing(rows: int, fails: Callable[[int], bool]) -> int:
    """Return the first row that makes the first `count` rows fail; they must fail as a whole."""
    good, bad = 0, rows
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if fails(middle) else (middle, bad)
    return good


def _without_marks(times: pa.Array) -> tuple[pa.Array, NDArray[np.str_]]:
    """Return the first time of each "A - B", and the name of the clock behind it, "" for none."""
    times = pc.replace_substring_regex(times, _UNTIL, "")
    mark = pc.struct_field(pc.extract_regex(times, _MARK), "mark")
    names = np.asarray(pc.fill_null(mark, "").to_pylist(), np.str_)
    return pc.replace_substring_regex(times, _MARK, ""), names


def _aware_seconds(times: pa.Array) -> Int64 | None:
    if pc.all(pc.match_substring_regex(times, _EPOCH), min_count=0).as_py() and not times.null_count:
        epoch: Int64 = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return epoch // np.where(epoch > _LONGEST_EPOCH_S, 1000, 1)
    return _iso_seconds(times, pa.timestamp("us", "UTC"))


def _iso_seconds(times: pa.Array, kind: pa.DataType) -> Int64 | None:
    try:
        microseconds = times.cast(kind).cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    # A missing time makes the column floating.
    return None if microseconds.dtype != np.int64 else microseconds // 1_000_000


def _local_seconds(times: pa.Array, month_first: bool | None) -> Int64 | None:
    """Return what a clock shows, None if a time cannot be read."""
    local = _iso_seconds(times, pa.timestamp("us"))
    if local is not None:
        return local
    parts = pc.extract_regex(_with_numbers_of_months(times), _PARTS)
    if parts.null_count:
        return None
    text = {name: pc.struct_field(parts, name) for name in ("a", "sep", "b", "c", "h", "m", "s", "half")}
    first, second, third = (_whole(text[name]) for name in "abc")
    of_day_s = _seconds_of_day(text)
    if pc.min(pc.utf8_length(text["a"])).as_py() == YEAR_DIGITS:
        return _local_of(first, second, third, of_day_s)
    year = np.where(third < 100, 2000 + third, third)
    if pc.all(pc.equal(text["sep"], ".")).as_py():
        month_first = False
    months = [(first, second)] if month_first else [(second, first)] if month_first is not None else []
    months = months or [(second, first), (first, second)]
    found = [local for month, day in months if (local := _local_of(year, month, day, of_day_s)) is not None]
    if len(found) < 2:
        return found[0] if found else None
    # Both ways are dates: the rows of the true one follow each other closely.
    spans = [int(np.ptp(local)) for local in found]
    if spans[0] == spans[1] and not np.array_equal(found[0], found[1]):
        return None
    return found[spans[0] > spans[1]]


def _with_numbers_of_months(times: pa.Array) -> pa.Array:
    """Return "Oct 26, 2024 1:00 AM" as "26.10.2024 1:00 AM"."""
    named = pc.extract_regex(times, _NAMED_MONTH)
    if named.null_count:
        return times
    name = pc.utf8_capitalize(pc.struct_field(named, "month"))
    number = pa.array([str(_MONTHS.get(each, 0)) for each in name.to_pylist()])
    day, rest = (pc.struct_field(named, key) for key in ("day", "rest"))
    return pc.binary_join_element_wise(day, number, rest, ".")


def _whole(digits: pa.Array) -> Int64:
    return pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _seconds_of_day(text: dict[str, pa.Array]) -> Int64:
    hour, minute, second = (_whole(text[name]) for name in "hms")
    half = np.asarray(pc.utf8_upper(text["half"]).to_pylist(), np.str_)
    hour = np.where(half == "", hour, hour % 12 + 12 * (half == "PM"))
    return hour * HOUR_S + minute * 60 + second


def _local_of(year: Int64, month: Int64, day: Int64, of_day_s: Int64) -> Int64 | None:
    if month.min() < 1 or month.max() > 12 or day.min() < 1 or of_day_s.max() > DAY_S:
        return None
    months = (year - 1970) * 12 + month - 1
    begins, ends = (_day_of_month(each) for each in (months, months + 1))
    if np.any(begins + day > ends):
        return None
    local_s: Int64 = (begins + day - 1) * DAY_S + of_day_s
    return local_s


def _day_of_month(month: Int64) -> Int64:
    """Return the day on which each month begins; both are counted from January 1, 1970."""
    days: Int64 = month.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _unreadable(times: pa.Array, where: RowName, month_first: bool | None) -> BadPrices:
    ways = (_aware_seconds, lambda rows: _local_seconds(rows, month_first))
    way = next((way for way in ways if way(times[:1]) is not None), ways[0])
    row = first_failing(len(times), lambda count: way(times[:count]) is None)
    text = times[row].as_py() or ""
    if all(_local_seconds(times, way) is not None for way in (True, False)):
        problem = f"{where(0)}: of the date {times[0].as_py()!r} the day and the month cannot be told apart"
    else:
        other = any(each(times[row : row + 1]) is not None for each in ways)
        problem = (
            f"{where(row)}: the time {text!r} {'is written unlike the times before it' if other else 'cannot be read'}"
        )
    return BadPrices(problem, hint="write all like 2024-01-31T23:00Z, or with +01:00")


def _never_shown(local_s: int, change_s: int, zone: tzinfo, place: str) -> BadPrices:
    text = str(np.datetime64(local_s, "s")).replace("T", " ")
    winter = str(datetime.fromtimestamp(change_s - 1, zone))[-6:]
    return BadPrices(
        f"{place}: {zone} has no {text}: its clock goes from {_clock(change_s - 1, zone)} to {_clock(change_s, zone)}",
        hint=f"if all days of the file have 24 hours, declare a fixed offset, such as zone={winter}",
    )


def _clock(unix_s: int, zone: tzinfo) -> str:
    return str(np.datetime64(unix_s + offset_at(unix_s, zone), "s"))[11:]
