"""Price and carbon files: CSV, plain or gzipped, read into a `Series`, and written back.

A file is read as columns of text with the line number of each row. Commas separate the columns, or semicolons or tabs
if the header has no comma; then numbers may have decimal commas. Times become Unix seconds column by column.
"""

import csv
import io
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.files import read_bytes
from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import to_local_s, to_unix_s
from offpeak.model.step_series import Series, series_of_rows, usual_lengths
from offpeak.model.units import highest_value, plausible_range
from offpeak.model.zones import offset_at
from offpeak.prices.layout import PriceFileLayout, unit_of
from offpeak.text import counted, did_you_mean

RowName = Callable[[int], str]


def parse_times(times: pa.Array, zone: tzinfo | None, where: RowName) -> Int64:
    """Return the Unix seconds of ISO times; times without an offset are in the time zone.

    `where(row)` names a row for an error. Raises BadPrices for a time that is missing, unreadable, without offset or
    zone, or skipped by the zone's clock.
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


def _unreadable(times: pa.Array, where: RowName) -> BadPrices:
    kinds = (pa.timestamp("us", "UTC"), pa.timestamp("us"))
    kind = next((kind for kind in kinds if _seconds(times[:1], kind) is not None), kinds[0])
    row = first_failing(len(times), lambda count: _seconds(times[:count], kind) is None)
    text = times[row].as_py() or ""
    other = any(_seconds(times[row : row + 1], kind) is not None for kind in kinds)
    message = "is written unlike the times before it" if other else "cannot be read"
    problem = f"{where(row)}: the time {text!r} {message}"
    return BadPrices(problem, hint="write all like 2024-01-31T23:00Z, or with +01:00")


def first_failing(rows: int, fails: Callable[[int], bool]) -> int:
    """Return the first row that makes the first `count` rows fail; they must fail as a whole."""
    good, bad = 0, rows
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if fails(middle) else (middle, bad)
    return good


def _unix_of_clock(local_s: Int64, zone: tzinfo, where: RowName) -> Int64:
    first_s, last_s = to_unix_s(local_s, zone)
    never = np.flatnonzero(to_local_s(first_s, zone) != local_s)
    if len(never):
        row = int(never[0])
        raise _never_shown(int(local_s[row]), int(first_s[row]), zone, where(row))
    return np.where(_second_time_round(local_s, last_s > first_s), last_s, first_s)


def _second_time_round(local_s: Int64, doubled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows are in the second pass of a repeated hour, after the clock's step back in that hour."""
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


SEPARATORS = (",", ";", "\t")
DECIMAL_COMMA = r"^([+-]?[0-9]+),([0-9]+)$"
LAYOUT_EXAMPLE = "time=utc,value=price,unit=EUR/MWh"


@dataclass(frozen=True)
class CsvTable:
    """A file's columns as text, null for an empty cell or "NA", and the text itself to find a row's line."""

    path: Path
    columns: dict[str, pa.Array]
    text: bytes
    with_empty_lines: bool

    def where(self, row: int) -> str:
        """Return file:line of a row."""
        return f"{self.path}:{_line_number(self.text, row + 1, with_empty_lines=self.with_empty_lines)}"


def read_table(path: Path, *, with_empty_lines: bool) -> CsvTable:
    """Return the plain or gzipped file's columns; an empty line is a row without a value, or no row at all.

    Raises BadPrices, with file and line, unless it is CSV with one line of column names and rows of as many columns.
    """
    text = read_bytes(path, BadPrices).rstrip(b"\r\n")
    names, separator = _header(text, path)
    if b"\n" not in text:
        raise BadPrices(f"{path}: has column names but no rows", hint="one row per interval is expected")
    wrong: list[pacsv.InvalidRow] = []
    try:
        table = _text_columns(
            text + b"\n", len(names), _parse_options(wrong, separator, with_empty_lines=with_empty_lines)
        )
    except pa.ArrowInvalid as problem:
        if not wrong:
            raise BadPrices(
                f"{path}: {problem}", hint="columns separated by commas, semicolons or tabs are expected"
            ) from None
        line = _line_number(text, wrong[0].number - 1, with_empty_lines=with_empty_lines)
        counts = f"{counted(wrong[0].actual_columns, 'column')}, the header has {wrong[0].expected_columns}"
        hint = "semicolons or tabs separate the columns, as in the header"
        if separator == ",":
            hint = "a comma separates columns, decimals follow a point"
        if len(names) == 1:
            hint = "prices are a CSV file, with a column of times and one of prices: utc,price"
        raise BadPrices(f"{path}:{line}: has {counts}", hint=hint) from None
    columns = {name: _trim(table[i]) for i, name in enumerate(names)}
    if separator != ",":
        columns = {
            name: pc.replace_substring_regex(column, DECIMAL_COMMA, r"\1.\2") for name, column in columns.items()
        }
    return CsvTable(path, columns, text, with_empty_lines)


def _parse_options(wrong: list[pacsv.InvalidRow], separator: str, *, with_empty_lines: bool) -> pacsv.ParseOptions:
    """Return how to parse; the first row with a wrong number of columns is put into `wrong`."""

    def note(row: pacsv.InvalidRow) -> str:
        wrong.append(row)
        return "error"

    return pacsv.ParseOptions(delimiter=separator, ignore_empty_lines=not with_empty_lines, invalid_row_handler=note)


def _text_columns(text: bytes, count: int, parse: pacsv.ParseOptions) -> pa.Table:
    # Numbers as names, so that Arrow ignores the header; one thread, so that it counts the rows.
    names = [str(i) for i in range(count)]
    return pacsv.read_csv(
        io.BytesIO(text),
        read_options=pacsv.ReadOptions(column_names=names, skip_rows=1, use_threads=False),
        parse_options=parse,
        convert_options=pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True),
    )


def _line_number(text: bytes, row: int, *, with_empty_lines: bool) -> int:
    """Return the line of a row counted from the header, which is row 0."""
    lines = (i for i, line in enumerate(text.split(b"\n"), 1) if with_empty_lines or line.rstrip(b"\r"))
    return next(islice(lines, row, None))


def _header(text: bytes, path: Path) -> tuple[list[str], str]:
    """Return the names of the columns, and the separator."""
    if not text.strip():
        raise BadPrices(f"{path}: is empty", hint="a line of column names and rows of values are expected")
    try:
        line, _, second = text.decode().partition("\n")
    except UnicodeDecodeError as problem:
        line_number = text.count(b"\n", 0, problem.start) + 1
        raise BadPrices(
            f"{path}:{line_number}: is not UTF-8 text", hint=f"try `iconv -f latin1 -t utf8 {path}`"
        ) from None
    separator = next((each for each in SEPARATORS if each in line), ",")
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
    # A table whose first column has no name, such as an index, has semicolons within its rows.
    if line.startswith(";") and (second.startswith(";") or ";" not in second.partition("\n")[0]):
        raise BadPrices(f"{path}:1: is a job log in SWF, and holds no column names", hint="a price file is wanted")
    if not names or any(_is_number(name) for name in names):
        raise BadPrices(f"{path}:1: holds no column names", hint="put a line such as `utc,price` on top")
    if len(set(names)) < len(names):
        raise BadPrices(f"{path}:1: names a column twice: {line.strip()}", hint="rename one of them")
    return names, separator


def _trim(column: pa.ChunkedArray) -> pa.Array:
    text = pc.utf8_trim_whitespace(column.combine_chunks())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def find_column(table: CsvTable, name: str) -> str:
    """Return the column of that name, or the only one whose name contains it, ignoring case and punctuation."""
    if name not in table.columns:
        similar = [column for column in table.columns if _letters(name) and _letters(name) in _letters(column)]
        if len(similar) == 1:
            return similar[0]
        raise BadPrices(f"{table.path}:1: has no column {name!r}", hint=did_you_mean(name, table.columns))
    return name


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def is_numeric(table: CsvTable, name: str) -> bool:
    """Tell whether the first value of a column is a number."""
    return _is_number(next(iter(table.columns[name].drop_null()[:1].to_pylist()), ""))


def first_numeric(table: CsvTable, *, besides: Collection[str | None]) -> str:
    """Return the first column whose first value is a number, except those columns."""
    for name in table.columns:
        if name not in besides and is_numeric(table, name):
            return name
    raise BadPrices(
        f"{table.path}: no column of numbers among {', '.join(table.columns)}",
        hint=f"declare it, such as {LAYOUT_EXAMPLE}",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_numbers(table: CsvTable, name: str) -> Float64:
    """Return the column's numbers, NaN for an empty cell."""
    column = table.columns[name]
    value = _cast(column)
    if value is None:
        row = first_failing(len(column), lambda count: _cast(column[:count]) is None)
        raise BadPrices(
            f"{table.where(row)}: {name} is {column[row].as_py()!r}, which is no number",
            hint="numbers with a decimal point are expected, and nothing where the value is not known",
        )
    if np.isnan(value).all():
        raise BadPrices(
            f"{table.path}: the column {name!r} holds no number", hint=f"declare another, as in {LAYOUT_EXAMPLE}"
        )
    return value


def _cast(column: pa.Array) -> Float64 | None:
    try:
        value: Float64 = column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    except pa.ArrowInvalid:
        return None
    return None if np.isinf(value).any() else value


INTENSITY = re.compile(r"co2|co₂|carbon.intensity")
"""Columns of carbon intensity, such as those of Electricity Maps: direct, and of the whole life cycle."""


def read_series(path: Path, layout: PriceFileLayout, *, unit: str = "") -> Series:
    """Return the file's series; what `layout` leaves open is taken from the file.

    Time is the first column, value the first other column that holds numbers, the unit is in the file's name unless
    the file can have this `unit` only. A row without a value is a gap, and so is the time after a row if the next row
    is later than usual. Raises BadPrices, with file and line, for unreadable input.
    """
    table = read_table(path, with_empty_lines=layout.start_s is not None)
    time = find_column(table, layout.time or next(iter(table.columns))) if layout.start_s is None else None
    column = _value_column(table, layout, time)
    unit, factor = (unit, 1.0) if unit else unit_of(layout, path.name, column)
    value = read_numbers(table, column)
    if layout.start_s is None:
        assert time is not None
        start_s = _times(table, layout, time)
        length_s = usual_lengths(start_s)
    else:
        start_s = layout.start_s + layout.step_s * np.arange(len(value))
        length_s = np.full(len(value), layout.step_s)
    _check_plausible(table, value * factor, unit)
    return series_of_rows(start_s, length_s, value * factor, unit=unit, source=path.name)


def _check_plausible(table: CsvTable, value: Float64, unit: str) -> None:
    """Raise BadPrices for the first implausible value."""
    implausible = np.flatnonzero(np.abs(value) > highest_value(unit))
    if len(implausible):
        row = int(implausible[0])
        what = "carbon intensity" if unit == "g/kWh" else "price"
        raise BadPrices(f"{table.where(row)}: {value[row]:g} {unit} is no plausible {what}", hint=plausible_range(unit))


def _value_column(table: CsvTable, layout: PriceFileLayout, time: str | None) -> str:
    if layout.value:
        return find_column(table, layout.value)
    intensities = [name for name in table.columns if INTENSITY.search(name.lower()) and is_numeric(table, name)]
    if _is_of_prices(layout, table.path.name):
        return first_numeric(table, besides=(time, *intensities))
    if len(intensities) > 1:
        shown = " and ".join(repr(name) for name in intensities)
        raise BadPrices(
            f"{table.path}:1: holds more than one carbon intensity: {shown}",
            hint=f"say which: --carbon '{table.path},value={intensities[0]}'",
        )
    return first_numeric(table, besides=(time,))


def _is_of_prices(layout: PriceFileLayout, file_name: str) -> bool:
    """Tell whether the declared unit or the file's name shows that the file holds prices."""
    try:
        return unit_of(layout, file_name)[0] != "g/kWh"
    except BadPrices:
        return False


def _times(table: CsvTable, layout: PriceFileLayout, name: str) -> Int64:
    column = table.columns[name]
    zone = UTC if layout.zone is None and "(utc)" in name.lower() else layout.zone
    start_s = parse_times(column, zone, table.where)
    not_later = np.flatnonzero(np.diff(start_s) <= 0)
    if len(not_later):
        row = int(not_later[0]) + 1
        before, after = column[row - 1].as_py(), column[row].as_py()
        message = "stands twice" if start_s[row] == start_s[row - 1] else f"comes after {before}"
        raise BadPrices(f"{table.where(row)}: the time {after} {message}", hint="times must rise from row to row")
    if len(start_s) == 1:
        raise BadPrices(
            f"{table.where(0)}: a single row does not show how long its value holds",
            hint="add a row, or declare start= and step= instead of a time column",
        )
    return start_s
