"""The report of a study: tables and figures as values, and how they are written into a folder.

The folder receives one Markdown page, a CSV file for each table and an SVG file for each figure. A figure has panels
that matplotlib draws. It is opaque white with dark text, so it is readable on a light and on a dark page. Text stays
text, and the same values give the same file. Each panel and each series has an id: `panel-1`, `panel-1-greedy`.
"""

import csv
import io
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from offpeak.files import replacing
from offpeak.report_tables import Range, Report, StudyTable, TableCell, cell_text
from offpeak.sim_backend.comparison.weeks import STUDENT_95

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    # matplotlib is loaded when a study draws, and not by those that import these names.
    Axes = Figure = Any

Result = TypeVar("Result")


def range_of(values: Sequence[float]) -> Range:
    """Return mean, lowest and highest of one value per replay."""
    return Range(sum(values) / len(values), min(values), max(values))


def confidence_of(values: Sequence[float]) -> Range:
    """Return the mean of one value per replay with its 95 % confidence interval, by Student's t; of one, itself."""
    mean, count = statistics.fmean(values), len(values)
    if count == 1:
        return Range(mean, mean, mean)
    student = STUDENT_95[min(count - 2, len(STUDENT_95) - 1)]
    half = student * statistics.stdev(values) / count**0.5
    return Range(mean, mean - half, mean + half)


def less_pct(of: Iterable[Result], than: Iterable[Result], figure: Callable[[Result], float]) -> Range:
    """Return by how much per cent a figure is lower than in another case: of replays with the same draws, in pairs."""
    pairs = zip(of, than, strict=False)
    return confidence_of([100 * (1 - figure(one) / figure(other)) for one, other in pairs])


def column_means(columns: Iterable[Sequence[float | None]]) -> list[float | None]:
    """Return the mean of each place of the replays' columns, None if a replay has no value there."""
    return [None if None in values else statistics.fmean(values) for values in zip(*columns, strict=True)]


PAGE = "study.md"


def write_report(report: Report, out: Path) -> None:
    """Write the page, the tables and the figures; each file is written as a whole or not at all."""
    texts = {PAGE: markdown(report)} | {f"{table.name}.csv": csv_text(table) for table in report.tables}
    for name, text in (texts | dict(report.figures)).items():
        with replacing(out / name) as file:
            file.write(text.encode())


def markdown(report: Report) -> str:
    """Return the report as a page of Markdown."""
    notes = "".join(f"- {note}\n" for note in report.notes)
    figures = "".join(f"![{name.removesuffix('.svg')}]({name})\n\n" for name in report.figures)
    return f"# {report.title}\n\n{notes}\n{figures}" + "\n".join(markdown_table(table) for table in report.tables)


def markdown_table(table: StudyTable) -> str:
    """Return a table with its title, note and name as Markdown."""
    lines = [table.headers, ("---",) * len(table.headers), *(tuple(map(cell_text, row)) for row in table.rows)]
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"## {table.title}\n\n{table.note}\n\n<!-- table {table.name} -->\n\n{rows}\n"


def csv_text(table: StudyTable) -> str:
    """Return a table as CSV; a figure with a range takes three columns: its mean, low and high."""
    ranged = [any(isinstance(row[at], Range) for row in table.rows) for at in range(len(table.headers))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for line in (table.headers, *table.rows):
        writer.writerow([part for cell, wide in zip(line, ranged, strict=True) for part in _parts(cell, wide=wide)])
    return text.getvalue()


def _parts(cell: TableCell, *, wide: bool) -> tuple[object, ...]:
    if isinstance(cell, Range):
        return f"{cell.mean:z.4f}", f"{cell.low:z.4f}", f"{cell.high:z.4f}"
    if not wide:
        return (cell,)
    return (cell, f"{cell} low", f"{cell} high") if isinstance(cell, str) else (cell, None, None)


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


def draw_figure(
    rows: int,
    columns: int,
    *,
    height_in: float,
    draw: Callable[[Figure, Sequence[Axes]], None],
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


def series_id(axes: Axes, name: str) -> str:
    """Return the id of a series in a panel."""
    plain = re.sub(r"[^\w-]+", "-", name).strip("-")
    return f"{axes.get_gid()}-{plain}"


def add_legend(figure: Figure, axes: Axes, columns: int, title: str | None = None) -> None:
    """Put the legend of a panel's series above all panels, with a line of text over it."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=columns, title=title, alignment="left")


def plot_ranges(axes: Axes, name: str, colour: str, rows: Sequence[float], ranges: Sequence[Range]) -> None:
    """Plot the range of each row as a line, with a dot at its mean."""
    axes.hlines(rows, [bar.low for bar in ranges], [bar.high for bar in ranges], colors=colour)
    plot_dots(axes, name, colour, [bar.mean for bar in ranges], rows)


def plot_dots(axes: Axes, name: str, colour: str, x: Sequence[float], y: Sequence[float], marker: str = "o") -> None:
    """Plot marks that no line connects."""
    axes.plot(x, y, marker, color=colour, label=name, clip_on=False, gid=series_id(axes, name))


def plot_line(
    axes: Axes, name: str, colour: str, x: Sequence[float], y: Sequence[float | None], marker: str = ""
) -> None:
    """Plot a line, with marks if there is a marker. The line has a gap where `y` is None."""
    known = [float("nan") if value is None else value for value in y]
    axes.plot(x, known, marker=marker, color=colour, label=name, clip_on=not marker, gid=series_id(axes, name))


def set_log_axis(axes: Axes, bottom: float | None = None) -> None:
    """Make the upright axis logarithmic, with ticks at powers of ten, and at 2 and 5 times these on a short axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.set_ylim(bottom=bottom)
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > LONG_AXIS * low else (1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Name the rows of a panel, the first one at the top, and draw grid lines for the values alone."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def dodge(rows: int, position: int, count: int) -> list[float]:
    """Return where the marks of one series of several lie in each row."""
    return [row + 0.7 * ((position + 0.5) / count - 0.5) for row in range(rows)]
