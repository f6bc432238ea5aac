"""The folder of 2014 prices and sites that the study needs, read as it is: hourly columns, one file a place."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64

HOURS = 24
SITES = "xsede_sites.csv"


@dataclass(frozen=True)
class SiteRow:
    """A row of the sites' table; `place` names the file of its prices, `lag_h` its clock behind the first site's."""

    name: str
    place: str
    cores: int
    watts_per_core: float
    lag_h: int
    gflops_per_core: float
    longest_s: int
    widest_cores: int


def site_rows(folder: Path | None) -> tuple[SiteRow, ...]:
    """Return the sites of XSEDE. BadInput if the folder or the table is missing."""
    if folder is None or not (folder / SITES).is_file():
        raise BadInput(
            f"day-ahead needs the prices of 2014: no {SITES} in {folder or 'any folder, as none was named'}",
            hint="name the folder that holds it, XSEDE/ and NORDU/ with --prices",
        )
    with (folder / SITES).open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return tuple(_site_row(row) for row in rows)


def _site_row(row: list[str]) -> SiteRow:
    _, name, place, cores, watts, lag_h, gflops, longest_s, widest = row
    return SiteRow(name, place, int(cores), float(watts), int(lag_h), float(gflops), int(longest_s), int(widest))


def daily_prices(file: Path) -> Float64:
    """Return whole days of hourly prices, float64[days, 24]. BadInput if there is no such file, BadPrices if it has
    anything but numbers below its heading."""
    if not file.is_file():
        raise BadInput(f"{file}: there are no prices of that place", hint="name the whole folder with --prices")
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip()]
    try:
        hour = np.array([float(line) for line in lines[1:]])
    except ValueError as problem:
        raise BadPrices(f"{file}: {problem}", hint="a heading, then one price an hour") from None
    return hour[: len(hour) // HOURS * HOURS].reshape(-1, HOURS)
