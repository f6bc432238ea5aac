"""Price and carbon files: CSV, plain or gzipped, read into a `Series`, and written back."""

import gzip
import re
from datetime import UTC
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput, BadPrices
from offpeak.files import replacing
from offpeak.jobs import Float64, Int64
from offpeak.prices.layout import Layout, unit_of
from offpeak.prices.lengths import series_of_rows, usual_lengths
from offpeak.prices.series import Series
from offpeak.prices.table import Table, first_numeric, is_numeric, named, numbers, read_table
from offpeak.prices.times import times_of_text
from offpeak.units import highest_value, plausible_range

INTENSITY = re.compile(r"co2|co₂|carbon.intensity")
"""Columns of carbon intensity, such as those of Electricity Maps: direct, and of the whole life cycle."""


def read_series(path: Path, layout: Layout) -> Series:
    """Return the file's series; what `layout` leaves open is taken from the file.

    Time is the first column, value the first other column that holds numbers, the unit is in the file's name. A row
    without a value is a gap, and so is the rest of a row's time where the next row is further than usual. BadPrices,
    with file and line, for everything that cannot be read.
    """
    table = read_table(path, with_empty_lines=layout.start_s is not None)
    time = named(table, layout.time or next(iter(table.columns))) if layout.start_s is None else None
    column = _value_column(table, layout, time)
    unit, factor = unit_of(layout, path.name, column)
    value = numbers(table, column)
    if layout.start_s is None:
        assert time is not None
        start_s = _times(table, layout, time)
        length_s = usual_lengths(start_s)
    else:
        start_s = layout.start_s + layout.step_s * np.arange(len(value))
        length_s = np.full(len(value), layout.step_s)
    _check_plausible(table, value * factor, unit)
    return series_of_rows(start_s, length_s, value * factor, unit=unit, source=path.name)


def _check_plausible(table: Table, value: Float64, unit: str) -> None:
    """Raise BadPrices for the first value that nothing ever cost or emitted."""
    implausible = np.flatnonzero(np.abs(value) > highest_value(unit))
    if len(implausible):
        row = int(implausible[0])
        what = "carbon intensity" if unit == "g/kWh" else "price"
        raise BadPrices(f"{table.where(row)}: {value[row]:g} {unit} is no plausible {what}", hint=plausible_range(unit))


def _value_column(table: Table, layout: Layout, time: str | None) -> str:
    if layout.value:
        return named(table, layout.value)
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


def _is_of_prices(layout: Layout, file_name: str) -> bool:
    """Tell whether the unit that is declared, or the file's name, says that the file holds prices."""
    try:
        return unit_of(layout, file_name)[0] != "g/kWh"
    except BadPrices:
        return False


def _times(table: Table, layout: Layout, name: str) -> Int64:
    column = table.columns[name]
    zone = UTC if layout.zone is None and "(utc)" in name.lower() else layout.zone
    start_s = times_of_text(column, zone, table.where)
    not_later = np.flatnonzero(np.diff(start_s) <= 0)
    if len(not_later):
        row = int(not_later[0]) + 1
        before, after = column[row - 1].as_py(), column[row].as_py()
        said = "stands twice" if start_s[row] == start_s[row - 1] else f"comes after {before}"
        raise BadPrices(f"{table.where(row)}: the time {after} {said}", hint="times must rise from row to row")
    if len(start_s) == 1:
        raise BadPrices(
            f"{table.where(0)}: one row alone does not tell how long it holds",
            hint="add a row, or declare start= and step= instead of a time column",
        )
    return start_s


def write_series_csv(series: Series, path: Path) -> None:
    """Write `utc,price` (or `utc,carbon`) rows, nothing for an unknown value; gzipped if the name ends in .gz.

    The name must tell the unit (`..._eur_per_mwh.csv`), BadInput otherwise; CannotWrite if the file cannot be written.
    """
    suffix = "_" + series.unit.lower().replace("/", "_per_")
    if suffix not in path.name:
        raise BadInput(f"{path}: the name does not tell the unit {series.unit}", hint=f"name it ...{suffix}.csv")
    whole_minutes = not np.any(series.start_s % 60)
    times = np.datetime_as_string(series.start_s.astype("datetime64[s]"), unit="m" if whole_minutes else "s")
    values = (repr(value) if known else "" for value, known in zip(series.value.tolist(), series.known, strict=True))
    rows = "".join(f"{time}Z,{value}\n" for time, value in zip(times, values, strict=True))
    content = f"utc,{'carbon' if series.unit == 'g/kWh' else 'price'}\n{rows}".encode()
    with replacing(path) as file:
        # No time stamp inside: the same series makes the same file.
        file.write(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
