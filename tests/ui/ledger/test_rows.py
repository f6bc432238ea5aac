"""Rows for other programs."""

import json

import pytest

from ui.ledger.text import LedgerRow, rows_json


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{}],
        [{"a": 1, "b": None, "c": 'line\n \u00e4 ", ', "d": 0.1, "e": True}],
        [{"a": 1}, {"a": [1, {"b": []}], "c": {"d": "x\ny"}}, {}],
    ],
)
def test_rows_are_printed_as_json_does_with_indent(rows: list[LedgerRow]) -> None:
    assert rows_json(rows) == json.dumps(rows, indent=2) + "\n"
