"""The machine room: the cooling power by load and outside temperature, the temperature over time, and caps on power.

PUE is facility power over IT power, so cooling draws IT power x (PUE - 1). Source of the table's shape: "Optimizing
profit and cooling costs in HPC cluster scheduling", eq. (5); with such a table eq. (3) counts IT energy twice.

A facility is one of the two bundled tables, or a CSV file. Its first line names the temperatures, each line below
begins with a power: `power,-10C,20C` above `50kW,1.12,1.30`, or `load,-10C,20C` above `60%,1.12,1.30` with loads in
per cent of the machine's full power.
"""

import math
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.units import parse_power_w
from offpeak.text import did_you_mean

STEP_W = 500.0
"""IT power is rounded to this before it is looked up, as in the paper."""


@dataclass(frozen=True, eq=False)
class Facility:
    """PUE at each power [W] and temperature [degrees C], both rising; float64[powers, temperatures]."""

    name: str
    power_w: Float64
    temperature_c: Float64
    pue: Float64

    def pue_at(self, power_w: Float64, temperature_c: Float64) -> Float64:
        """Return each pair's PUE, in proportion between points, beyond edges that of the edge; power to 500 W."""
        row, down = _interpolate(self.power_w, STEP_W * np.rint(np.asarray(power_w) / STEP_W))
        column, right = _interpolate(self.temperature_c, np.asarray(temperature_c))
        next_row = np.minimum(row + 1, len(self.power_w) - 1)
        next_column = np.minimum(column + 1, len(self.temperature_c) - 1)
        above = (1 - right) * self.pue[row, column] + right * self.pue[row, next_column]
        below = (1 - right) * self.pue[next_row, column] + right * self.pue[next_row, next_column]
        return np.asarray((1 - down) * above + down * below)

    def pue_range(self, temperature_c: Float64) -> tuple[Float64, Float64]:
        """Return the lowest and the highest PUE at each temperature, over all powers."""
        powers = self.power_w[:, None]
        each = self.pue_at(np.broadcast_to(powers, (len(powers), len(temperature_c))), temperature_c[None, :])
        return each.min(axis=0), each.max(axis=0)

    def beyond_table(self, temperature_c: Float64) -> str:
        """Return a remark on temperatures outside the table; empty if there are none."""
        low, high = self.temperature_c[0], self.temperature_c[-1]
        outside = (temperature_c < low) | (temperature_c > high)
        if not outside.any():
            return ""
        coldest, warmest = temperature_c[outside].min(), temperature_c[outside].max()
        return (
            f"facility {self.name}: {outside.sum()} of {len(temperature_c)} temperatures, {coldest:g} to {warmest:g} C,"
            f" lie outside its table of {low:g} to {high:g} C: the PUE of its edge stands for them"
        )


def cooling_w(facility: Facility, power_w: Float64, temperature_c: Float64) -> Float64:
    """Return the power of the cooling [W] at that IT power."""
    return np.asarray(power_w * (facility.pue_at(power_w, temperature_c) - 1))


def _interpolate(points: Float64, value: Float64) -> tuple[NDArray[np.intp], Float64]:
    """Return the point below each value and how far it is on the way to the next, 0 to 1."""
    if len(points) == 1:
        return np.zeros(value.shape, np.intp), np.zeros(value.shape)
    inside = np.clip(value, points[0], points[-1])
    below = np.clip(np.searchsorted(points, inside, side="right") - 1, 0, len(points) - 2)
    return below, (inside - points[below]) / (points[below + 1] - points[below])


BUNDLED = files("offpeak") / "facilities"
BY_POWER, BY_LOAD = "power", "load"
EXAMPLE = "write it like `load,-10C,20C` and below `60%,1.12,1.30`"


def facility_named(text: str, *, full_power_w: float) -> Facility:
    """Return the bundled facility or that of the CSV file; `full_power_w` [W] is a load of 100 %. Raises BadInput."""
    if text in bundled_facilities():
        return parse_facility((BUNDLED / f"{text}.csv").read_text(), text, full_power_w=full_power_w)
    path = Path(text).expanduser()
    if path.suffix == ".csv" or path.exists():
        return read_facility(path, full_power_w=full_power_w)
    hint = f"{did_you_mean(text, bundled_facilities())}; or name a CSV file"
    raise BadInput(f"{text!r} is not a facility", hint=hint)


def bundled_facilities() -> tuple[str, ...]:
    """Return the names of the facilities that come with offpeak."""
    return tuple(sorted(Path(file.name).stem for file in BUNDLED.iterdir() if file.name.endswith(".csv")))


def read_facility(path: Path, *, full_power_w: float) -> Facility:
    """Return the facility of a CSV file. Raises BadInput with file and line for what cannot be read."""
    return parse_facility(read_bytes(path, BadInput).decode(errors="replace"), str(path), full_power_w=full_power_w)


def parse_facility(text: str, name: str, *, full_power_w: float) -> Facility:
    """Return the facility that the text of a CSV file describes. Raises BadInput with name and line."""
    lines = [
        _TableLine(f"{name}:{number}", tuple(cell.strip() for cell in line.split(",")))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if len(lines) < 2:
        raise BadInput(f"{name}: has no table", hint=EXAMPLE)
    head, rows = lines[0], lines[1:]
    axis, titles = head.cells[0], head.cells[1:]
    if axis not in (BY_POWER, BY_LOAD) or not titles:
        raise BadInput(f"{head.where}: begins with {axis!r}", hint=EXAMPLE)
    temperature_c = [_temperature_c(title, head.where) for title in titles]
    power_w = [_power_w(row, axis, full_power_w) for row in rows]
    _check_rise(temperature_c, [head.where] * len(titles), "temperature")
    _check_rise(power_w, [row.where for row in rows], axis)
    return Facility(name, np.array(power_w), np.array(temperature_c), np.array([_pue(row, titles) for row in rows]))


@dataclass(frozen=True)
class _TableLine:
    where: str
    cells: tuple[str, ...]


def _pue(row: _TableLine, titles: tuple[str, ...]) -> list[float]:
    cells = row.cells[1:]
    if len(cells) > len(titles):
        raise BadInput(f"{row.where}: has more figures than there are temperatures", hint=EXAMPLE)
    for title, cell in zip_longest(titles, cells, fillvalue=""):
        if not cell:
            raise BadInput(f"{row.where}: no PUE at {title}", hint="fill it in, or leave the whole row or column out")
    return [_number(cell, row.where, "PUE", at_least=1.0, at_most=10.0) for cell in cells]


def _temperature_c(cell: str, where: str) -> float:
    if not cell.endswith("C"):
        raise BadInput(f"{where}: {cell!r} is not a temperature", hint="write degrees Celsius, such as 25C")
    return _number(cell.removesuffix("C"), where, "temperature", at_least=-273.15, at_most=100.0)


def _power_w(row: _TableLine, axis: str, full_power_w: float) -> float:
    cell = row.cells[0]
    if axis == BY_LOAD and cell.endswith("%"):
        return full_power_w * _number(cell.removesuffix("%"), row.where, "load", at_least=0.0, at_most=1000.0) / 100
    try:
        return parse_power_w(cell)
    except BadInput as problem:
        hint = "write per cent, such as 60%" if axis == BY_LOAD else problem.hint
        raise BadInput(f"{row.where}: {cell!r} is not a {axis}", hint=hint) from None


def _number(text: str, where: str, what: str, *, at_least: float, at_most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not at_least <= value <= at_most:
        raise BadInput(f"{where}: {text!r} is not a {what}", hint=f"it is a number from {at_least:g} to {at_most:g}")
    return value


def _check_rise(values: list[float], wheres: list[str], what: str) -> None:
    for (before, value), where in zip(pairwise(values), wheres[1:], strict=True):
        if value <= before:
            raise BadInput(f"{where}: the {what} does not rise", hint="order them, each once")


TOLERANCE_C = 5.0
WARMEST_HOUR = 15


@dataclass(frozen=True, eq=False)
class TemperatureSegments:
    """Stretches of time: `temperature_c[i]` holds from `edge_s[i]` to `edge_s[i + 1]`."""

    edge_s: Int64
    temperature_c: Float64


def temperature_segments(
    edge_s: Int64, temperature_c: Float64, *, tolerance_c: float = TOLERANCE_C
) -> TemperatureSegments:
    """Return the longest segments of temperatures within the tolerance, with means; `edge_s` has one more entry."""
    firsts, low, high = [0], temperature_c[0], temperature_c[0]
    for at, value in enumerate(temperature_c):
        low, high = min(low, value), max(high, value)
        if high - low > tolerance_c:
            firsts.append(at)
            low = high = value
    length_s = np.diff(edge_s)
    mean_c = np.add.reduceat(temperature_c * length_s, firsts) / np.add.reduceat(length_s, firsts)
    return TemperatureSegments(np.append(edge_s[firsts], edge_s[-1]), mean_c)


def daily_temperature(mean_c: float, swing_c: float, hours: int = 24) -> tuple[Int64, Float64]:
    """Return hourly edges [s] and temperatures of a sine from the coldest, at 03:00, to the warmest, at 15:00."""
    hour = np.arange(hours)
    phase = 2 * np.pi * (hour + 0.5 - WARMEST_HOUR) * HOUR_S / DAY_S
    return HOUR_S * np.arange(hours + 1), mean_c + swing_c * np.cos(phase)


@dataclass(frozen=True)
class PowerCap:
    """All nodes draw at most `cap_w` from `from_s` to `until_s` [Unix s]; `source` is the origin of the cap.

    A soft cap holds no job that has waited for `longest_wait_s`; None: the cap holds every job.
    """

    from_s: int
    until_s: int
    cap_w: int
    reason: str
    source: str
    longest_wait_s: int | None = None

    def holds(self, waited_s: float) -> bool:
        """Return whether a job that has waited so long must obey the cap."""
        return self.longest_wait_s is None or waited_s < self.longest_wait_s
