"""Labels beside a figure keep their order and their distance, and their places where these leave them any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.ui.report.trade_figure import label_heights, label_margin_px, labels

POINTS = st.lists(st.floats(0, 100), min_size=1, max_size=30).map(np.array)


@given(POINTS, st.floats(0.1, 20))
def test_labels_are_apart_in_order_and_inside(y: np.ndarray, gap: float) -> None:
    heights = label_heights(y, low=0.0, high=100.0, gap=gap)
    order = np.argsort(y, kind="stable")
    apart = min(gap, 100 / max(len(y) - 1, 1))
    assert np.all(np.diff(heights[order]) >= apart - 1e-9)
    assert heights.min() >= -1e-9
    assert heights.max() <= 100 + 1e-9


@given(POINTS)
def test_without_a_gap_labels_stand_at_their_points(y: np.ndarray) -> None:
    assert label_heights(y, low=0.0, high=100.0, gap=0.0) == pytest.approx(y)


def test_a_crowd_is_spread_and_a_loner_stays() -> None:
    heights = label_heights(np.array([90.0, 91.0, 10.0]), low=0.0, high=100.0, gap=5.0)
    assert heights.tolist() == [90.0, 95.0, 10.0]


def test_names_are_only_text_and_have_their_room() -> None:
    (made,) = labels(["<b>x"], np.array([5.0]))
    assert (made["text"], made["y"]) == ("&lt;b&gt;x", 5.0)
    assert label_margin_px(["a" * 20]) > label_margin_px(["a"])
