"""The study's figure: a row for each log, what each rule saves against the boot delay of a job and the cycles of a
node.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from studies.sleeping.run import (
    ALWAYS_ON,
    AT_ONCE,
    BREAK_EVEN,
    FAMILIES,
    FORECAST,
    LATE,
    OLS,
    POLICIES,
    POOL,
    SHARES_PCT,
    SINGLE,
    TIMEOUT,
    TWO_LEVEL,
)
from studies.sleeping.tables import Figure, SleepingResults, cycles, delay_s, saved_pct
from studies.svg import WIDTH, svg, tick_step, title

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high`, logarithmic where `is_log`, over so many pixels."""

    low: float
    high: float
    pixels: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return how many pixels a value lies from the low end; what is outside lies at the nearer end."""
        low, high, inside = (self._scaled(each) for each in (self.low, self.high, self._clipped(value)))
        return round(self.pixels * (inside - low) / (high - low), 1)

    def ticks(self) -> list[float]:
        """Return round values within the axis."""
        if self.is_log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            ticks = [times * 10.0**power for power in powers for times in (1, 2, 5)]
        else:
            step = tick_step(self.high - self.low)
            ticks = [step * at for at in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [tick for tick in ticks if self.low <= tick <= self.high]

    def _clipped(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


@dataclass(frozen=True)
class Plane:
    """Two axes, the second of them upwards."""

    x: Axis
    y: Axis

    def place(self, point: Point) -> Point:
        """Return where a point lies in the group."""
        return self.x.at(point[0]), round(self.y.pixels - self.y.at(point[1]), 1)

    def line(self, points: Sequence[Point], how: str) -> str:
        """Return a line through the points; `how` are SVG attributes."""
        places = " ".join("{},{}".format(*self.place(point)) for point in points)
        return f'<polyline points="{places}" fill="none" {how}/>'

    def grid(self) -> str:
        """Return the grid lines with their figures."""
        width, height = self.x.pixels, self.y.pixels
        upright = "".join(
            f'<line x1="{self.x.at(tick)}" x2="{self.x.at(tick)}" y1="0" y2="{height}" stroke="#ddd"/>'
            f'<text x="{self.x.at(tick)}" y="{height + 17}" text-anchor="middle">{tick:g}</text>'
            for tick in self.x.ticks()
        )
        across = "".join(
            f'<line x1="0" x2="{width}" y1="{height - self.y.at(tick)}" y2="{height - self.y.at(tick)}" stroke="#ddd"/>'
            f'<text x="-7" y="{height - self.y.at(tick) + 4}" text-anchor="end">{tick:g}</text>'
            for tick in self.y.ticks()
        )
        return upright + across


def _round(x: float, y: float) -> str:
    return f'<circle cx="{x}" cy="{y}" r="4"'


def _square(x: float, y: float) -> str:
    return f'<rect x="{x - 3.7:.1f}" y="{y - 3.7:.1f}" width="7.4" height="7.4"'


def _corners(*corners: Point) -> Callable[[float, float], str]:
    def shape(x: float, y: float) -> str:
        places = " ".join(f"{x + right:.1f},{y + down:.1f}" for right, down in corners)
        return f'<polygon points="{places}"'

    return shape


SHAPES: Mapping[str, Callable[[float, float], str]] = {
    "circle": _round,
    "square": _square,
    "large square": _corners((-6, -6), (6, -6), (6, 6), (-6, 6)),
    "triangle": _corners((0, -5), (4.6, 3.6), (-4.6, 3.6)),
    "point down": _corners((0, 5), (4.6, -3.6), (-4.6, -3.6)),
    "diamond": _corners((0, -5.4), (5.4, 0), (0, 5.4), (-5.4, 0)),
}


def mark(shape: str, place: Point, how: str) -> str:
    """Return a mark; `how` are SVG attributes."""
    return f"{SHAPES[shape](*place)} {how}/>"


ACROSS, LINE, TOP = 3, 22, 24
LEGEND_HEIGHT = 130
BOUND_LINE = 'stroke="#b3261e" stroke-width="1.6" stroke-dasharray="6 4"'
DARK = "#333333"


@dataclass(frozen=True)
class Style:
    """The look of a rule: its colour, its mark, hollow or not, and what the legend says of it."""

    said: str
    colour: str
    shape: str
    hollow: bool = False

    @property
    def line(self) -> str:
        """The SVG attributes of its line."""
        return f'stroke="{self.colour}" stroke-width="1.6"'

    def mark(self, place: Point) -> str:
        """Return its mark at a place."""
        how = f'fill="none" stroke="{self.colour}" stroke-width="1.6"' if self.hollow else f'fill="{self.colour}"'
        return mark(self.shape, place, how)


STYLES: Mapping[str, Style] = {
    TIMEOUT: Style("time-out, 5 min to 2 h", DARK, "circle"),
    POOL: Style("green pool, 1 to 20 %", "#3a7d2c", "square"),
    FORECAST: Style("forecast, 20 min to 3 h", "#1f62a8", "triangle"),
    LATE: Style("forecast-late, 20 min to 3 h", "#c4570b", "point down"),
    OLS: Style("ols:1h, SLA 5 to 200", "#8a3fa0", "diamond"),
}
SINGLE_STYLES: Mapping[str, Style] = {
    AT_ONCE: Style("energy-aware: at once", DARK, "circle", hollow=True),
    BREAK_EVEN: Style("break-even", DARK, "large square", hollow=True),
    TWO_LEVEL: Style("two-level, by the load", DARK, "diamond", hollow=True),
}
NOTES = (
    "further right and further down is better; the upright grey line is where rules are compared at equal energy",
    "ols and two-level hold jobs back: few cycles, but waits that are in the table only",
)


def legend() -> str:
    """Return the legend: each rule's mark and name, and the bound."""
    styles = [*STYLES.values(), *SINGLE_STYLES.values()]
    entries = [_entry(at, style.mark((12, -4)), style.said) for at, style in enumerate(styles)]
    line = f'<line x1="0" x2="24" y1="-4" y2="-4" {BOUND_LINE}/>'
    bound = _entry(len(styles), line, "least, future known, no job moved")
    notes = (f'<text x="20" y="{TOP + (3 + at) * LINE}">{note}</text>' for at, note in enumerate(NOTES))
    return "".join([*entries, bound, *notes])


def _entry(at: int, drawn: str, said: str) -> str:
    x, y = 20 + at % ACROSS * (WIDTH - 20) / ACROSS, TOP + at // ACROSS * LINE
    return f'<g transform="translate({x:.1f} {y})">{drawn}<text x="32" y="0">{said}</text></g>'


LEFT, BETWEEN, PANEL, PLOT, ROW = 45, 60, 375, 230, 315
LEAST_DELAY_S = 1.0


def front_svg(answers: SleepingResults, logs: Sequence[str]) -> str:
    """Return the figure."""
    rows = (
        f'<g transform="translate({LEFT} {LEGEND_HEIGHT + 30 + at * ROW})">{_row(answers, log)}</g>'
        for at, log in enumerate(logs)
    )
    return svg(LEGEND_HEIGHT + len(logs) * ROW, [legend(), *rows])


def _row(answers: SleepingResults, log: str) -> str:
    saved, delays, cycled = zip(
        *(_means(answers, log, policy) for policy in POLICIES if policy != ALWAYS_ON), strict=True
    )
    x = Axis(10 * math.floor(min(saved) / 10), 10 * math.ceil(max(saved) / 10 + 1e-9), PANEL)
    delay = Plane(x, Axis(max(LEAST_DELAY_S, min(delays)) / 1.2, max(10.0, *delays) * 1.2, PLOT, is_log=True))
    wear = Plane(x, Axis(0.0, max(0.1, *cycled) * 1.05, PLOT))
    return (
        _panel(answers, log, delay, delay_s, "mean boot delay of a job [s], logarithmic")
        + f'<g transform="translate({PANEL + BETWEEN} 0)">'
        + _panel(answers, log, wear, cycles, "power cycles a node and day")
        + f"{wear.line(_bound(answers, log, x), BOUND_LINE)}</g>"
    )


def _means(answers: SleepingResults, log: str, policy: str) -> tuple[float, ...]:
    return tuple(answers.of(log, policy, figure).mean for figure in (saved_pct, delay_s, cycles))


def _panel(answers: SleepingResults, log: str, plane: Plane, figure: Figure, name: str) -> str:
    parts = [title(f"{log}: {name}", 0, -10), plane.grid(), _compared(answers.equal_energy_pct(log), plane)]
    for family, policies in FAMILIES.items():
        points, style = [_point(answers, log, policy, figure) for policy in policies], STYLES[family]
        parts += [plane.line(points, style.line), *(style.mark(plane.place(point)) for point in points)]
    for policy in SINGLE:
        parts.append(SINGLE_STYLES[policy].mark(plane.place(_point(answers, log, policy, figure))))
    return "".join(parts)


def _point(answers: SleepingResults, log: str, policy: str, figure: Figure) -> Point:
    return answers.of(log, policy, saved_pct).mean, answers.of(log, policy, figure).mean


def _compared(pct: int, plane: Plane) -> str:
    """Return what the axis below is, and an upright line at the energy at which families are compared."""
    at, below = plane.x.at(pct), plane.y.pixels + 36
    return (
        f'<text x="{plane.x.pixels / 2}" y="{below}" text-anchor="middle">idle energy saved [%]</text>'
        f'<line x1="{at}" x2="{at}" y1="0" y2="{plane.y.pixels}" stroke="#999" stroke-width="1.2"/>'
    )


def _bound(answers: SleepingResults, log: str, x: Axis) -> list[Point]:
    shares = (pct for pct in SHARES_PCT if x.low <= pct <= x.high)
    found = ((float(pct), answers.bound(log, pct)) for pct in shares)
    return [(pct, least) for pct, least in found if least is not None]
