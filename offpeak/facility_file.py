"""Reads facilities: the two tables that come with offpeak, and a site's own, from CSV.

The first line names the temperatures, each line below begins with a power: `power,-10C,20C` above `50kW,1.12,1.30`, or
`load,-10C,20C` above `60%,1.12,1.30` with loads in per cent of the machine's full power.
"""

import math
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput
from offpeak.facility import Facility
from offpeak.files import read_bytes
from offpeak.suggest import did_you_mean
from offpeak.units import parse_power_w

BUNDLED = files("offpeak") / "facilities"
BY_POWER, BY_LOAD = "power", "load"
EXAMPLE = "write it like `load,-10C,20C` and below `60%,1.12,1.30`"


def facility_named(text: str, *, full_power_w: float) -> Facility:
    """Return the bundled facility of that name, else that of the CSV file; BadInput if it is neither.

    `full_power_w` is what a load of 100 % stands for [W].
    """
    if text in bundled_facilities():
        return parse_facility((BUNDLED / f"{text}.csv").read_text(), text, full_power_w=full_power_w)
    path = Path(text).expanduser()
    if path.suffix == ".csv" or path.exists():
        return read_facility(path, full_power_w=full_power_w)
    hint = f"{did_you_mean(text, bundled_facilities())}; or name a CSV file"
    raise BadInput(f"{text!r} is no facility", hint=hint)


def bundled_facilities() -> tuple[str, ...]:
    """Return the names of the facilities that come with offpeak."""
    return tuple(sorted(Path(file.name).stem for file in BUNDLED.iterdir() if file.name.endswith(".csv")))


def read_facility(path: Path, *, full_power_w: float) -> Facility:
    """Return the facility of a CSV file; BadInput with file and line for what cannot be read."""
    return parse_facility(read_bytes(path, BadInput).decode(errors="replace"), str(path), full_power_w=full_power_w)


def parse_facility(text: str, name: str, *, full_power_w: float) -> Facility:
    """Return the facility that the text of a CSV file describes; BadInput with name and line."""
    lines = [
        _Line(f"{name}:{number}", tuple(cell.strip() for cell in line.split(",")))
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
class _Line:
    where: str
    cells: tuple[str, ...]


def _pue(row: _Line, titles: tuple[str, ...]) -> list[float]:
    cells = row.cells[1:]
    if len(cells) > len(titles):
        raise BadInput(f"{row.where}: has more figures than there are temperatures", hint=EXAMPLE)
    for title, cell in zip_longest(titles, cells, fillvalue=""):
        if not cell:
            raise BadInput(f"{row.where}: no PUE at {title}", hint="fill it in, or leave the whole row or column out")
    return [_number(cell, row.where, "PUE", at_least=1.0, at_most=10.0) for cell in cells]


def _temperature_c(cell: str, where: str) -> float:
    if not cell.endswith("C"):
        raise BadInput(f"{where}: {cell!r} is no temperature", hint="write degrees Celsius, such as 25C")
    return _number(cell.removesuffix("C"), where, "temperature", at_least=-273.15, at_most=100.0)


def _power_w(row: _Line, axis: str, full_power_w: float) -> float:
    cell = row.cells[0]
    if axis == BY_LOAD and cell.endswith("%"):
        return full_power_w * _number(cell.removesuffix("%"), row.where, "load", at_least=0.0, at_most=1000.0) / 100
    try:
        return parse_power_w(cell)
    except BadInput as problem:
        hint = "write per cent, such as 60%" if axis == BY_LOAD else problem.hint
        raise BadInput(f"{row.where}: {cell!r} is no {axis}", hint=hint) from None


def _number(text: str, where: str, what: str, *, at_least: float, at_most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not at_least <= value <= at_most:
        raise BadInput(f"{where}: {text!r} is no {what}", hint=f"it is a number from {at_least:g} to {at_most:g}")
    return value


def _check_rise(values: list[float], wheres: list[str], what: str) -> None:
    for (before, value), where in zip(pairwise(values), wheres[1:], strict=True):
        if value <= before:
            raise BadInput(f"{where}: the {what} does not rise", hint="order them, each once")
