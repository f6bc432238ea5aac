"""Records as JSON and as CSV, and the line where there are none."""

import csv
import io
import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

import typer

from offpeak.display import iso_text, second_text
from offpeak.model.time_range import TimeRange

RecordRow = dict[str, object]

# Python's json uses its fast encoder only where it does not indent.
_FLAT = json.JSONEncoder(separators=(",\n    ", ": "))


def with_times(record: Mapping[str, Any], zone: tzinfo) -> RecordRow:
    """Return a record in which every `..._unix_s` is followed by the same time as text."""
    row: RecordRow = {}
    for key, value in record.items():
        row[key] = value
        if key.endswith("_unix_s"):
            row[key.removesuffix("_unix_s")] = None if value is None else iso_text(value, zone)
    return row


def rows_json(rows: Sequence[RecordRow]) -> str:
    """Return a list of objects, a field a line, as `json.dumps(rows, indent=2)` does in ten times the time."""
    return "[\n" + ",\n".join(map(_object_json, rows)) + "\n]\n" if rows else "[]\n"


def rows_csv(rows: Sequence[RecordRow]) -> str:
    """Return a header and a line per row, or nothing without rows.

    Nested values are JSON in their cell. An apostrophe keeps spreadsheets from running a text as a formula.
    """
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _csv_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _object_json(row: RecordRow) -> str:
    if not row or any(isinstance(value, list | tuple | dict) for value in row.values()):
        return textwrap.indent(json.dumps(row, indent=2), "  ")
    return f"  {{\n    {_FLAT.encode(row)[1:-1]}\n  }}"


FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that begins with one of these, and users write names and comments of jobs."""


def _csv_cell(value: object) -> object:
    if isinstance(value, list | dict):
        return json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value


def print_nothing(span: TimeRange, zone: tzinfo, latest_unix_s: float | None = None) -> None:
    """Print that there is no record of that time, and the time of the ledger's latest entry if it is outside."""
    text = f"nothing from {second_text(span.from_unix_s, zone)} to {second_text(span.until_unix_s, zone)}"
    if latest_unix_s is not None and not span.from_unix_s <= latest_unix_s < span.until_unix_s:
        latest = second_text(latest_unix_s, zone)
        text = f"{text}; the ledger's latest entry is of {latest}: --since {latest.partition(' ')[0]}"
    typer.echo(text)
