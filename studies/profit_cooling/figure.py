"""The study's figure, after the paper's figures 1 to 4: how much profit each solver is behind a machine always full."""

from collections.abc import Sequence
from itertools import accumulate

from studies.energy_carbon.svg import WIDTH, keys, svg, text
from studies.profit_cooling.jobs import DAYS
from studies.profit_cooling.scenario import SCENARIOS
from studies.profit_cooling.tables import RULES, STRICT, Results, always_full, best

LEFT, RIGHT, HEAD, PANEL, GAP, FOOT = 90, 20, 40, 130, 44, 10
COLOURS = {
    "best search": "#c4570b",
    "default search": "#8e44ad",
    "best rule": "#1f62a8",
    "best strict rule": "#6aa84f",
}


def behind_svg(results: Results, searches: tuple[str, ...]) -> str:
    """Return the figure: a panel a scenario, a line a solver, thousands of EUR over days."""
    panels = [
        f'<g transform="translate(0 {HEAD + (PANEL + GAP) * at})">{_panel(results, scenario, searches)}</g>'
        for at, scenario in enumerate(SCENARIOS)
    ]
    height = HEAD + (PANEL + GAP) * len(SCENARIOS) + FOOT
    return svg(
        height, [text("Behind a machine that is always full, thousand EUR", 10, 22), keys(COLOURS, 330, 22), *panels]
    )


def _panel(results: Results, scenario: str, searches: tuple[str, ...]) -> str:
    solvers = (searches, ("default",), RULES, STRICT)
    chosen = [best(results, scenario, each) for each in solvers]
    lines = [_behind(results[scenario, solver].profit, always_full(scenario)) for solver in chosen]
    most = max(max(line) for line in lines)
    marks = "".join(_line(line, most, colour) for line, colour in zip(lines, COLOURS.values(), strict=True))
    names = f"{scenario}: {', '.join(chosen)}"
    return text(names, LEFT, 14) + _frame(most) + marks


def _behind(profit: Sequence[float], full: float) -> list[float]:
    """Return by how much the summed profit is behind at each day's end."""
    return [full / DAYS * (day + 1) - earned for day, earned in enumerate(accumulate(profit))]


def _frame(most: float) -> str:
    bottom = PANEL + 4
    lines = "".join(_level(value, _y(value, most)) for value in (0.0, most / 2, most))
    days = "".join(text(str(day), _x(day), bottom + 18, anchor="middle") for day in (1, 5, 10, 15, 20, DAYS))
    return lines + days + text("day", LEFT - 8, bottom + 18, anchor="end")


def _level(value: float, y: float) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
    return line + text(f"{value / 1000:,.0f}", LEFT - 8, y + 4, anchor="end")


def _line(values: list[float], most: float, colour: str) -> str:
    points = " ".join(f"{_x(day)},{_y(value, most)}" for day, value in enumerate(values, 1))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _x(day: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (day - 1) / (DAYS - 1), 1)


def _y(value: float, most: float) -> float:
    return round(24 + (PANEL - 24) * (1 - value / most), 1)
