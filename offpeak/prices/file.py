"""Price and carbon files read into a `Series`.

Exports of exchanges are read as they come (exports.toml). Of any other file, time is the first column, and the value
is the column that its name or the declared unit shows to be the price: where more than one could be, none is taken.
"""

import re
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, QUARTER_S
from offpeak.model.step_series import Series, series_of_rows, usual_lengths
from offpeak.model.units import highest_value, plausible_range
from offpeak.prices.exports import Export, find_export, matching
from offpeak.prices.layout import PriceFileLayout, unit_of
from offpeak.prices.table import Table, find_column, is_numeric, read_numbers, read_table
from offpeak.prices.times import fall, parse_dates, parse_times, unix_of_clock
from offpeak.prices.written_units import WrittenUnit, read_unit
from offpeak.text import listed, printable

INTENSITY = re.compile(r"co2|co₂|carbon.intensity")
"""Columns of carbon intensity, such as those of Electricity Maps: direct, and of the whole life cycle."""
PRICE = re.compile(
    r"price|preis|prix|precio|pris\b|lmp|lbmp|spot|tarif|cost|\brate|eur|usd|gbp|[€$£]|/[km]wh", re.IGNORECASE
)
OTHER_QUANTITY = re.compile(
    r"load|demand|consum|generat|produc|volume|wind|solar|temperature|forecast|(?<!/)\bmwh?\b|share|percent",
    re.IGNORECASE,
)
PART_OF_TIME = re.compile(
    r"hour|day|date|month|year|week|minute|quarter|period|interval|index|\bid\b|dst|holiday", re.IGNORECASE
)
"""How columns of prices are named, and columns that data sets of prices have beside them."""
KIND = re.compile(
    r"area|region|country|market|node|\bhub\b|location|provider|sequence|resolution|product|(?<!time)(?<!time[ _])zone",
    re.IGNORECASE,
)
"""Columns that tell apart the series that a file holds."""
UNITS = r"(price[ _]?)?units?|currency|currencies|einheit|währung"
MOST_UNITS = 50
SENTINELS = (-999.0, -9999.0, -99999.0, -32768.0, 32767.0, 65535.0, 99999.0)
"""What programs write where they know no value."""
BELOW_AN_HOUR = "below an hour"
END = re.compile(r"(?<![a-z])(end|ends|ending|until|bis|valid_to)(?![a-z])", re.IGNORECASE)
"""How columns are named whose times are the ends of intervals."""
HOUR = re.compile(r"time|clock|hour|hour.?ending|he|uhrzeit|stunde|hora|heure|start|begin|anfang|von", re.IGNORECASE)
"""How the column beside a date is named that has the time of the day, or the number of the hour."""


def read_series(path: Path, layout: PriceFileLayout, *, unit: str = "") -> Series:
    """Return the file's series; what `layout` leaves open is taken from the file.

    The unit is in the file's name, the column's name or a column of units, unless the file can have this `unit` only.
    A row without a value is a gap, and so is the time after a row if the next row is later than usual. Raises
    BadPrices, with file and line, for unreadable input, and where columns or rows of more than one kind could be meant.
    """
    table = read_table(path, with_empty_lines=layout.start_s is not None)
    export = find_export(tuple(table.columns)) if layout.time is None and layout.start_s is None else None
    times = _time_columns(table, layout, export)
    table = _rows_of_one_place(table, layout, export, times)
    if times.names and fall(_joined(table, times.names), month_first=export.month_first if export else None):
        table = table.turned()
    column = _value_column(table, layout, export, times.names, of_prices=not unit)
    usual = export.unit if export else ""
    unit, factor = (unit, 1.0) if unit else unit_of(layout, path.name, _written_units(table, column), usual)
    value = read_numbers(table, column)
    if layout.start_s is None:
        start_s = _start_times(table, layout, export, times)
        length_s = usual_lengths(start_s)
        if times.show_ends or (times.show_short_ends and np.median(length_s) < HOUR_S):
            # An interval that is told by its end begins at the end of the one before.
            length_s = usual_lengths(-start_s[::-1])[::-1]
            start_s = start_s - length_s
    else:
        start_s = layout.start_s + layout.step_s * np.arange(len(value))
        length_s = np.full(len(value), layout.step_s)
    _check_values(table, value, value * factor, unit)
    source = f"{path.name}, column {column}" if column else path.name
    return series_of_rows(start_s, length_s, value * factor, unit=unit, source=source)


@dataclass(frozen=True)
class TimeColumns:
    """The columns of the times: one, or a date and a clock, or a date, an hour of the day and, if need be, its quarter.

    The first hour of a day has the number `first_hour`, None where no column counts hours.
    """

    names: tuple[str, ...]
    first_hour: int | None = None
    show_ends: bool = False
    show_short_ends: bool = False


def _time_columns(table: Table, layout: PriceFileLayout, export: Export | None) -> TimeColumns:
    if layout.start_s is not None:
        return TimeColumns(())
    if layout.time is not None:
        name = find_column(table, layout.time)
        return TimeColumns((name,), show_ends=bool(END.search(name)))
    if export is not None:
        patterns = tuple(filter(None, (export.date, export.hour, export.quarter))) if export.date else export.time
        names = tuple(matching(table.columns, pattern)[0] for pattern in patterns)
        return TimeColumns(names, 1 if export.date else None, export.ends is True, export.ends == BELOW_AN_HOUR)
    # Files of data frames begin with the number of the row, and records with any value.
    no_times = r"^[+-]?\d{1,7}(?:\.\d+)?$"
    others = [name for name in table.columns if name not in matching(table.columns, UNITS)] or list(table.columns)
    first = next((name for name in others if not _all_match(table, name, no_times)), others[0])
    is_date = _all_match(table, first, r"^\d{1,4}[./-]\d{1,2}[./-]\d{1,4}$")
    for name in (name for name in table.columns if name != first and is_date and HOUR.fullmatch(name)):
        if _all_match(table, name, r"^\d{1,2}:\d{2}(?::\d{2})?$"):
            ends = bool(pc.any(pc.starts_with(table.columns[name], "24:")).as_py())
            return TimeColumns((first, name), show_ends=ends)
        if _all_match(table, name, r"^\d{1,2}$"):
            hours = table.columns[name].cast(pa.int64())
            lowest, highest = pc.min(hours).as_py(), pc.max(hours).as_py()
            if lowest == 0 and highest < DAY_S // HOUR_S:
                return TimeColumns((first, name), 0)
            if lowest >= 1 and highest >= DAY_S // HOUR_S:
                return TimeColumns((first, name), 1)
    return TimeColumns((first,), show_ends=bool(END.search(first)))


def _all_match(table: Table, name: str, pattern: str) -> bool:
    return bool(pc.all(pc.fill_null(pc.match_substring_regex(table.columns[name], pattern), False)).as_py())


def _joined(table: Table, names: tuple[str, ...]) -> pa.Array:
    """Return the columns as one, joined by spaces."""
    return pc.binary_join_element_wise(*(table.columns[name] for name in names), " ")


def _rows_of_one_place(table: Table, layout: PriceFileLayout, export: Export | None, times: TimeColumns) -> Table:
    """Return the rows that the source's layout and the declared area leave; BadPrices if they are of several kinds."""
    for pattern, wanted in (export.only if export else {}).items():
        for name in matching(table.columns, pattern):
            kept = pc.match_substring_regex(pc.fill_null(table.columns[name], ""), f"^(?i:{wanted})$")
            if not pc.any(kept, min_count=0).as_py():
                only = listed([each or "nothing" for each in pc.unique(table.columns[name]).to_pylist()])
                raise BadPrices(
                    f"{table.path}: has no row of the usual {name}, only of {only}",
                    hint="declare the columns, such as time=..., value=..., and area= for the rows",
                )
            table = table.only(kept.to_numpy(zero_copy_only=False))
    others = [name for name in table.columns if name not in times.names]
    texts = [name for name in others if not is_numeric(table, name)]
    if layout.area is not None:
        found = [name for name in others if bool(pc.any(pc.equal(table.columns[name], layout.area)).as_py())]
        if not found:
            names = {each for name in texts for each in pc.unique(table.columns[name]).to_pylist()[:20] if each}
            raise BadPrices(f"{table.path}: no row is of {layout.area!r}", hint=f"it has {listed(sorted(names))}")
        of_area = pc.fill_null(pc.equal(table.columns[found[0]], layout.area), False)
        table = table.only(of_area.to_numpy(zero_copy_only=False))
    places = matching(table.columns, export.area) if export and export.area else []
    repeated = times.names != () and 2 * len(pc.unique(_joined(table, times.names))) <= len(table.lines)
    for name in sorted(others, key=lambda name: name not in places):
        kinds = [each for each in pc.unique(table.columns[name]).to_pylist() if each is not None]
        names_kind = KIND.search(name) is not None and (name in texts or not PRICE.search(name))
        is_kind = name in places or names_kind or (export is None and name in texts and repeated)
        if not is_kind or not 1 < len(kinds) <= len(table.lines) / 2:
            continue
        # Kinds one after another in time are one series, as where a market changes to quarter-hours.
        if repeated or name in places or _changes(table.columns[name]) >= len(kinds):
            raise BadPrices(
                f"{table.path}: holds the rows of several places or kinds in the column {name!r}: {listed(kinds)}",
                hint=f"say which: area={kinds[0]}",
            )
    return table


def _changes(column: pa.Array) -> int:
    """Return how many rows have another value than the row above."""
    known = column.drop_null()
    return pc.sum(pc.not_equal(known[1:], known[:-1]), min_count=0).as_py()  # type: ignore[no-any-return]


def _written_units(table: Table, column: str) -> dict[str, WrittenUnit]:
    """Return what the name of the column of values and the columns of units and currencies say of the unit."""
    found = {f"the column {column!r}": read_unit(column)}
    for name in matching(table.columns, UNITS):
        for text in pc.unique(table.columns[name].drop_null()).to_pylist()[:MOST_UNITS]:
            found[f"{printable(text)!r} in the column {name!r}"] = read_unit(text)
    return found


def _check_values(table: Table, written: Float64, value: Float64, unit: str) -> None:
    """Raise BadPrices for the first implausible value, and for one that programs write where they know none."""
    unknown = np.flatnonzero(np.isin(written, SENTINELS))
    if len(unknown):
        what = f"{table.where(int(unknown[0]))}: {written[unknown[0]]:g} stands for no value"
        raise BadPrices(what, hint="leave the cell empty, or write n/a")
    implausible = np.flatnonzero(np.abs(value) > highest_value(unit))
    if len(implausible):
        row = int(implausible[0])
        what = "carbon intensity" if unit == "g/kWh" else "price"
        raise BadPrices(
            f"{table.where(row)}: {value[row]:g} {unit} is not a plausible {what}", hint=plausible_range(unit)
        )


def _value_column(
    table: Table, layout: PriceFileLayout, export: Export | None, times: tuple[str, ...], *, of_prices: bool
) -> str:
    """Return the column of the values, prices or carbon intensities unless `of_prices` is False.

    Raises BadPrices unless exactly one can be meant.
    """
    if layout.value:
        return find_column(table, layout.value)
    numbers = [name for name in table.columns if name not in times and is_numeric(table, name)]
    intensities = [name for name in numbers if INTENSITY.search(name.lower()) and not _is_price_unit(name)]
    if not of_prices:
        intensities, meant = [], [name for name in numbers if not PART_OF_TIME.search(name)]
    elif export is not None:
        meant = [name for name in matching(table.columns, export.value) if name in numbers]
        if layout.unit and not any(read_unit(name).agrees_with(layout.unit) for name in meant):
            meant = _likely_prices(numbers, layout)
    elif intensities and not _is_of_prices(layout, table.path.name):
        meant = intensities
    else:
        meant = _likely_prices([name for name in numbers if name not in intensities], layout)
    if len(meant) == 1:
        return meant[0]
    if not numbers:
        raise BadPrices(
            f"{table.path}: no column of numbers among {listed(list(table.columns))}",
            hint="declare it, such as time=utc,value=price,unit=EUR/MWh",
        )
    what = "carbon intensity" if meant and meant == intensities else "price" if of_prices else "column of values"
    shown = listed([repr(name) for name in meant or numbers])
    message = f"holds more than one {what}: {shown}" if meant else f"no column is known to be a {what}: {shown}"
    of_carbon = what == "carbon intensity"
    option = f"--carbon '{table.path},value={meant[0]}'" if of_carbon else f"value={(meant or numbers)[0]}"
    raise BadPrices(f"{table.path}:1: {message}", hint=f"say which: {option}")


def _likely_prices(numbers: list[str], layout: PriceFileLayout) -> list[str]:
    """Return the columns that could be the price: by their names, by the declared currency, or as the only one left."""
    others = [name for name in numbers if not OTHER_QUANTITY.search(name)]
    named = [name for name in others if PRICE.search(name) or read_unit(name).currencies]
    if len(named) > 1 and (unit := layout.unit) is not None:
        written = {name: read_unit(name) for name in named}
        named = [name for name in named if written[name].currencies and written[name].agrees_with(unit)] or named
    return named or [name for name in others if not PART_OF_TIME.search(name)]


def _is_price_unit(column: str) -> bool:
    unit = read_unit(column)
    return unit.is_whole and not unit.mass


def _is_of_prices(layout: PriceFileLayout, file_name: str) -> bool:
    """Tell whether the declared unit or the file's name shows that the file holds prices."""
    try:
        return unit_of(layout, file_name)[0] != "g/kWh"
    except BadPrices:
        return False


def _start_times(table: Table, layout: PriceFileLayout, export: Export | None, times: TimeColumns) -> Int64:
    zone, month_first = layout.zone, export.month_first if export else None
    if zone is None:
        zone = export.zone if export else UTC if "(utc)" in times.names[0].lower() else None
    joined = _joined(table, times.names)
    if times.first_hour is None:
        start_s = parse_times(joined, zone, table.where, month_first=month_first)
    else:
        if zone is None:
            raise BadPrices(
                f"{table.path}: nothing says whose clock the hours in the column {times.names[1]!r} are of",
                hint="declare it, such as zone=Europe/Berlin or zone=UTC",
            )
        date, *counts = times.names
        day_s = parse_dates(table.columns[date], table.where, month_first=month_first)
        digits = {name: pc.replace_substring_regex(table.columns[name], r"^(\d+).*$", r"\1") for name in counts}
        number = [read_numbers(Table(table.path, digits, table.lines), name).astype(np.int64) for name in counts]
        of_day_s = (number[0] - (times.first_hour or 0)) * HOUR_S
        if len(number) > 1:
            of_day_s = of_day_s + (number[1] - 1) * QUARTER_S
        start_s = unix_of_clock(day_s + of_day_s, zone, table.where)
    not_later = np.flatnonzero(np.diff(start_s) <= 0)
    if len(not_later):
        row = int(not_later[0]) + 1
        before, after = joined[row - 1].as_py(), joined[row].as_py()
        message = "stands twice" if start_s[row] == start_s[row - 1] else f"comes after {before}"
        raise BadPrices(f"{table.where(row)}: the time {after} {message}", hint="times must rise from row to row")
    if len(start_s) == 1:
        raise BadPrices(
            f"{table.where(0)}: a single row does not show how long its value holds",
            hint="add a row, or declare start= and step= instead of a time column",
        )
    return start_s
