"""The whole study on a small log, and resumed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from drawings import drawn_marks
from finished import Finished, finish

from offpeak_studies.harness import JOURNAL
from offpeak_studies.price_capacity.run import EVERY_POLICY, FACTORS, SLAS
from offpeak_studies.price_capacity.study import price_capacity
from offpeak_studies.report import markdown


@pytest.fixture(scope="module")
def finished(make_log: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Runs once for all tests."""
    parent = tmp_path_factory.mktemp("study")
    return finish(price_capacity, make_log(parent), parent / "out")


def test_every_case_stands_in_the_tables_and_the_figure(finished: Finished) -> None:
    policies, factors = finished.report.tables
    assert len(policies.rows) == len(EVERY_POLICY)
    assert len(factors.rows) == 1 + len(FACTORS)
    assert len(finished.lines) == 1 + len(FACTORS)
    assert {len(row) for table in finished.report.tables for row in table.rows} == {
        len(policies.headers), len(factors.headers)
    }  # fmt: skip
    of = {row[1]: dict(zip(policies.headers, row, strict=True)) for row in policies.rows}
    assert of["always-on"]["per 100 h"] is None
    assert of["profile:1h:200"]["per 100 h"] > 0
    expected = {"small": len(SLAS), "small-ring": 1, "small-square": 1}
    assert drawn_marks(finished.report.figures["trade.svg"]) == {
        f"panel-{panel}-{name}": count for panel in (1, 2) for name, count in expected.items()
    }


def test_finished_experiment_is_not_run_again(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("".join(finished.lines[:-1]) + finished.lines[-1][:40])
    resumed = finish(price_capacity, finished.logs, tmp_path)
    assert resumed.lines == finished.lines
    assert markdown(resumed.report) == markdown(finished.report)
