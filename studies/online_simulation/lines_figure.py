"""Figures over time: a panel a log, a line a series, a point a week."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from studies.online_simulation.colours import WIDTH, keys, svg, tick_step, title
from studies.online_simulation.result import ByWeek

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
    return svg(HEAD + PANEL * -(-len(panels) // ACROSS), [keys(colours, 22), *placed])


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
