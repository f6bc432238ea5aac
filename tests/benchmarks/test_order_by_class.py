"""The benchmark behind the table of orders by node class, on the bundled sample."""

from datetime import date
from pathlib import Path

import pytest

from benchmarks import order_by_class
from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES


def test_what_an_order_saves_is_written_for_each_class_and_week(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(order_by_class, "trace_file", lambda _: SAMPLE_LOG)
    monkeypatch.setattr(order_by_class, "price_file", lambda: SAMPLE_PRICES)
    monkeypatch.setattr(order_by_class, "mondays", lambda *_: [date(2023, 4, 3)])
    monkeypatch.setattr(order_by_class, "CLASSES", ("dune", "server"))
    order_by_class.measure(tmp_path / "found.csv")
    found = order_by_class.recorded(tmp_path / "found.csv")
    assert [len(saved) for saved in found.values()] == [1] * 4
    assert all(-5 < saved[0] < 5 for saved in found.values())
