"""The kinds of settings, with their notation and parsed value, and a row of the table of settings.

Every reader of a kind takes the written value (of TOML or of an option) and returns the parsed value; it raises
BadInput with the reason and an example. The caller adds the place of the setting.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput
from offpeak.model.units import (
    parse_bandwidth_mb_per_s,
    parse_carbon_g_per_kwh,
    parse_duration_s,
    parse_latency_s,
    parse_node_power_w,
    parse_power_w,
)
from offpeak.model.weighing import parse_weighing, parse_weights
from offpeak.text import did_you_mean


@dataclass(frozen=True)
class SettingKind:
    """A kind of setting; `suffix` ends the name of its parsed value, `typed` describes it on the command line.

    `choices` are the values that it has in every installation, () if any text may be one.
    """

    name: str
    read: Callable[[object], Any]
    suffix: str = ""
    typed: Any = str
    choices: tuple[str, ...] = ()


def _text(written: object) -> str:
    if isinstance(written, str) and written.strip():
        return written.strip()
    if isinstance(written, str):
        raise BadInput("the text is empty", hint="give it a value, or leave the setting out")
    raise BadInput(f"{written!r} is not text", hint='write it in quotes: "..."')


def _path(written: object) -> Path:
    return written if isinstance(written, Path) else Path(_text(written)).expanduser()


def _bool(written: object) -> bool:
    if isinstance(written, bool):
        return written
    raise BadInput(f"{written!r} is not true or false", hint="write true or false, without quotes")


def _names(written: object) -> tuple[str, ...]:
    items = written.split(",") if isinstance(written, str) else written
    if isinstance(items, list | tuple) and items and all(isinstance(item, str) and item.strip() for item in items):
        return tuple(item.strip() for item in items)
    raise BadInput(f"{written!r} is not a list of names", hint='write it like easy,greedy or ["easy", "greedy"]')


def _period_s(written: object) -> int | None:
    period_s = None if written == "event" else parse_duration_s(_text(written))
    if period_s == 0:
        raise BadInput(f"{written!r} is zero", hint='write "event" for a pass at every event')
    return period_s


def _weighing(written: object) -> str:
    parse_weighing(_text(written))
    return _text(written)


TEXT = SettingKind("text", _text)
PATH = SettingKind("path", _path)
BOOL = SettingKind("true or false", _bool, typed=bool)
NAMES = SettingKind("list of names", _names, typed=list[str])
POWER = SettingKind("power", lambda written: parse_power_w(_text(written)), suffix="_w")
NODE_POWER = SettingKind("power", lambda written: parse_node_power_w(_text(written)), suffix="_w")
WEIGHING = SettingKind("text", _weighing)
WEIGHTS = SettingKind("text", lambda written: parse_weights(_text(written)))
CARBON = SettingKind("carbon", lambda written: parse_carbon_g_per_kwh(_text(written)), suffix="_g_per_kwh")
LATENCY = SettingKind("latency", lambda written: parse_latency_s(_text(written)), suffix="_s")
BANDWIDTH = SettingKind("bandwidth", lambda written: parse_bandwidth_mb_per_s(_text(written)), suffix="_mb_per_s")
DURATION = SettingKind("duration", lambda written: parse_duration_s(_text(written)), suffix="_s")
PERIOD = SettingKind('duration or "event"', _period_s, suffix="_s")


def whole_number(low: int, high: int | None = None) -> SettingKind:
    """A whole number from `low` to `high`, both included, without upper bound if `high` is None."""
    bounds = f"{low} or more" if high is None else f"{low} to {high}"

    def read(written: object) -> int:
        if not isinstance(written, int) or isinstance(written, bool):
            raise BadInput(f"{written!r} is not a whole number", hint=f"write a number, {bounds}, without quotes")
        if written < low or (high is not None and written > high):
            raise BadInput(f"{written} is out of range", hint=f"the range is {bounds}")
        return written

    return SettingKind(f"whole number, {bounds}", read, typed=int)


PERCENT = replace(whole_number(0, 100), suffix="_percent")


def number(low: float, high: float = 1e9) -> SettingKind:
    """A number from `low` to `high`; the default upper bound exceeds every plausible value."""

    def read(written: object) -> float:
        if not isinstance(written, int | float) or isinstance(written, bool) or not math.isfinite(written):
            raise BadInput(f"{written!r} is not a number", hint=f"write a number, {low:g} or more, without quotes")
        if not low <= written <= high:
            raise BadInput(f"{written:g} is out of range", hint=f"the range is {low:g} to {high:,.0f}")
        return float(written)

    return SettingKind(f"number, {low:g} or more", read, typed=float)


def choice(*choices: str) -> SettingKind:
    """One of `choices`."""

    def read(written: object) -> str:
        if written in choices:
            return str(written)
        raise BadInput(f"{written!r} is not a choice", hint=did_you_mean(str(written), choices))

    return SettingKind(f"one of {', '.join(choices)}", read, choices=choices)


def choice_or_registered(group: str, what: str, *choices: str) -> SettingKind:
    """One of `choices`, or the name of an entry point of the group, which is `what` in the kind's name."""

    def read(written: object) -> str:
        if written in choices:
            return str(written)
        # Only names are read: the package of the entry point is not imported.
        names = entry_points(group=group).names
        if isinstance(written, str) and written in names:
            return str(written)
        raise BadInput(f"{written!r} is not a choice", hint=did_you_mean(str(written), (*choices, *names)))

    return SettingKind(f"one of {', '.join(choices)}, or {what}", read, choices=choices)


@dataclass(frozen=True)
class Setting:
    """One row of the table. `default` and `example` are as an operator writes them; a default of None means not set."""

    section: str
    key: str
    attribute: str
    kind: SettingKind
    unit: str
    default: object
    doc: str
    example: object
    flag: str

    @property
    def name(self) -> str:
        """The setting's name in messages and tables, such as `scheduling.window`."""
        return f"{self.section}.{self.key}"


@dataclass(frozen=True)
class SettingValue:
    """A setting's value as written and as parsed, and its origin: "default", "offpeak.toml:12", or the flag."""

    written: object
    parsed: Any
    origin: str


def row(
    kind: SettingKind, doc: str, *, default: object = None, example: object = None, unit: str = "", flag: str = ""
) -> Any:
    """Return the dataclass field whose metadata is this row of the table; the flag is --KEY unless one is given."""
    parsed = None if default is None else kind.read(default)
    shown = default if example is None else example
    return field(
        default=parsed,
        metadata={"kind": kind, "doc": doc, "default": default, "example": shown, "unit": unit, "flag": flag},
    )
