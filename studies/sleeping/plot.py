"""Axes and marks of the study's figure, in pixels of an SVG group."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from studies.online_simulation.colours import tick_step

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
