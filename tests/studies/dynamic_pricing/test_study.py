"""The whole study on small logs, and resumed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from drawings import drawn_lines, drawn_marks
from finished import Finished, finish

from offpeak.errors import BadInput
from offpeak_studies.dynamic_pricing.study import dynamic_pricing
from offpeak_studies.harness import JOURNAL
from offpeak_studies.report import markdown


@pytest.fixture(scope="module")
def finished(make_logs: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Runs once for all tests."""
    parent = tmp_path_factory.mktemp("study")
    return finish(dynamic_pricing, make_logs(parent), parent / "out")


def test_progress_counts_to_the_end(finished: Finished) -> None:
    total = len(finished.lines)
    assert finished.progress == tuple((done, total) for done in range(total + 1))


def test_finished_experiment_is_not_run_again(finished: Finished, tmp_path: Path) -> None:
    kept = len(finished.lines) - 10
    (tmp_path / JOURNAL).write_text("".join(finished.lines[:kept]) + finished.lines[kept][:40])
    resumed = finish(dynamic_pricing, finished.logs, tmp_path)
    assert resumed.progress[0] == (kept, len(finished.lines))
    assert resumed.lines == finished.lines
    assert markdown(resumed.report) == markdown(finished.report)


def test_another_log_of_that_name_is_another_log(finished: Finished, folder: Path, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("".join(finished.lines))
    small = folder / "small.swf"
    small.write_text(small.read_text().rsplit("\n", 2)[0] + "\n")
    resumed = finish(dynamic_pricing, folder, tmp_path)
    assert resumed.progress[0] == (sum('"log": "SDSC-BLUE"' in line for line in finished.lines), len(finished.lines))


def test_a_result_that_was_tampered_with_is_named(finished: Finished, tmp_path: Path) -> None:
    entry = json.loads(finished.lines[4])
    del entry["result"]["perfect"]
    (tmp_path / JOURNAL).write_text(json.dumps(entry) + "\n")
    with pytest.raises(BadInput, match=f"{JOURNAL}: the result of key {entry['key']}: is no result of a study"):
        finish(dynamic_pricing, finished.logs, tmp_path)


def test_the_report_is_whole(finished: Finished) -> None:
    tables = finished.report.tables
    names = [table.name for table in tables]
    assert names == [
        *("paper", "frequency", "ladder1", "alone1", "month-ranges", "months", "mira", "letter", "implied", "logs")
    ]
    assert all(len(row) == len(table.headers) for table in tables for row in table.rows)
    notes = " ".join(finished.report.notes)
    assert "75 W idle" in notes
    assert "1 replay of each case" in notes
    assert "(3, 0)" in notes
    ladder = next(table for table in finished.report.tables if table.name == "ladder1")
    marks = drawn_marks(finished.report.figures["ladder.svg"])
    assert marks == {"panel-1-greedy": len(ladder.rows), "panel-1-knapsack": len(ladder.rows)}
    lines = {f"panel-{panel}-{name}" for panel in (1, 2) for name in ("EASY", "greedy", "knapsack")}
    assert drawn_lines(finished.report.figures["mira.svg"]) >= lines
