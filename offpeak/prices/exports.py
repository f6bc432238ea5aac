"""The exports of exchanges and operators that are read as they come, declared in exports.toml."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cache
from importlib.resources import files
from typing import Any

from offpeak.model.zones import parse_zone


@dataclass(frozen=True)
class Export:
    """What the columns of a source mean; the keys of exports.toml. Names of columns are patterns, "" for none."""

    source: str
    value: str
    time: tuple[str, ...] = ()
    date: str = ""
    hour: str = ""
    quarter: str = ""
    unit: str = ""
    zone: tzinfo | None = None
    month_first: bool | None = None
    ends: bool | str = False
    only: dict[str, str] = field(default_factory=dict)
    area: str = ""

    def fits(self, columns: Iterable[str]) -> bool:
        """Tell whether the columns are those of this source."""
        names = tuple(columns)
        patterns = filter(None, (*self.time, self.date, self.hour, self.quarter, self.value))
        return all(matching(names, pattern) for pattern in patterns)


def matching(columns: Iterable[str], pattern: str) -> list[str]:
    """Return the columns whose whole name matches, ignoring case."""
    wanted = re.compile(pattern, re.IGNORECASE)
    return [name for name in columns if wanted.fullmatch(name)]


def find_export(columns: Sequence[str]) -> Export | None:
    """Return the first source whose columns these are."""
    return next((export for export in known_exports() if export.fits(columns)), None)


@cache
def known_exports() -> tuple[Export, ...]:
    """Return all sources, in the order in which they are tried."""
    text = files("offpeak.prices").joinpath("exports.toml").read_text(encoding="utf-8")
    return tuple(map(_export, tomllib.loads(text)["export"]))


def _export(entry: dict[str, Any]) -> Export:
    time, zone, months = (entry.pop(key, None) for key in ("time", "zone", "months"))
    return Export(
        **entry,
        time=(time,) if isinstance(time, str) else tuple(time or ()),
        zone=parse_zone(zone) if zone else None,
        month_first=None if months is None else months == "first",
    )
