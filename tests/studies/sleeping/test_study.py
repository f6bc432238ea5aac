"""The whole study on a small log: resumed, in one process and in two."""

from collections.abc import Callable
from pathlib import Path

import pytest
from drawings import drawn_lines, drawn_marks
from finished import Finished, finish

from benchmarks.scaling import dask_servers
from offpeak.executor import DaskWorkers, LocalProcesses
from offpeak.ui.command import run
from offpeak_studies.harness import JOURNAL
from offpeak_studies.report import markdown
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


def test_two_processes_come_to_the_same_as_one(finished: Finished, tmp_path: Path) -> None:
    again = finish(sleeping, finished.logs, tmp_path, executor=LocalProcesses(2), replays=2)
    assert again.lines == finished.lines
    assert markdown(again.report) == markdown(finished.report)
    assert again.report.figures == finished.report.figures


def test_workers_of_dask_continue_to_the_same(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("".join(finished.lines[30:]))
    with dask_servers(workers=2) as servers, DaskWorkers(servers.on) as workers:
        again = finish(sleeping, finished.logs, tmp_path, executor=workers, replays=2)
    assert again.lines == finished.lines
    assert again.progress[0] == (len(finished.lines) - 30, len(finished.lines))
    assert markdown(again.report) == markdown(finished.report)


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
