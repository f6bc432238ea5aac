"""Scales and lines of the figures."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.online_simulation.figures import Measure, Panel, dots_svg, lines_svg, top_of
from studies.report import Range
from studies.svg import tick_step

SVG = "{http://www.w3.org/2000/svg}"
WEEKS = st.lists(st.none() | st.floats(0, 1e5), min_size=1, max_size=30).map(tuple)


@given(st.floats(1e-6, 1e7))
def test_ticks_are_round_and_few(span: float) -> None:
    step = tick_step(span)
    assert 1.9 <= span / step <= 5 * (1 + 1e-9)
    assert f"{step:e}"[:8] in {"1.000000", "2.000000", "5.000000"}


@given(WEEKS, WEEKS, st.booleans())
def test_a_line_has_a_point_for_each_week(
    one: tuple[float | None, ...], other: tuple[float | None, ...], is_log: bool
) -> None:
    series = {"one": one, "other": other}
    panel = Panel("log <1>", series, top_of(series, is_log=is_log), is_log)
    root = ElementTree.fromstring(lines_svg({"one": "#000", "other": "#111"}, [panel, panel, panel]))
    paths = [path.attrib["d"] for path in root.iter(f"{SVG}path")]
    assert len(paths) == 6
    assert paths[0].count("M") + paths[0].count("L") == sum(week is not None for week in one)


@given(st.floats(0, 1e5), st.booleans())
def test_values_lie_in_the_plot(value: float, is_log: bool) -> None:
    series = {"one": (0.0, value)}
    panel = Panel("", series, top_of(series, is_log=is_log), is_log)
    assert 0 <= panel.height(value) <= 1
    assert all(0 <= panel.height(tick) <= 1 + 1e-9 for tick in panel.ticks())


def test_a_dot_for_each_row_series_and_measure() -> None:
    measures = [Measure(name, lambda row, series: Range(len(row), 1, len(series) + 5)) for name in ("a", "b")]
    root = ElementTree.fromstring(dots_svg(["x", "yy", "zzz"], {"one": "#000", "other": "#111"}, measures))
    keys = 2
    assert len(list(root.iter(f"{SVG}circle"))) == 3 * 2 * 2 + keys


def test_nothing_at_all_can_be_drawn() -> None:
    measures = [Measure("a", lambda *_: Range(0.0, 0.0, 0.0))]
    ElementTree.fromstring(dots_svg(["x"], {"one": "#000"}, measures))
    assert top_of({"one": (None,)}) == pytest.approx(1.0)
