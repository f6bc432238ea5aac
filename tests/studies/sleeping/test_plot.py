"""Axes and marks of the figure."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.sleeping.figure import SHAPES, Axis, Plane, mark


@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.booleans())
def test_values_lie_in_the_axis_in_their_order(one: float, other: float, is_log: bool) -> None:
    axis = Axis(0.5, 500.0, 200, is_log)
    assert 0 <= axis.at(min(one, other)) <= axis.at(max(one, other)) <= 200


@given(st.floats(0.1, 1e3), st.floats(6, 1e3), st.booleans())
def test_ticks_are_within_the_axis(low: float, times: float, is_log: bool) -> None:
    high = low * times
    ticks = Axis(low, high, 100, is_log).ticks()
    assert ticks == sorted(ticks)
    assert 2 <= len(ticks) <= 13
    assert all(low <= tick <= high for tick in ticks)


def test_more_is_further_up() -> None:
    plane = Plane(Axis(0, 10, 100), Axis(1, 100, 50, is_log=True))
    assert plane.place((5, 10)) == (50, 25)
    assert plane.place((20, 1000)) == (100, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_marks_are_whole(shape: str) -> None:
    ElementTree.fromstring(mark(shape, (3, 4), 'fill="#000"'))
