"""Tables of Python as the files that offpeak reads: a DataFrame, an Arrow table, or any other Arrow stream.

A table of jobs has the columns of `sacct`, and becomes its text. A table of prices becomes a CSV file. So every check
of a file holds for tables, too. Times with a zone are instants, others are of the clock that the options name.
"""

import hashlib
import tempfile
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from offpeak.errors import BadInput, CannotWrite
from offpeak.files import LongText
from offpeak.sim_backend.traces.slurm.fields import NEEDED, USED

if TYPE_CHECKING:
    import pandas

DELIMITER = "\x1f"
INDEX = "__index_level_"
"""So begins the name that pandas gives to an index without one."""
LIMIT_IN_MINUTES = "TimelimitRaw"


class ArrowTable(Protocol):
    """A table of any library that speaks Arrow's PyCapsule interface: pandas, Arrow, polars and others."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as a stream of Arrow."""


def is_table(value: object) -> bool:
    """Return whether the value is a table, or a series of one."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_frame")


def sacct_text(table: ArrowTable) -> LongText:
    """Return a table with the columns of sacct, in any case, as the text of `sacct -P`; other columns are left out."""
    known = {name.casefold(): name for name in USED}
    read = {known[name.casefold()]: column for name, column in _columns(table).items() if name.casefold() in known}
    if not read:
        raise BadInput("a table without a column of sacct", hint=f"it needs {', '.join(each[0] for each in NEEDED)}")
    columns = {name: _texts(name, _job_values(name, column)) for name, column in read.items()}
    header = DELIMITER.join(columns)
    lines = map(DELIMITER.join, zip(*(column.to_pylist() for column in columns.values()), strict=True))
    return LongText("\n".join([header, *lines, ""]).encode())


def series_file(table: ArrowTable, name: str) -> Path:
    """Return the file, kept until the process ends, that holds a table of prices or carbon intensities."""
    columns = _columns(table)
    sink = pa.BufferOutputStream()
    csv.write_csv(pa.table({label: _texts(label, column, null=None) for label, column in columns.items()}), sink)
    content = bytes(sink.getvalue())
    try:
        folder = Path(_folder().name) / hashlib.sha256(content).hexdigest()[:16]
        folder.mkdir(exist_ok=True)
        file = folder / f"{name}.csv"
        file.write_bytes(content)
    except OSError as problem:
        raise CannotWrite(f"a table of {name}: {problem}", hint="set $TMPDIR to a folder that can be written") from None
    return file


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="offpeak-")


def _columns(table: ArrowTable) -> dict[str, pa.ChunkedArray]:
    """Return the columns by name; an index of pandas comes first, and the number of a row is none."""
    to_frame = getattr(table, "to_frame", None)
    try:
        # The Arrow stream of a pandas series has neither its name nor its index.
        read = pa.table(to_frame() if to_frame is not None else table)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise BadInput(f"a table that Arrow cannot read: {problem}", hint="give each column one type") from None
    if doubled := [name for name, count in Counter(read.column_names).items() if count > 1]:
        raise BadInput(f"a table with two columns {doubled[0]!r}", hint="rename one of them")
    index = [name for name in (read.schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)]
    columns = {name: read.column(name) for name in (*index, *(each for each in read.column_names if each not in index))}
    for level in index:
        if level.startswith(INDEX) and pa.types.is_integer(columns[level].type):
            del columns[level]
    if f"{INDEX}0__" in columns and "time" not in columns:
        columns = {("time" if name == f"{INDEX}0__" else name): column for name, column in columns.items()}
    return columns


def to_pandas(table: pa.Table) -> "pandas.DataFrame":
    """Return the table as a DataFrame; raise BadInput without pandas."""
    if find_spec("pandas") is None:
        raise BadInput("pandas is not installed", hint="pip install pandas")
    return table.to_pandas()


def _job_values(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return durations as the numbers that sacct has, and integers that pandas shows as floats as integers."""
    try:
        if pa.types.is_duration(column.type):
            seconds = pc.divide(column.cast(pa.duration("us")).cast(pa.int64()), 1e6)
            # Slurm rounds a limit up to minutes.
            column = pc.ceil(pc.divide(seconds, 60)) if name == LIMIT_IN_MINUTES else pc.floor(seconds)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
            whole = pc.all(pc.equal(pc.floor(column), column)).as_py()
            column = column.cast(pa.int64()) if whole is not False else column
    except pa.ArrowException as problem:
        raise BadInput(f"column {name}: {problem}", hint="give the values that sacct prints") from None
    return column


def _texts(name: str, column: pa.ChunkedArray, *, null: str | None = "") -> pa.ChunkedArray:
    """Return the column as text, nulls as `null`; a time of sacct that is not known is Unknown."""
    try:
        if pa.types.is_timestamp(column.type):
            form = "%Y-%m-%dT%H:%M:%S" + ("Z" if column.type.tz else "")
            whole = column.cast(pa.timestamp("s", "UTC" if column.type.tz else None), safe=False)
            texts, null = pc.strftime(whole, form), None if null is None else "Unknown"
        else:
            texts = column.cast(pa.string())
    except pa.ArrowException as problem:
        raise BadInput(f"column {name}: {problem}", hint="give it as text, numbers or times") from None
    if null is None:
        return texts
    return pc.fill_null(pc.replace_substring_regex(texts, r"[\x1f\r\n]", " "), null)
