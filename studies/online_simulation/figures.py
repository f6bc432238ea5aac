"""The study's figures, in the order of the paper's: 2, 3 with 5, 4, 6, 7 and 8, as dots of aggregates or lines by
week.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from studies.online_simulation.experiment import ByWeek, OnlineResult
from studies.online_simulation.plan import PERIODS, OnlineSubject, policies_of
from studies.online_simulation.tables import Figure, OnlineResults, inactive_pct, slowdown, utilization_pct
from studies.report import Range
from studies.svg import LOG_COLOURS, POLICY_COLOURS, WIDTH, legend_row, svg, tick_step, title

DOTS_LEFT, DOTS_GAP, TOP, FOOT = 110, 40, 66, 30
DOT_ROW = 13


@dataclass(frozen=True)
class Measure:
    """A panel: its title, and the figure of a row and a series."""

    title: str
    figure: Callable[[str, str], Range]


def dots_svg(rows: Sequence[str], colours: dict[str, str], measures: Sequence[Measure]) -> str:
    """Return the figure of all rows and series."""
    height = DOT_ROW * (len(colours) + 1)
    bottom = TOP + height * len(rows)
    width = (WIDTH - DOTS_LEFT) / len(measures) - DOTS_GAP
    names = [f'<text x="10" y="{TOP + height * (at + 0.5) + 4}">{escape(row)}</text>' for at, row in enumerate(rows)]
    panels = [
        _dots_panel(measure, rows, colours, (DOTS_LEFT + number * (width + DOTS_GAP), width, bottom))
        for number, measure in enumerate(measures)
    ]
    return svg(bottom + FOOT, [legend_row(colours, 22), *names, *panels])


def _dots_panel(
    measure: Measure, rows: Sequence[str], colours: dict[str, str], place: tuple[float, float, float]
) -> str:
    left, width, bottom = place
    found = [[measure.figure(row, name) for name in colours] for row in rows]
    most = max(max(each.high for of_row in found for each in of_row), 1e-9)

    def x(value: float) -> float:
        return round(left + width * value / most, 1)

    marks = "".join(
        _mark(x, each, TOP + DOT_ROW * ((len(colours) + 1) * row + at + 1), colour)
        for row, of_row in enumerate(found)
        for at, (each, colour) in enumerate(zip(of_row, colours.values(), strict=True))
    )
    return title(measure.title, left, TOP - 14) + _dots_grid(x, most, bottom) + marks


def _mark(x: Callable[[float], float], each: Range, y: float, colour: str) -> str:
    return (
        f'<line x1="{x(each.low)}" x2="{x(each.high)}" y1="{y}" y2="{y}" stroke="{colour}"/>'
        f'<circle cx="{x(each.mean)}" cy="{y}" r="4" fill="{colour}"/>'
    )


def _dots_grid(x: Callable[[float], float], most: float, bottom: float) -> str:
    step = tick_step(most)
    return "".join(
        f'<line x1="{x(step * at)}" x2="{x(step * at)}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>'
        f'<text x="{x(step * at)}" y="{bottom + 18}" text-anchor="middle">{step * at:g}</text>'
        for at in range(int(most / step + 1e-9) + 1)
    )


ACROSS, LEFT, GAP = 2, 50, 20
HEAD, PANEL, PLOT = 40, 210, 150
WEEKS_A_TICK = 20


@dataclass(frozen=True)
class Panel:
    """A log's series by name, drawn up to `most`; logarithmic from 1 where `is_log`."""

    title: str
    series: Mapping[str, ByWeek]
    most: float
    is_log: bool = False

    @property
    def weeks(self) -> int:
        """The weeks of the longest series."""
        return max(len(values) for values in self.series.values())

    def height(self, value: float) -> float:
        """Return how high a value lies in the plot, from 0 to 1."""
        if self.is_log:
            return math.log10(max(value, 1.0)) / math.log10(self.most)
        return value / self.most

    def ticks(self) -> list[float]:
        """Return the values of the grid lines."""
        if self.is_log:
            return [10.0**power for power in range(int(math.log10(self.most) + 1e-9) + 1)]
        step = tick_step(self.most)
        return [step * at for at in range(int(self.most / step + 1e-9) + 1)]


def top_of(series: Mapping[str, ByWeek], *, is_log: bool = False) -> float:
    """Return the end of the axis: the highest value, at least 10 of a logarithmic axis."""
    highest = max((value for values in series.values() for value in values if value is not None), default=1.0)
    return max(highest, 10.0) if is_log else max(highest, 1e-9)


def lines_svg(colours: dict[str, str], panels: Sequence[Panel]) -> str:
    """Return the figure of all panels, two side by side."""
    width = (WIDTH - ACROSS * (LEFT + GAP)) / ACROSS
    placed = [
        f'<g transform="translate({LEFT + at % ACROSS * (width + LEFT + GAP)} {HEAD + at // ACROSS * PANEL})">'
        f"{_panel(panel, colours, width)}</g>"
        for at, panel in enumerate(panels)
    ]
    return svg(HEAD + PANEL * -(-len(panels) // ACROSS), [legend_row(colours, 22), *placed])


def _panel(panel: Panel, colours: dict[str, str], width: float) -> str:
    lines = "".join(
        f'<path d="{_path(panel, values, width)}" fill="none" stroke="{colours[name]}" stroke-width="1.3"/>'
        for name, values in panel.series.items()
    )
    return f'<g transform="translate(0 22)">{title(panel.title, 0, -8)}{_grid(panel, width)}{lines}</g>'


def _grid(panel: Panel, width: float) -> str:
    across = "".join(
        f'<line x1="0" x2="{width}" y1="{_y(panel, tick)}" y2="{_y(panel, tick)}" stroke="#ddd"/>'
        f'<text x="-6" y="{_y(panel, tick) + 4}" text-anchor="end">{tick:g}</text>'
        for tick in panel.ticks()
    )
    weeks = "".join(
        f'<text x="{_x(panel, week, width)}" y="{PLOT + 18}" text-anchor="middle">{week}</text>'
        for week in range(0, panel.weeks + 1, WEEKS_A_TICK)
    )
    return across + weeks


def _path(panel: Panel, values: ByWeek, width: float) -> str:
    return " ".join(_points(panel, values, width))


def _points(panel: Panel, values: ByWeek, width: float) -> Iterator[str]:
    """Yield the line's points; it is broken where a week has no value."""
    pen = "M"
    for week, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        yield f"{pen}{_x(panel, week + 0.5, width)} {_y(panel, value)}"
        pen = "L"


def _x(panel: Panel, week: float, width: float) -> float:
    return round(width * week / panel.weeks, 1)


def _y(panel: Panel, value: float) -> float:
    return round(PLOT * (1 - panel.height(value)), 1)


FIGURE_MEASURES = {"slowdown": slowdown, "utilization [%]": utilization_pct, "inactive [%]": inactive_pct}


def figures(answers: OnlineResults, subjects: Sequence[OnlineSubject]) -> Mapping[str, str]:
    """Return all figures by file name."""
    return {
        "policies.svg": _policies(answers, subjects),
        "slowdown.svg": _weekly(answers, subjects, lambda result: result.weekly.slowdown, is_log=True),
        "utilization.svg": _weekly(answers, subjects, lambda result: result.weekly.utilization),
        "active.svg": _active(answers, subjects),
        "violations.svg": _weekly(answers, subjects, lambda result: result.weekly.violations),
        "periods.svg": _periods(answers, subjects),
    }


def _policies(answers: OnlineResults, subjects: Sequence[OnlineSubject]) -> str:
    found = {subject.name: (subject, policies_of(subject)) for subject in subjects}

    def of(figure: Figure) -> Callable[[str, str], Range]:
        return lambda log, policy: answers.of(found[log][0], found[log][1][policy], figure)

    return dots_svg(
        list(found), POLICY_COLOURS, [Measure(name, of(figure)) for name, figure in FIGURE_MEASURES.items()]
    )


def _periods(answers: OnlineResults, subjects: Sequence[OnlineSubject]) -> str:
    found = {subject.name: subject for subject in subjects}

    def of(figure: Figure) -> Callable[[str, str], Range]:
        return lambda period, log: answers.of(found[log], found[log].setup(f"ols:{period}"), figure)

    colours = log_colours(list(found))
    return dots_svg(PERIODS, colours, [Measure(name, of(figure)) for name, figure in FIGURE_MEASURES.items()])


def log_colours(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for each log; with many logs they come round again."""
    return {name: LOG_COLOURS[at % len(LOG_COLOURS)] for at, name in enumerate(names)}


def _weekly(
    answers: OnlineResults,
    subjects: Sequence[OnlineSubject],
    by_week: Callable[[OnlineResult], ByWeek],
    *,
    is_log: bool = False,
) -> str:
    panels = []
    for subject in subjects:
        series = {name: answers.weekly(subject, setup, by_week) for name, setup in policies_of(subject).items()}
        panels.append(Panel(subject.name, series, top_of(series, is_log=is_log), is_log))
    return lines_svg(POLICY_COLOURS, panels)


def _active(answers: OnlineResults, subjects: Sequence[OnlineSubject]) -> str:
    """Return the figure of active processors, whose axis ends at all of them."""
    panels = []
    for subject in subjects:
        setups = policies_of(subject)
        series = {
            name: answers.weekly(subject, setups[name], lambda result: result.weekly.active)
            for name in ("two-level", "OLS")
        }
        panels.append(Panel(subject.name, series, float(subject.size)))
    return lines_svg({name: POLICY_COLOURS[name] for name in ("two-level", "OLS")}, panels)
