"""Tables of text from CSV and JSON files, plain or gzipped, with the line of each row.

Commas separate the columns of a CSV file, or semicolons, tabs or bars. Numbers may have decimal commas and separators
of thousands. A second line of names, such as units, is added to the first. A JSON file is a list of records, or an
object with lists of equal length, or with one list of records; a record counts as a line.
"""

import csv
import io
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.files import read_bytes
from offpeak.model.arrays import Float64, Int64
from offpeak.prices.reports import report_as_table
from offpeak.prices.times import first_failing
from offpeak.text import counted, did_you_mean, listed, printable

SEPARATORS = (",", ";", "\t", "|")
LAYOUT_EXAMPLE = "time=utc,value=price,unit=EUR/MWh"
MISSING = ("", "-", "--", "n/e", "n/a", "N/A", "NA", "#N/A", "nan", "NaN", "null", "NULL", "None")
"""How exchanges write a value that there is not."""
_DECIMAL_COMMA = r"^[+-]?(?:\d+,(?:\d{1,2}|\d{4,})|0,\d{3}|\d{1,3}(?:[.]\d{3})+,\d+)$"
_DECIMAL_POINT = r"^[+-]?(?:\d+[.](?:\d{1,2}|\d{4,})|0[.]\d{3}|\d{1,3}(?:,\d{3})+[.]\d+)$"
"""Numbers that show what the decimals of their column follow: 40,25 and 1.040,25, or 40.25 and 1,040.25."""
_THREE_DIGITS = r"^[+-]?[1-9]\d{0,2}(?:%s\d{3})+$"
"""1.040 and 1,040 have decimals, or are more than a thousand."""
_NUMBER = r"^[+-]?(?:\d+|\d{1,3}(?:[.,]\d{3})+)(?:[.,]\d+)?$"
UNITS_OF_ALL = ("unit", "currency")
BOM = b"\xef\xbb\xbf"
MINUS = "\u2212".encode()


@dataclass(frozen=True)
class Table:
    """A file's columns as text, null where a value is missing; `lines` are those of the rows, counted from 1.

    The numbers of the `unclear` columns may be decimals or thousands.
    """

    path: Path
    columns: dict[str, pa.Array]
    lines: Int64
    unclear: frozenset[str] = frozenset()

    def where(self, row: int) -> str:
        """Return file:line of a row."""
        return f"{self.path}:{self.lines[row]}"

    def only(self, rows: NDArray[np.bool_]) -> "Table":
        """Return the table with these rows."""
        columns = {name: column.filter(pa.array(rows)) for name, column in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[rows])

    def turned(self) -> "Table":
        """Return the table with the last row first."""
        return replace(
            self, columns={name: column[::-1] for name, column in self.columns.items()}, lines=self.lines[::-1]
        )


def read_table(path: Path, *, with_empty_lines: bool) -> Table:
    """Return the plain or gzipped file's columns; an empty line is a row without a value, or no row at all.

    Raises BadPrices, with file and line, unless it is JSON, or CSV with one line of column names and rows of as many
    columns.
    """
    text = read_bytes(path, BadPrices).removeprefix(BOM).rstrip(b"\r\n").replace(MINUS, b"-")
    if text.lstrip()[:1] in (b"{", b"["):
        return _json_table(text, path)
    report = report_as_table(text.decode(errors="replace"), str(path))
    text = text if report is None else report.encode()
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
                f"{path}: {printable(str(problem))}",
                hint="columns separated by commas, semicolons, tabs or bars are expected",
            ) from None
        line = _lines(text, with_empty_lines=with_empty_lines)[wrong[0].number - 1]
        counts = f"{counted(wrong[0].actual_columns, 'column')}, the header has {wrong[0].expected_columns}"
        hint = "semicolons or tabs separate the columns, as in the header"
        if separator == ",":
            hint = "a comma separates columns, decimals follow a point"
        if len(names) == 1:
            hint = "prices are a CSV file, with a column of times and one of prices: utc,price"
        raise BadPrices(f"{path}:{line}: has {counts}", hint=hint) from None
    columns = {name: _trim(table[i]) for i, name in enumerate(names)}
    columns, unclear = _with_decimal_points(columns, separator)
    lines = _lines(text, with_empty_lines=with_empty_lines)[1 : 1 + table.num_rows]
    return _with_second_header(Table(path, columns, lines, unclear))


def _with_decimal_points(columns: dict[str, pa.Array], separator: str) -> tuple[dict[str, pa.Array], frozenset[str]]:
    """Return the columns with decimal points and without separators of thousands, and the names of the unclear ones."""
    plain, unclear = dict[str, pa.Array](), set[str]()
    spaces = "^([+-]?\\d{1,3})[ '\u00a0\u202f](\\d{3}(?:[.,]\\d+)?)$"
    columns = {name: pc.replace_substring_regex(column, spaces, r"\1\2") for name, column in columns.items()}
    marks = {
        name: (_any_matches(column, _DECIMAL_COMMA), _any_matches(column, _DECIMAL_POINT))
        for name, column in columns.items()
    }
    only_commas = any(comma for comma, _ in marks.values()) and not any(point for _, point in marks.values())
    for name, column in columns.items():
        comma, point = marks[name]
        if not comma and not point:
            commas, points = (_any_matches(column, _THREE_DIGITS % mark) for mark in (",", "[.]"))
            # In a column of whole numbers only the large ones have a separator. Decimal points need no semicolons.
            whole = _any_matches(column, r"^[+-]?\d{1,3}$")
            unclear_commas = commas and (points or whole or separator == ",")
            if unclear_commas or (points and not only_commas and (separator == ";" or (whole and separator != ","))):
                unclear.add(name)
            comma = commas or only_commas
        elif comma and point:
            unclear.add(name)
        thousands = "." if comma else ","
        if name not in unclear and (comma or point):
            number = pc.replace_substring(pc.replace_substring(column, thousands, ""), ",", ".")
            column = pc.if_else(pc.match_substring_regex(column, _NUMBER), number, column)
        plain[name] = column
    return plain, frozenset(unclear)


def _any_matches(column: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


def _with_second_header(table: Table) -> Table:
    """Return the table without a first row that only adds to the names of the columns, such as units."""
    first = {name: column[0].as_py() for name, column in table.columns.items()}
    written = [each for each in first.values() if each is not None]
    if first[next(iter(first))] is not None or not written or any(map(_is_number, written)):
        return table
    names = {name: f"{name} {first[name] or ''}".strip() for name in table.columns}
    columns = {names[name]: column[1:] for name, column in table.columns.items()}
    unclear = frozenset(names[name] for name in table.unclear)
    return replace(table, columns=columns, lines=table.lines[1:], unclear=unclear)


def _json_table(text: bytes, path: Path) -> Table:
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise BadPrices(f"{path}: is no JSON: {problem}", hint="prices are a CSV or a JSON file") from None
    columns = _columns_of_records(found) if isinstance(found, list) else _columns_of_lists(found)
    if not columns:
        hint = 'a list of records, such as [{"utc": ..., "price": ...}, ...], is expected'
        raise BadPrices(f"{path}: is JSON without a list of records", hint=hint)
    rows = len(next(iter(columns.values())))
    arrays = {
        name: _trim(pa.chunked_array([pa.array(map(_cell, cells), pa.string())])) for name, cells in columns.items()
    }
    return Table(path, arrays, np.arange(1, rows + 1))


def _columns_of_records(records: list[Any]) -> dict[str, list[Any]]:
    if not records or not all(isinstance(record, dict) for record in records):
        return {}
    return {
        name: [record.get(name) for record in records]
        for name in dict.fromkeys(name for record in records for name in record)
    }


def _columns_of_lists(found: dict[str, Any]) -> dict[str, list[Any]]:
    lists = {name: each for name, each in found.items() if isinstance(each, list) and each}
    if len(lists) == 1:
        records = _columns_of_records(next(iter(lists.values())))
        # The unit of all records may stand beside them.
        rows = len(next(iter(records.values()), []))
        units = {name: [found[name]] * rows for name in UNITS_OF_ALL if isinstance(found.get(name), str)}
        return units | records if not units.keys() & records.keys() else records
    if not lists or len(set(map(len, lists.values()))) > 1:
        return {}
    rows = len(next(iter(lists.values())))
    return lists | {name: [each] * rows for name, each in found.items() if isinstance(each, str)}


def _cell(value: object) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


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


def _lines(text: bytes, *, with_empty_lines: bool) -> Int64:
    """Return the numbers of the lines that are rows, the header first."""
    lines = text.split(b"\n")
    return np.array([i for i, line in enumerate(lines, 1) if with_empty_lines or line.rstrip(b"\r")], np.int64)


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
        raise BadPrices(f"{path}:1: is a job log in SWF, and holds no column names", hint="give a file of prices here")
    if not names or _is_number(names[0]) or (names[0] and any(map(_is_number, names))):
        raise BadPrices(f"{path}:1: holds no column names", hint="put a line such as `utc,price` on top")
    if len(set(names)) < len(names):
        raise BadPrices(f"{path}:1: names a column twice: {printable(line)}", hint="rename one of them")
    return names, separator


def _trim(column: pa.ChunkedArray) -> pa.Array:
    text = pc.utf8_trim_whitespace(column.combine_chunks())
    return pc.if_else(pc.is_in(text, pa.array(MISSING)), pa.scalar(None, pa.string()), text)


def find_column(table: Table, name: str) -> str:
    """Return the column of that name, or the only one whose name contains it, ignoring case and punctuation."""
    if name not in table.columns:
        similar = [column for column in table.columns if _letters(name) and _letters(name) in _letters(column)]
        if len(similar) == 1:
            return similar[0]
        raise BadPrices(f"{table.path}:1: has no column {name!r}", hint=did_you_mean(name, table.columns))
    return name


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def is_numeric(table: Table, name: str) -> bool:
    """Tell whether the first value of a column is a number."""
    return name in table.unclear or _is_number(next(iter(table.columns[name].drop_null()[:1].to_pylist()), ""))


def first_numeric(table: Table, *, besides: Collection[str | None]) -> str:
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


def read_numbers(table: Table, name: str) -> Float64:
    """Return the column's numbers, NaN for an empty cell."""
    column = table.columns[name]
    if name in table.unclear:
        examples = [text for text in pc.unique(column).to_pylist() if text and ("," in text or "." in text)]
        raise BadPrices(
            f"{table.path}: the column {name!r} may have decimals or thousands: {listed(examples[:3])}",
            hint="write the numbers with a decimal point and without separators of thousands",
        )
    value = _cast(column)
    if value is None:
        row = first_failing(len(column), lambda count: _cast(column[:count]) is None)
        raise BadPrices(
            f"{table.where(row)}: {name} is {column[row].as_py()!r}, which is not a number",
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
