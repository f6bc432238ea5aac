"""The whole study on a small log."""

from collections.abc import Callable
from pathlib import Path

import pytest
from drawings import drawn_lines, drawn_marks
from finished import Finished, finish

from offpeak_studies.online_simulation.study import online_simulation


@pytest.fixture(scope="module")
def finished(make_kth: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Runs once for all tests."""
    parent = tmp_path_factory.mktemp("study")
    return finish(online_simulation, make_kth(parent), parent / "out")


def test_the_report_is_whole(finished: Finished) -> None:
    names = [table.name for table in finished.report.tables]
    assert names == ["logs", "claims", "policies", "periods", "knowledge", "readings", "servers"]
    assert all(len(row) == len(table.headers) for table in finished.report.tables for row in table.rows)
    notes = " ".join(finished.report.notes)
    assert "S = 200" in notes
    assert "seeds (3, 0) to (3, 0)" in notes
    assert "KTH-SP2 runs on the paper's 100 processors; its header has 90" in notes
    expected = {"policies", "slowdown", "utilization", "active", "violations", "periods"}
    assert {name.removesuffix(".svg") for name in finished.report.figures} == expected
    assert all(drawn_lines(text) or drawn_marks(text) for text in finished.report.figures.values())
