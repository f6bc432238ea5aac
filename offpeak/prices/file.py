"""Price and carbon files read into a `Series`.

Exports of exchanges are read as they come (exports.toml). Of any other file, time is the first column, and the value
is the column that its name or the declared unit shows to be the price: where more than one could be, none is taken.
"""

import re
from datetime import UTC, tzinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.step_series import Series, series_of_rows, usual_lengths
from offpeak.model.units import highest_value, plausible_range
from offpeak.prices.exports import Export, find_export, matching
from offpeak.prices.layout import PriceFileLayout, currency_in_column, unit_in_column, unit_of
from offpeak.prices.table import Table, find_column, is_numeric, read_numbers, read_table
from offpeak.prices.times import fall, parse_dates, parse_times, unix_of_clock
from offpeak.text import listed

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


def read_series(path: Path, layout: PriceFileLayout, *, unit: str = "") -> Series:
    """Return the file's series; what `layout` leaves open is taken from the file.

    The unit is in the file's name or the column's, unless the file can have this `unit` only. A row without a value is
    a gap, and so is the time after a row if the next row is later than usual. Raises BadPrices, with file and line, for
    unreadable input, and where columns or rows of more than one kind could be meant.
    """
    table = read_table(path, with_empty_lines=layout.start_s is not None)
    export = find_export(tuple(table.columns)) if layout.time is None and layout.start_s is None else None
    times = _time_columns(table, layout, export)
    table = _rows_of_one_place(table, layout, export, times)
    if times and fall(_joined(table, times), month_first=export.month_first if export else None):
        table = table.turned()
    column = _value_column(table, layout, export, times, of_prices=not unit)
    usual = _unit_in_rows(table) or (export.unit if export else "")
    unit, factor = (unit, 1.0) if unit else unit_of(layout, path.name, column, usual)
    value = read_numbers(table, column)
    if layout.start_s is None:
        start_s = _start_times(table, layout, export, times)
        length_s = usual_lengths(start_s)
        if export is not None and export.ends:
            start_s = start_s - length_s
    else:
        start_s = layout.start_s + layout.step_s * np.arange(len(value))
        length_s = np.full(len(value), layout.step_s)
    _check_plausible(table, value * factor, unit)
    source = f"{path.name}, column {column}" if column else path.name
    return series_of_rows(start_s, length_s, value * factor, unit=unit, source=source)


def _time_columns(table: Table, layout: PriceFileLayout, export: Export | None) -> tuple[str, ...]:
    if layout.start_s is not None:
        return ()
    if layout.time is not None:
        return (find_column(table, layout.time),)
    if export is None:
        return (next(iter(table.columns)),)
    patterns = (export.date, export.hour) if export.date else export.time
    return tuple(matching(table.columns, pattern)[0] for pattern in patterns)


def _joined(table: Table, names: tuple[str, ...]) -> pa.Array:
    """Return the columns as one, joined by spaces."""
    return pc.binary_join_element_wise(*(table.columns[name] for name in names), " ")


def _rows_of_one_place(table: Table, layout: PriceFileLayout, export: Export | None, times: tuple[str, ...]) -> Table:
    """Return the rows that the source's layout and the declared area leave; BadPrices if they are of several areas."""
    only = export.only if export else {}
    for pattern, wanted in only.items():
        for name in matching(table.columns, pattern):
            kept = pc.match_substring_regex(pc.fill_null(table.columns[name], ""), f"^(?:{wanted})$")
            table = table.only(kept.to_numpy(zero_copy_only=False))
    texts = [name for name in table.columns if name not in times and not is_numeric(table, name)]
    if layout.area is not None:
        found = [name for name in table.columns if name not in times and _has(table, name, layout.area)]
        if not found:
            names = {each for name in texts for each in pc.unique(table.columns[name]).to_pylist()[:20] if each}
            raise BadPrices(f"{table.path}: no row is of {layout.area!r}", hint=f"it has {listed(sorted(names))}")
        of_area = pc.fill_null(pc.equal(table.columns[found[0]], layout.area), False)
        return table.only(of_area.to_numpy(zero_copy_only=False))
    if export is not None:
        areas = matching(table.columns, export.area) if export.area else []
    else:
        areas = texts if times and 2 * len(pc.unique(table.columns[times[0]])) <= len(table.lines) else []
    for name in areas:
        found = [each for each in pc.unique(table.columns[name]).to_pylist() if each is not None]
        if 1 < len(found) <= len(table.lines) / 2:
            raise BadPrices(
                f"{table.path}: holds the rows of several places in the column {name!r}: {listed(found)}",
                hint=f"say which: area={found[0]}",
            )
    return table


def _has(table: Table, name: str, text: str) -> bool:
    return bool(pc.any(pc.equal(table.columns[name], text)).as_py())


def _unit_in_rows(table: Table) -> str:
    """Return the unit in a column of units where all rows have the same, "" else."""
    for name in matching(table.columns, "units?"):
        found = pc.unique(table.columns[name].drop_null()).to_pylist()
        if len(found) == 1 and found[0].count("/") == 1:
            money, per = (part.strip() for part in found[0].split("/"))
            return f"{money}/{per}"
    return ""


def _check_plausible(table: Table, value: Float64, unit: str) -> None:
    """Raise BadPrices for the first implausible value."""
    implausible = np.flatnonzero(np.abs(value) > highest_value(unit))
    if len(implausible):
        row = int(implausible[0])
        what = "carbon intensity" if unit == "g/kWh" else "price"
        raise BadPrices(f"{table.where(row)}: {value[row]:g} {unit} is no plausible {what}", hint=plausible_range(unit))


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
    named = [name for name in others if PRICE.search(name)]
    if len(named) > 1 and layout.unit is not None:
        in_currency = [name for name in named if currency_in_column(name) == layout.unit.partition("/")[0].upper()]
        named = in_currency or named
    return named or [name for name in others if not PART_OF_TIME.search(name)]


def _is_price_unit(column: str) -> bool:
    unit = unit_in_column(column)
    return unit is not None and unit[0] != "g/kWh"


def _is_of_prices(layout: PriceFileLayout, file_name: str) -> bool:
    """Tell whether the declared unit or the file's name shows that the file holds prices."""
    try:
        return unit_of(layout, file_name)[0] != "g/kWh"
    except BadPrices:
        return False


def _start_times(table: Table, layout: PriceFileLayout, export: Export | None, times: tuple[str, ...]) -> Int64:
    zone, month_first = layout.zone, None
    if zone is None:
        zone = export.zone if export else UTC if "(utc)" in times[0].lower() else None
    if export is not None:
        month_first = export.month_first
    if export is not None and export.date:
        start_s = _hours_of_days(table, times, zone or UTC, month_first)
    else:
        start_s = parse_times(_joined(table, times), zone, table.where, month_first=month_first)
    not_later = np.flatnonzero(np.diff(start_s) <= 0)
    if len(not_later):
        row, column = int(not_later[0]) + 1, _joined(table, times)
        before, after = column[row - 1].as_py(), column[row].as_py()
        message = "stands twice" if start_s[row] == start_s[row - 1] else f"comes after {before}"
        raise BadPrices(f"{table.where(row)}: the time {after} {message}", hint="times must rise from row to row")
    if len(start_s) == 1:
        raise BadPrices(
            f"{table.where(0)}: a single row does not show how long its value holds",
            hint="add a row, or declare start= and step= instead of a time column",
        )
    return start_s


def _hours_of_days(table: Table, times: tuple[str, ...], zone: tzinfo, month_first: bool | None) -> Int64:
    """Return the begins of hours that are given by their date and by the clock at their end."""
    dates, hours = (table.columns[name] for name in times)
    day_s = parse_dates(dates, table.where, month_first=month_first)
    number = read_numbers(
        Table(table.path, {times[1]: pc.replace_substring_regex(hours, r"^(\d+).*$", r"\1")}, table.lines), times[1]
    )
    return unix_of_clock(day_s + (number.astype(np.int64) - 1) * HOUR_S, zone, table.where)
