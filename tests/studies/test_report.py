"""A report: cells for people, and its files."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import CannotWrite
from offpeak.report_tables import Range, Report, StudyTable, cell_text, folder_for
from offpeak_studies.report import confidence_of, csv_text, markdown_table, range_of, write_report


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_a_range_holds_its_mean_and_all_values(values: list[float]) -> None:
    found = range_of(values)
    assert found.low == min(values)
    assert found.high == max(values)
    assert found.low - 1e-6 <= found.mean <= found.high + 1e-6


def test_an_interval_of_confidence_is_students() -> None:
    found = confidence_of([1.0, 2.0, 3.0])
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, 2.0 - 2.4843, 2.0 + 2.4843), abs=1e-3)
    assert confidence_of([4.0]) == Range(4.0, 4.0, 4.0)
    many = confidence_of([0.0, 1.0] * 20)
    assert 0.3 < many.low < many.mean == 0.5


def test_cells() -> None:
    for cell, text in [
        (None, ""),
        ("greedy", "greedy"),
        (1.005, "1.00"),
        (-0.001, "0.00"),
        (Range(1.0, 0.5, 1.5), "1.00 (0.50 to 1.50)"),
        (Range(1.0, 1.0, 1.0), "1.00"),
    ]:
        assert cell_text(cell) == text


TABLE = StudyTable(
    "savings",
    "What is saved",
    "In per cent.",
    ("log", "greedy", "paper"),
    (("KTH, 1996", Range(1.0, 0.5, 1.5), 4.33), ("CTC", None, None)),
)


def test_markdown_and_csv() -> None:
    assert markdown_table(TABLE).splitlines() == [
        "## What is saved",
        "",
        "In per cent.",
        "",
        "<!-- table savings -->",
        "",
        "| log | greedy | paper |",
        "| --- | --- | --- |",
        "| KTH, 1996 | 1.00 (0.50 to 1.50) | 4.33 |",
        "| CTC |  |  |",
    ]
    assert list(csv.reader(csv_text(TABLE).splitlines())) == [
        ["log", "greedy", "greedy low", "greedy high", "paper"],
        ["KTH, 1996", "1.0000", "0.5000", "1.5000", "4.33"],
        ["CTC", "", "", "", ""],
    ]


def test_all_files_are_written(tmp_path: Path) -> None:
    out = folder_for(tmp_path / "new" / "folder")
    write_report(Report("A study", ("a note",), (TABLE,), {"ladder.svg": "<svg/>"}), out)
    assert {path.name for path in out.iterdir()} == {"study.md", "savings.csv", "ladder.svg"}
    assert (out / "study.md").read_text().startswith("# A study\n\n- a note\n\n![ladder](ladder.svg)\n")
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="file/out: cannot be made: Not a directory"):
        folder_for(tmp_path / "file" / "out")
