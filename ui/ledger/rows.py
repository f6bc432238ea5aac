"""Rows of the ledger for other programs: JSON and CSV, units in the keys, times as numbers and as text."""

import csv
import io
import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from offpeak.ledger.energy_use import EnergyUse

Row = dict[str, object]

# Python's json uses its fast encoder only where it does not indent.
_FLAT = json.JSONEncoder(separators=(",\n    ", ": "))


def with_times(record: Mapping[str, Any], zone: tzinfo) -> Row:
    """Return a record in which every `..._unix_s` is followed by the same time as text."""
    row: Row = {}
    for key, value in record.items():
        row[key] = value
        if key.endswith("_unix_s"):
            row[key.removesuffix("_unix_s")] = None if value is None else iso(value, zone)
    return row


def used_row(groups: Sequence[str], used: EnergyUse) -> Row:
    """Return energy and cost of a group as a row."""
    values = {key: value for key, value in vars(used).items() if key != "of"}
    return dict(zip(groups, used.of, strict=True)) | values


def rows_json(rows: Sequence[Row]) -> str:
    """Return a list of objects, a field a line, as `json.dumps(rows, indent=2)` does in ten times the time."""
    return "[\n" + ",\n".join(map(_object_json, rows)) + "\n]\n" if rows else "[]\n"


def rows_csv(rows: Sequence[Row]) -> str:
    """Return a header and a line a row; nothing at all where there is no row. What is nested is JSON in its cell."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def iso(unix_s: float, zone: tzinfo) -> str:
    """Return a time with the zone's offset, to the second."""
    return datetime.fromtimestamp(unix_s, zone).isoformat(timespec="seconds")


def _object_json(row: Row) -> str:
    if not row or any(isinstance(value, list | tuple | dict) for value in row.values()):
        return textwrap.indent(json.dumps(row, indent=2), "  ")
    return f"  {{\n    {_FLAT.encode(row)[1:-1]}\n  }}"


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, list | dict) else value
