"""The figures of the studies: panels that matplotlib draws, as SVG texts.

A figure is opaque white with dark text, so it is readable on a light and on a dark page. Text stays text, and the same
values give the same file. Each panel and each series has an id in the SVG: `panel-1`, `panel-1-greedy`.
"""

import io
import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from offpeak.installation import missing_extra
from studies.report import Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 9.0
BLUE, ORANGE, GREEN, VIOLET = "#1f62a8", "#c4570b", "#3a7d2c", "#8a3fa0"
LIGHT_ORANGE, LIGHT_GREEN, GREY, DARK = "#e8b48a", "#6aa84f", "#777777", "#333333"
BAND = "#e4e4e4"
LONG_AXIS = 300.0
LOG_COLOURS = (BLUE, ORANGE, GREEN, VIOLET)

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "offpeak",
    "figure.facecolor": "white",
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.1,
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "xtick.color": "#dddddd",
    "ytick.color": "#dddddd",
    "axes.edgecolor": "#bbbbbb",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": "medium",
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "lines.linewidth": 1.4,
    "lines.markersize": 6.0,
}


def require_matplotlib() -> None:
    """Raise BadInput without matplotlib, before a study begins to compute."""
    if find_spec("matplotlib") is None:
        raise missing_extra("a study with figures", "figures", "matplotlib")


def draw_figure(
    rows: int,
    columns: int,
    *,
    height_in: float,
    draw: Callable[["Figure", Sequence["Axes"]], None],
    height_ratios: Sequence[float] | None = None,
    sharey: bool = False,
) -> str:
    """Return the SVG text of a figure whose panels `draw` fills; it gets them row by row."""
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.figure import Figure

    with rc_context():
        rcdefaults()
        rcParams.update(STYLE)
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, height_ratios=height_ratios, sharey=sharey)
        panels = [cast("Axes", axes) for axes in grid.ravel()]
        for number, axes in enumerate(panels, start=1):
            axes.set_gid(f"panel-{number}")
            axes.locator_params(nbins=6, steps=[1, 2, 5, 10])
        draw(figure, panels)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def series_id(axes: "Axes", name: str) -> str:
    """Return the id of a series in a panel."""
    plain = re.sub(r"[^\w-]+", "-", name).strip("-")
    return f"{axes.get_gid()}-{plain}"


def add_legend(figure: "Figure", axes: "Axes", columns: int, title: str | None = None) -> None:
    """Put the legend of a panel's series above all panels, with a line of text over it."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=columns, title=title, alignment="left")


def plot_ranges(axes: "Axes", name: str, colour: str, rows: Sequence[float], ranges: Sequence[Range]) -> None:
    """Plot the range of each row as a line, with a dot at its mean."""
    axes.hlines(rows, [bar.low for bar in ranges], [bar.high for bar in ranges], colors=colour)
    plot_dots(axes, name, colour, [bar.mean for bar in ranges], rows)


def plot_dots(axes: "Axes", name: str, colour: str, x: Sequence[float], y: Sequence[float], marker: str = "o") -> None:
    """Plot marks that no line connects."""
    axes.plot(x, y, marker, color=colour, label=name, clip_on=False, gid=series_id(axes, name))


def plot_line(
    axes: "Axes", name: str, colour: str, x: Sequence[float], y: Sequence[float | None], marker: str = ""
) -> None:
    """Plot a line, with marks if there is a marker. The line has a gap where `y` is None."""
    known = [float("nan") if value is None else value for value in y]
    axes.plot(x, known, marker=marker, color=colour, label=name, clip_on=not marker, gid=series_id(axes, name))


def set_log_axis(axes: "Axes", bottom: float | None = None) -> None:
    """Make the upright axis logarithmic, with ticks at powers of ten, and at 2 and 5 times these on a short axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.set_ylim(bottom=bottom)
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > LONG_AXIS * low else (1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def include_zero(axes: "Axes") -> None:
    """Let both axes include 0."""
    axes.set_xlim(min(axes.get_xlim()[0], 0.0), max(axes.get_xlim()[1], 0.0))
    axes.set_ylim(min(axes.get_ylim()[0], 0.0), max(axes.get_ylim()[1], 0.0))


def label_rows(axes: "Axes", labels: Sequence[str]) -> None:
    """Name the rows of a panel, the first one at the top, and draw grid lines for the values alone."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def dodge(rows: int, position: int, count: int) -> list[float]:
    """Return where the marks of one series of several lie in each row."""
    return [row + 0.7 * ((position + 0.5) / count - 0.5) for row in range(rows)]
