"""A report in its files."""

import csv
from pathlib import Path

import pytest

from offpeak.errors import CannotWrite
from studies.report import Range, Report, StudyTable, csv_text, folder_for, markdown_table, write_report

TABLE = StudyTable(
    "savings",
    "What is saved",
    "In per cent.",
    ("log", "greedy", "paper"),
    (("KTH, 1996", Range(1.0, 0.5, 1.5), 4.33), ("CTC", None, None)),
)


def test_markdown_has_title_note_and_a_line_a_row() -> None:
    assert markdown_table(TABLE).splitlines() == [
        "## What is saved",
        "",
        "In per cent.",
        "",
        "| log | greedy | paper |",
        "| --- | --- | --- |",
        "| KTH, 1996 | 1.00 (0.50 to 1.50) | 4.33 |",
        "| CTC |  |  |",
    ]


def test_a_range_takes_three_columns_of_the_csv() -> None:
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


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="file/out: cannot be made: Not a directory"):
        folder_for(tmp_path / "file" / "out")
