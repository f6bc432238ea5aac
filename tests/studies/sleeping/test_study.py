"""The whole study on a small log."""

from collections.abc import Callable
from pathlib import Path

import pytest
from drawings import drawn_lines, drawn_marks
from finished import Finished, finish

from offpeak.ui.command import run
from offpeak_studies.sleeping.run import FAMILIES, POLICIES
from offpeak_studies.sleeping.study import STYLES, sleeping


@pytest.fixture(scope="module")
def finished(make_log: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Runs once for all tests."""
    parent = tmp_path_factory.mktemp("study")
    return finish(sleeping, make_log(parent), parent / "out", replays=2)


def test_every_rule_stands_in_tables_and_figure(finished: Finished) -> None:
    policies, equal = finished.report.tables
    assert [row[1] for row in policies.rows] == list(POLICIES)
    assert [row[2] for row in equal.rows][:-1] == list(FAMILIES)
    assert all(len(row) == len(table.headers) for table in finished.report.tables for row in table.rows)
    assert len(finished.lines) == 2 * len(POLICIES) - len(FAMILIES["ols:1h"])
    notes = " ".join(finished.report.notes)
    assert "small 16 nodes" in notes
    assert "seeds (3, 0) to (3, 1)" in notes
    figure = finished.report.figures["front.svg"]
    assert len(drawn_lines(figure)) == 2 * len(FAMILIES) + 1
    marks = drawn_marks(figure)
    assert len(marks) == 2 * len(STYLES)
    assert sum(marks.values()) == 2 * (len(POLICIES) - 1)


def test_the_command(finished: Finished, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = [
        "study",
        "sleeping",
        "--logs",
        str(finished.logs),
        "--out",
        str(out),
        "--replays",
        "1",
        "--processes",
        "1",
    ]
    assert run(arguments) == 0
    printed, errors = capfd.readouterr()
    assert errors == ""
    assert "At equal energy" in printed
    assert {path.name for path in out.iterdir()} == {
        "study.html", "study.md", "results.jsonl", "front.svg", "policies.csv", "equal-energy.csv"
    }  # fmt: skip
