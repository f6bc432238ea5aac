"""Figures as SVG texts: the same values give the same text, and each value has its mark."""

from collections.abc import Sequence
from typing import Any

from drawings import drawn_lines, drawn_marks

from offpeak.report_tables import Range
from offpeak_studies.online_simulation.study import FIGURE_MEASURES, ranges_svg, weeks_svg
from offpeak_studies.report import draw_figure, plot_line


def small_figure(*, values: Sequence[float | None] = (1.0, None, 3.0, 4.0)) -> str:
    def draw(_: Any, panels: Sequence[Any]) -> None:
        plot_line(panels[0], "a line", "#1f62a8", range(len(values)), values, "o")
        panels[0].set_title("a log <1> & text")

    return draw_figure(1, 1, height_in=2.0, draw=draw)


def test_a_figure_of_the_same_values_is_the_same_text() -> None:
    assert small_figure() == small_figure()
    assert small_figure() != small_figure(values=(1.0, 2.0))
    assert "date" not in small_figure().lower()
    assert "a log &lt;1&gt; &amp; text</text>" in small_figure()
    assert drawn_marks(small_figure()) == {"panel-1-a-line": 3}


def test_a_line_for_each_log_and_policy() -> None:
    for is_log in [False, True]:
        series = {"two-level": (1.0, None, 2e5), "OLS": (None,)}
        drawn = weeks_svg(dict.fromkeys(("a", "b", "c"), series), is_log=is_log)
        assert {f"panel-{panel}-two-level" for panel in (1, 2, 3)} <= drawn_lines(drawn)


def test_a_mark_for_each_row_series_and_measure() -> None:
    drawn = ranges_svg(["x", "y", "z"], {"one": "#111111", "two": "#222222"}, lambda *_: [Range(2.0, 1.0, 5.0)] * 3)
    assert drawn_marks(drawn) == {
        f"panel-{panel}-{name}": 3 for panel in range(1, len(FIGURE_MEASURES) + 1) for name in ("one", "two")
    }
    assert drawn_marks(ranges_svg(["x"], {"one": "#111111"}, lambda *_: [Range(0.0, 0.0, 0.0)]))
    assert weeks_svg({"a": {"OLS": (None,)}})
