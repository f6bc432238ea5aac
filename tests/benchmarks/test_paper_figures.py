"""Cells of the tables that `python -m benchmarks.paper_figures` stored, computed again."""

import csv
from pathlib import Path

from benchmarks import paper_figures
from benchmarks.paper_figures import FIGURES, Sweep, by_week, sweep_row
from studies.logs import LogSource, read_log
from studies.online_simulation.plan import subjects_of


def stored(name: str) -> list[list[str]]:
    with (FIGURES / f"{name}.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_a_point_of_the_sweeps() -> None:
    assert sweep_row(Sweep("rank", 5, 5)) in stored("federation/sweeps")


def test_the_arrivals_of_a_log(shared: Path) -> None:
    source = LogSource("KTH-SP2", shared / "data" / "traces" / "KTH-SP2.swf.gz")
    (subject,) = subjects_of([read_log(source)])
    arrivals, demand = by_week(subject)
    (row,) = (row for row in stored("online-simulation/weeks") if row[0] == "KTH-SP2")
    assert row[1] == f"{arrivals.min():,.0f} to {arrivals.max():,.0f}"
    assert row[5] == f"{demand.min():.2f} to {demand.max():.2f}"


def test_the_tables_are_whole() -> None:
    assert len(stored("federation/sweeps")) == 1 + len(paper_figures.SWEEPS)
    assert [row[0] for row in stored("online-simulation/weeks")[1:]] == list(paper_figures.LOGS)
