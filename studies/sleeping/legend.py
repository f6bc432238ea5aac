"""The looks of the rules in the study's figure, and its legend."""

from collections.abc import Mapping
from dataclasses import dataclass

from studies.online_simulation.colours import WIDTH
from studies.sleeping.experiment import AT_ONCE, BREAK_EVEN, FORECAST, LATE, OLS, POOL, TIMEOUT, TWO_LEVEL
from studies.sleeping.plot import Point, mark

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
