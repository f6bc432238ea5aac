"""A CSV file as columns of text, with the line number of each row: the raw side of price files.

Commas separate the columns, or semicolons or tabs where the header has no comma. Then numbers may have decimal commas.
"""

import csv
import io
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from offpeak.errors import BadPrices
from offpeak.files import read_bytes
from offpeak.jobs import Float64
from offpeak.plural import counted
from offpeak.prices.times import first_failing
from offpeak.suggest import did_you_mean

SEPARATORS = (",", ";", "\t")
DECIMAL_COMMA = r"^([+-]?[0-9]+),([0-9]+)$"
EXAMPLE = "time=utc,value=price,unit=EUR/MWh"


@dataclass(frozen=True)
class Table:
    """A file's columns as text, null where nothing or "NA" stands, and the text itself to find a row's line."""

    path: Path
    columns: dict[str, pa.Array]
    text: bytes
    with_empty_lines: bool

    def where(self, row: int) -> str:
        """Return file:line of a row."""
        return f"{self.path}:{_line_number(self.text, row + 1, with_empty_lines=self.with_empty_lines)}"


def read_table(path: Path, *, with_empty_lines: bool) -> Table:
    """Return the plain or gzipped file's columns; an empty line is a row without a value, or no row at all.

    BadPrices, with file and line, for what is no CSV with one line of column names and rows of as many columns.
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
        raise BadPrices(f"{path}:{line}: has {counts}", hint=hint) from None
    columns = {name: _trimmed(table[i]) for i, name in enumerate(names)}
    if separator != ",":
        columns = {name: pc.replace_substring_regex(each, DECIMAL_COMMA, r"\1.\2") for name, each in columns.items()}
    return Table(path, columns, text, with_empty_lines)


def _parse_options(wrong: list[pacsv.InvalidRow], separator: str, *, with_empty_lines: bool) -> pacsv.ParseOptions:
    """Return how to parse; the first row with a wrong number of columns is put into `wrong`."""

    def note(row: pacsv.InvalidRow) -> str:
        wrong.append(row)
        return "error"

    return pacsv.ParseOptions(delimiter=separator, ignore_empty_lines=not with_empty_lines, invalid_row_handler=note)


def _text_columns(text: bytes, count: int, parse: pacsv.ParseOptions) -> pa.Table:
    # By number, so that Arrow takes the header's names for nothing; one thread, so that it counts the rows.
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
    """Return the names of the columns, and what separates them."""
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
    # A table whose first column has no name, as an index often has none, has semicolons within its rows.
    if line.startswith(";") and (second.startswith(";") or ";" not in second.partition("\n")[0]):
        raise BadPrices(f"{path}:1: is a job log in SWF, and holds no column names", hint="a price file is wanted")
    if not names or any(_is_number(name) for name in names):
        raise BadPrices(f"{path}:1: holds no column names", hint="put a line such as `utc,price` on top")
    if len(set(names)) < len(names):
        raise BadPrices(f"{path}:1: names a column twice: {line.strip()}", hint="rename one of them")
    return names, separator


def _trimmed(column: pa.ChunkedArray) -> pa.Array:
    text = pc.utf8_trim_whitespace(column.combine_chunks())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def named(table: Table, name: str) -> str:
    """Return the column of that name, or the only one whose name holds it, whatever the case and punctuation."""
    if name not in table.columns:
        similar = [each for each in table.columns if _letters(name) and _letters(name) in _letters(each)]
        if len(similar) == 1:
            return similar[0]
        raise BadPrices(f"{table.path}:1: has no column {name!r}", hint=did_you_mean(name, table.columns))
    return name


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def is_numeric(table: Table, name: str) -> bool:
    """Say whether the first value of a column is a number."""
    return _is_number(next(iter(table.columns[name].drop_null()[:1].to_pylist()), ""))


def first_numeric(table: Table, *, besides: Collection[str | None]) -> str:
    """Return the first column whose first value is a number, besides those columns."""
    for name in table.columns:
        if name not in besides and is_numeric(table, name):
            return name
    raise BadPrices(
        f"{table.path}: no column of numbers among {', '.join(table.columns)}", hint=f"declare it, such as {EXAMPLE}"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def numbers(table: Table, name: str) -> Float64:
    """Return the column's numbers, NaN where nothing stands."""
    column = table.columns[name]
    value = _cast(column)
    if value is None:
        row = first_failing(len(column), lambda count: _cast(column[:count]) is None)
        raise BadPrices(
            f"{table.where(row)}: {name} is {column[row].as_py()!r}, which is no number",
            hint="numbers with a decimal point are expected, and nothing where the value is not known",
        )
    if np.isnan(value).all():
        raise BadPrices(f"{table.path}: the column {name!r} holds no number", hint=f"declare another, as in {EXAMPLE}")
    return value


def _cast(column: pa.Array) -> Float64 | None:
    try:
        value: Float64 = column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    except pa.ArrowInvalid:
        return None
    return None if np.isinf(value).any() else value
