"""A family of PDUs: the OIDs of its watts and kilowatt-hours, their units, and the rows that add up.

MIBs and PDUs write units as text: "10 W", "0.1 kWh", "kW", "0.1 A".
"""

import re
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)?\s*(m|k|M)?(Wh|W|J|A|V)\s*")
_PREFIX = {None: 1.0, "m": 1e-3, "k": 1e3, "M": 1e6}
_IN_BASE = {("W", "W"): 1.0, ("Wh", "J"): 3600.0, ("J", "J"): 1.0, ("A", "A"): 1.0, ("V", "V"): 1.0}


def parse_step(text: str, base: str) -> float | None:
    """Return a unit in terms of `base` ("W", "J", "A", "V"), 360,000 J for "0.1 kWh"; None if it is not such a unit."""
    match = _UNIT.fullmatch(text)
    if match is None or (match[3], base) not in _IN_BASE:
        return None
    return float(match[1] or 1) * _PREFIX[match[2]] * _IN_BASE[match[3], base]


KINDS = ("total", "energy", "phase", "outlet")
"""The quantities for which a family lists sources, in order of preference; `energy` is that of the whole PDU."""
MODEL = "{model}"
"""A placeholder in OIDs for the number of a PDU's model, for makers with one subtree for each model."""


@dataclass(frozen=True)
class ColumnSpec:
    """A column of a table: a number in it times `step` is watts (power) or joules (energy); `written` is the unit as
    text.

    A row's number is at `oid`.row, or at `oid`.row.`after` if several kinds of sensors share a table. `digits` and
    `scale` are columns with the scale of a number: n in `digits` divides by 10^n; -10 in `scale` divides by 10, and 10
    multiplies by 10. `units` is a column of units such as "kW", which `step` multiplies. If rows are found by their
    names, `names` is the column of names and `like` a pattern for the whole name, whose groups name the row.
    """

    oid: str
    step: float
    written: str = ""
    after: str = ""
    digits: str = ""
    scale: str = ""
    units: str = ""
    names: str = ""
    like: re.Pattern[str] | None = None


@dataclass(frozen=True)
class RowCondition:
    """A row counts if its number in column `oid` is one of `values`; with `excludes`, if it is none of them.

    If there is no such column, every row counts.
    """

    oid: str
    values: frozenset[int]
    excludes: bool = False

    def allows(self, answer: object) -> bool:
        """Tell whether a row with that number counts."""
        return (answer in self.values) is not self.excludes


@dataclass(frozen=True)
class RowNaming:
    """The name of a row: column `oid`, else `parts` of its index, counted from 1; without either, the whole index.

    The number of the PDU in a chain is in column `unit_oid` or part `unit`; it becomes a prefix, "2.7", unless it is
    `first_unit`. If it is a text, part `unit_text` is its length and the parts after that are its characters.
    """

    oid: str = ""
    parts: tuple[int, ...] = ()
    unit_oid: str = ""
    unit: int | None = None
    unit_text: int | None = None
    first_unit: int | None = 1


@dataclass(frozen=True)
class RowSource:
    """One source of values in a family; all rows in it that count add up.

    `only` is evaluated once, when rows are found; `valid` at each reading. `current` and `voltage`, in steps of amperes
    and volts, are read once, too: their product must be close to the watts. `doubt` is a known weakness of all values.
    """

    power: ColumnSpec | None = None
    energy: ColumnSpec | None = None
    only: RowCondition | None = None
    valid: RowCondition | None = None
    current: ColumnSpec | None = None
    voltage: ColumnSpec | None = None
    naming: RowNaming = RowNaming()
    doubt: str = ""


@dataclass(frozen=True)
class PduFamily:
    """A PDU family. `detect` are prefixes of sysObjectID; `no_value` and negative numbers mean a missing value."""

    name: str
    models: str
    mib: str
    sources: dict[str, tuple[RowSource, ...]]
    detect: tuple[str, ...] = ()
    no_value: frozenset[int] = frozenset()
    counters: str = "resettable"

    def columns(self) -> tuple[str, ...]:
        """Return every column that must be walked to find the rows, each once."""
        found = (oid for kind in KINDS for source in self.sources.get(kind, ()) for oid in _columns(source))
        return tuple(dict.fromkeys(filter(None, found)))

    def by_model(self) -> bool:
        """Tell whether OIDs depend on the model."""
        return any(MODEL in oid for oid in self.columns())

    def for_system(self, system: str) -> "PduFamily":
        """Return the family of one PDU: its model is the number after one of `detect` in its sysObjectID."""
        after = (system.removeprefix(f"{prefix}.") for prefix in self.detect if system.startswith(f"{prefix}."))
        number = next(after, "0").partition(".")[0]
        return replace(self, sources=_insert_model(self.sources, number)) if self.by_model() else self


def _insert_model(value: Any, model: str) -> Any:
    """Return sources, columns and OIDs with the placeholder replaced by the model's number."""
    if isinstance(value, str):
        return value.replace(MODEL, model)
    if isinstance(value, dict):
        return {key: _insert_model(each, model) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_insert_model(each, model) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{field.name: _insert_model(getattr(value, field.name), model) for field in fields(value)}
        )
    return value


def _columns(source: RowSource) -> list[str]:
    oids = [source.naming.oid, source.naming.unit_oid]
    oids += [condition.oid for condition in (source.only, source.valid) if condition]
    for column in (source.power, source.energy, source.current, source.voltage):
        if column:
            oids += [column.oid, column.digits, column.scale, column.units, column.names]
    return oids
