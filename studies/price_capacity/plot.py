"""The plane of the study's figure: hours to the right, per cent up, in pixels of an SVG group."""

from collections.abc import Sequence
from dataclasses import dataclass

from studies.online_simulation.colours import WIDTH, tick_step
from studies.report import Range

LEFT, RIGHT, PLOT = 60, 30, 250
GRID = 'stroke="#ddd"'


@dataclass(frozen=True)
class Plot:
    """From `least_h` to `most_h` and from `low` to `high` per cent; both hold 0."""

    least_h: float
    most_h: float
    low: float
    high: float

    @classmethod
    def around(cls, hours: Sequence[float], saved: Sequence[Range]) -> "Plot":
        """Return the plane that holds all of these."""
        least_h, most_h = min(0.0, *hours), max(1e-9, *hours)
        low, high = min(0.0, *(each.low for each in saved)), max(1e-9, *(each.high for each in saved))
        return cls(least_h, most_h + 0.04 * (most_h - least_h), low, high + 0.04 * (high - low))

    def x(self, hours: float) -> float:
        """Return where a wait lies."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (hours - self.least_h) / (self.most_h - self.least_h), 1)

    def y(self, pct: float) -> float:
        """Return where a saving lies."""
        return round(PLOT * (self.high - pct) / (self.high - self.low), 1)

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> str:
        """Return a line through hours and per cent."""
        places = " ".join(f"{self.x(hours)},{self.y(pct)}" for hours, pct in points)
        return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>'

    def range(self, hours: float, saved: Range, colour: str) -> str:
        """Return an upright line from the lowest to the highest."""
        x = self.x(hours)
        ends = f'y1="{self.y(saved.low)}" y2="{self.y(saved.high)}"'
        return f'<line x1="{x}" x2="{x}" {ends} stroke="{colour}" stroke-opacity="0.5"/>'

    def dot(self, hours: float, pct: float, colour: str, fill: str) -> str:
        """Return a dot, or a ring if it is filled with white."""
        ring = f'fill="{fill}" stroke="{colour}" stroke-width="1.5"'
        return f'<circle cx="{self.x(hours)}" cy="{self.y(pct)}" r="4.5" {ring}/>'

    def square(self, hours: float, pct: float, colour: str) -> str:
        """Return a square."""
        corner = f'x="{self.x(hours) - 4.5:.1f}" y="{self.y(pct) - 4.5:.1f}"'
        return f'<rect {corner} width="9" height="9" fill="{colour}"/>'

    def grid(self) -> str:
        """Return the grid lines with their figures, and what the waits are."""
        upright = "".join(self._hour(hour) for hour in ticks(self.least_h, self.most_h))
        across = "".join(self._share(pct) for pct in ticks(self.low, self.high))
        at = f'x="{WIDTH - RIGHT}" y="{PLOT + 34}" text-anchor="end"'
        return f"{upright}{across}<text {at}>mean wait longer by [h]</text>"

    def _hour(self, hour: float) -> str:
        x = self.x(hour)
        line = f'<line x1="{x}" x2="{x}" y1="0" y2="{PLOT}" {GRID}/>'
        return f'{line}<text x="{x}" y="{PLOT + 16}" text-anchor="middle">{hour:g}</text>'

    def _share(self, pct: float) -> str:
        y = self.y(pct)
        line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" {GRID}/>'
        return f'{line}<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{pct:g}</text>'


def ticks(low: float, high: float) -> list[float]:
    """Return round values from `low` to `high`, 0 among them."""
    step = tick_step(high - low)
    return [step * at for at in range(-int(-low / step + 1e-9), int(high / step + 1e-9) + 1)]
