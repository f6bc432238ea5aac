"""Cells of the tables that `python -m benchmarks.paper_figures` stored, computed again."""

from datetime import UTC
from pathlib import Path

import numpy as np
from study_tables import stored

from benchmarks import paper_figures
from benchmarks.paper_figures import Sweep, by_week, sweep_row, two_priced
from sim_backend.grid.grid import DayAhead
from studies.logs import LogSource, read_log
from studies.online_simulation.plan import subjects_of


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


def test_two_prices_are_the_percentiles_of_all_hours_of_june() -> None:
    price = np.tile(np.arange(24.0), (2 + 28, 1))
    market = DayAhead(price, np.repeat(price[:, None], 4, axis=1), 1_401_580_800, "USD/MWh")  # midnight in UTC
    two = two_priced(market, UTC)
    off, on = np.percentile(np.arange(48.0) % 24, (10, 90))
    assert two.coming.shape == market.coming.shape
    assert (two.price[:, :12] == off).all()
    assert (two.coming[..., 12:] == on).all()
