"""Tables of Python as the files that offpeak reads: a DataFrame, an Arrow table, or any other Arrow stream.

A table of jobs has the columns of `sacct`, and becomes its text. A table of prices becomes a CSV file. So every check
of a file holds for tables, too. Times with a zone are instants, others are of the clock that the options name.
"""

import hashlib
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from offpeak.errors import BadInput
from offpeak.files import LongText

if TYPE_CHECKING:
    import pandas

DELIMITER = "\x1f"
INDEX = "__index_level_0__"
"""What pandas calls an index without a name."""
LIMIT_IN_MINUTES = "TimelimitRaw"


class ArrowTable(Protocol):
    """A table of any library that speaks Arrow's PyCapsule interface: pandas, Arrow, polars and others."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as a stream of Arrow."""


def is_table(value: object) -> bool:
    """Return whether the value is a table, or a series of one."""
    return hasattr(value, "__arrow_c_stream__")


def sacct_text(table: ArrowTable) -> LongText:
    """Return a table with the columns of sacct as the text of `sacct -P`."""
    columns = {name: _job_texts(name, column) for name, column in _columns(table).items()}
    header = DELIMITER.join(columns)
    lines = map(DELIMITER.join, zip(*(column.to_pylist() for column in columns.values()), strict=True))
    return LongText("\n".join([header, *lines, ""]).encode())


def series_file(table: ArrowTable, name: str) -> Path:
    """Return the file, kept until the process ends, that holds a table of prices or carbon intensities."""
    columns = {("time" if label == INDEX else label): column for label, column in _columns(table).items()}
    # A file begins with its times, and pandas puts an index last.
    columns = dict(sorted(columns.items(), key=lambda each: not pa.types.is_timestamp(each[1].type)))
    sink = pa.BufferOutputStream()
    csv.write_csv(pa.table({label: _texts(column) for label, column in columns.items()}), sink)
    content = bytes(sink.getvalue())
    folder = Path(_folder().name) / hashlib.sha256(content).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.csv"
    file.write_bytes(content)
    return file


def to_pandas(table: pa.Table) -> "pandas.DataFrame":
    """Return the table as a DataFrame; raise BadInput without pandas."""
    if find_spec("pandas") is None:
        raise BadInput("pandas is not installed", hint="pip install pandas")
    return table.to_pandas()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="offpeak-")


def _columns(table: ArrowTable) -> dict[str, pa.ChunkedArray]:
    to_frame = getattr(table, "to_frame", None)
    try:
        # The Arrow stream of a pandas series has neither its name nor its index.
        read = pa.table(to_frame() if to_frame is not None else table)
        if nested := [field.name for field in read.schema if pa.types.is_nested(field.type)]:
            raise ValueError(f"column {nested[0]} has lists or structures")
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise BadInput(f"a table that Arrow cannot read: {problem}", hint="give each column one type") from None
    return dict(zip(read.column_names, read.columns, strict=True))


def _job_texts(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_duration(column.type):
        seconds = column.cast(pa.duration("s")).cast(pa.int64())
        column = pc.divide(seconds, 60) if name == LIMIT_IN_MINUTES else seconds
    if pa.types.is_floating(column.type):
        # Integers with a missing value are floats in pandas.
        column = pc.if_else(pc.is_finite(column), column, None)
        column = column.cast(pa.int64()) if pc.all(pc.equal(pc.floor(column), column)).as_py() else column
    texts = pc.replace_substring_regex(_texts(column), r"[\x1f\r\n]", " ")
    return pc.fill_null(texts, "Unknown" if pa.types.is_timestamp(column.type) else "")


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column as text; nulls stay."""
    if pa.types.is_timestamp(column.type):
        form = "%Y-%m-%dT%H:%M:%S" + ("Z" if column.type.tz else "")
        return pc.strftime(column.cast(pa.timestamp("s", "UTC" if column.type.tz else None), safe=False), form)
    return column.cast(pa.string())
