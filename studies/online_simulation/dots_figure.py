"""Figures of aggregates: a row a case, a panel a measure, a dot a series with the range of its replays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from studies.online_simulation.colours import WIDTH, keys, svg, tick_step, title
from studies.report import Range

LEFT, GAP, TOP, FOOT = 110, 40, 66, 30
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
    width = (WIDTH - LEFT) / len(measures) - GAP
    names = [f'<text x="10" y="{TOP + height * (at + 0.5) + 4}">{escape(row)}</text>' for at, row in enumerate(rows)]
    panels = [
        _panel(measure, rows, colours, (LEFT + number * (width + GAP), width, bottom))
        for number, measure in enumerate(measures)
    ]
    return svg(bottom + FOOT, [keys(colours, 22), *names, *panels])


def _panel(measure: Measure, rows: Sequence[str], colours: dict[str, str], place: tuple[float, float, float]) -> str:
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
    return title(measure.title, left, TOP - 14) + _grid(x, most, bottom) + marks


def _mark(x: Callable[[float], float], each: Range, y: float, colour: str) -> str:
    return (
        f'<line x1="{x(each.low)}" x2="{x(each.high)}" y1="{y}" y2="{y}" stroke="{colour}"/>'
        f'<circle cx="{x(each.mean)}" cy="{y}" r="4" fill="{colour}"/>'
    )


def _grid(x: Callable[[float], float], most: float, bottom: float) -> str:
    step = tick_step(most)
    return "".join(
        f'<line x1="{x(step * at)}" x2="{x(step * at)}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>'
        f'<text x="{x(step * at)}" y="{bottom + 18}" text-anchor="middle">{step * at:g}</text>'
        for at in range(int(most / step + 1e-9) + 1)
    )
