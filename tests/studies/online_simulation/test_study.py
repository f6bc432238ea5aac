"""The whole study on a small log, and resumed. That two processes say the same is tested with another study."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from drawings import drawn_lines, drawn_marks
from finished import Finished, finish

from offpeak.errors import BadInput
from studies.harness import JOURNAL
from studies.online_simulation.study import online_simulation
from studies.report import markdown

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def finished(make_kth: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Runs once for all tests."""
    parent = tmp_path_factory.mktemp("study")
    return finish(online_simulation, make_kth(parent), parent / "out")


def test_progress_counts_to_the_end(finished: Finished) -> None:
    total = len(finished.lines)
    assert finished.progress == tuple((done, total) for done in range(total + 1))


def test_finished_experiment_is_not_run_again(finished: Finished, tmp_path: Path) -> None:
    kept = len(finished.lines) - 3
    (tmp_path / JOURNAL).write_text("".join(finished.lines[:kept]) + finished.lines[kept][:40])
    resumed = finish(online_simulation, finished.logs, tmp_path)
    assert resumed.progress[0] == (kept, len(finished.lines))
    assert resumed.lines == finished.lines
    assert markdown(resumed.report) == markdown(finished.report)


def test_a_result_that_was_tampered_with_is_named(finished: Finished, tmp_path: Path) -> None:
    entry = json.loads(finished.lines[4])
    del entry["result"]["weekly"]
    (tmp_path / JOURNAL).write_text(json.dumps(entry) + "\n")
    with pytest.raises(BadInput, match=f"{JOURNAL}: the result of key {entry['key']}: is no result of a study"):
        finish(online_simulation, finished.logs, tmp_path)


def test_the_report_names_choices(finished: Finished) -> None:
    notes = " ".join(finished.report.notes)
    assert "S = 200" in notes
    assert "seeds (3, 0) to (3, 0)" in notes
    assert "KTH-SP2 runs on the paper's 100 processors; its header has 90" in notes


def test_the_tables_are_whole(finished: Finished) -> None:
    names = [table.name for table in finished.report.tables]
    assert names == ["logs", "claims", "policies", "periods", "knowledge", "readings", "servers"]
    assert all(len(row) == len(table.headers) for table in finished.report.tables for row in table.rows)


def test_the_figures_can_be_drawn(finished: Finished) -> None:
    expected = {"policies", "slowdown", "utilization", "active", "violations", "periods"}
    assert {name.removesuffix(".svg") for name in finished.report.figures} == expected
    assert all(drawn_lines(text) or drawn_marks(text) for text in finished.report.figures.values())
