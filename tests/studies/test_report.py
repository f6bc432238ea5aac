"""Cells as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.report import Range, TableCell, cell_text, confidence_of, range_of


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_a_range_holds_its_mean_and_all_values(values: list[float]) -> None:
    found = range_of(values)
    assert found.low == min(values)
    assert found.high == max(values)
    assert found.low - 1e-6 <= found.mean <= found.high + 1e-6


def test_an_interval_of_confidence_is_students() -> None:
    found = confidence_of([1.0, 2.0, 3.0])
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, 2.0 - 2.4843, 2.0 + 2.4843), abs=1e-3)
    assert confidence_of([4.0]) == Range(4.0, 4.0, 4.0)
    many = confidence_of([0.0, 1.0] * 20)
    assert 0.3 < many.low < many.mean == 0.5


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, ""),
        ("greedy", "greedy"),
        (1.005, "1.00"),
        (-0.001, "0.00"),
        (Range(1.0, 0.5, 1.5), "1.00 (0.50 to 1.50)"),
        (Range(1.0, 1.0, 1.0), "1.00"),
    ],
)
def test_cells(cell: TableCell, text: str) -> None:
    assert cell_text(cell) == text
