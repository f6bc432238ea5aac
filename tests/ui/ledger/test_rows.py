"""Rows for other programs."""

import csv
import io
import json

import pytest

from offpeak.ui.records import RecordRow, rows_csv, rows_json

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{}],
        [{"a": 1, "b": None, "c": 'line\n \u00e4 ", ', "d": 0.1, "e": True}],
        [{"a": 1}, {"a": [1, {"b": []}], "c": {"d": "x\ny"}}, {}],
    ],
)
def test_rows_are_printed_as_json_does_with_indent(rows: list[RecordRow]) -> None:
    assert rows_json(rows) == json.dumps(rows, indent=2) + "\n"


def test_no_cell_of_a_csv_is_a_formula() -> None:
    texts = ["=cmd()", "+1", "-1", "@x", "\tx", "a=b", ""]
    rows: list[RecordRow] = [{"name": text, "watts": -1.5} for text in texts]
    read = list(csv.DictReader(io.StringIO(rows_csv(rows))))
    assert [row["name"] for row in read] == ["'=cmd()", "'+1", "'-1", "'@x", "'\tx", "a=b", ""]
    assert {row["watts"] for row in read} == {"-1.5"}
