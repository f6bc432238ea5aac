"""A family of PDUs: the OIDs of its watts and kilowatt-hours, their units, the rows that add up, and its TOML file.

MIBs and PDUs write units as text: "10 W", "0.1 kWh", "kW", "0.1 A". Families are bundled or a site's own; the bundled
ones of a PDU are found by its sysObjectID. Errors name the file, the key and the allowed values.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.toml_file import TomlEntry, TomlFormat
from offpeak.text import did_you_mean

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
    """A row counts if its number in `oid` is one of `values` (none of them: `excludes`), or without such a column."""

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


OID = re.compile(rf"\d+(\.(\d+|{re.escape(MODEL)}))+")
_SOURCE_KEYS = ("power", "energy", "only", "valid", "current", "voltage", "name", "doubt")
_COLUMN_KEYS = ("oid", "unit", "after", "digits", "scale", "units", "names", "like")
_UNITS = {"W": ("power", "10 W"), "J": ("energy", "0.1 kWh"), "A": ("current", "0.1 A"), "V": ("voltage", "V")}
_NAMING_KEYS = ("oid", "parts", "unit_oid", "unit", "unit_text", "first_unit")


FORMAT = TomlFormat(
    "a family of PDUs",
    {
        "models": '"Our PDU"',
        "power": '{ oid = "...", unit = "W" }',
        "energy": '{ oid = "...", unit = "kWh" }',
        "oid": '"1.3.6.1.4.1..."',
    },
)
_LIST = "write it in brackets; sources as [[total]]"


def _numbers(entry: TomlEntry) -> Iterator[int]:
    return map(_number, entry.items(_LIST))


def _number(entry: TomlEntry) -> int:
    if not isinstance(entry.written, int) or isinstance(entry.written, bool):
        raise entry.wrong(f"{entry.written!r} is not a whole number", hint="write it without quotes")
    return entry.written


def read_text(entry: TomlEntry) -> str:
    """Return a text. Raises BadInput."""
    if not isinstance(entry.written, str):
        raise entry.wrong(f"{entry.written!r} is not a text", hint="write it in quotes")
    return entry.written


def read_oid(entry: TomlEntry) -> str:
    """Return a numeric OID without a leading dot. Raises BadInput."""
    text = read_text(entry).removeprefix(".")
    if not OID.fullmatch(text):
        raise entry.wrong(f"{text!r} is not a numeric OID", hint='write it like "1.3.6.1.4.1.318.1.1.26.4.3.1.5"')
    return text


def read_source(entry: TomlEntry, kind: str) -> RowSource:
    """Return one source of values. Raises BadInput if it lacks the column for this kind."""
    below = FORMAT.entries_below(entry, ("energy" if kind == "energy" else "power",), optional=_SOURCE_KEYS)
    return RowSource(
        power=_read_column(below["power"], "W") if "power" in below else None,
        energy=_read_column(below["energy"], "J") if "energy" in below else None,
        only=_read_condition(below["only"]) if "only" in below else None,
        valid=_read_condition(below["valid"]) if "valid" in below else None,
        current=_read_column(below["current"], "A") if "current" in below else None,
        voltage=_read_column(below["voltage"], "V") if "voltage" in below else None,
        naming=_read_naming(below["name"]) if "name" in below else RowNaming(),
        doubt=read_text(below["doubt"]) if "doubt" in below else "",
    )


def _read_column(entry: TomlEntry, base: str) -> ColumnSpec:
    below = FORMAT.entries_below(entry, ("oid",), optional=_COLUMN_KEYS)
    oids = {key: read_oid(below[key]) for key in ("oid", "digits", "scale", "units", "names") if key in below}
    step = 1.0 if "units" in below else _read_step(below.get("unit", entry), base)
    after = read_text(below["after"]) if "after" in below else ""
    written = str(below["unit"].written) if "unit" in below else ""
    return ColumnSpec(
        step=step, written=written, after=after, like=_read_pattern(below["like"]) if "like" in below else None, **oids
    )


def _read_step(entry: TomlEntry, base: str) -> float:
    what, example = _UNITS[base]
    step = parse_step(entry.written, base) if isinstance(entry.written, str) else None
    if step is None:
        raise entry.wrong(f"has no unit of {what}", hint=f'add unit = "{example}"')
    return step


def _read_pattern(entry: TomlEntry) -> re.Pattern[str]:
    try:
        return re.compile(read_text(entry))
    except re.error as problem:
        raise entry.wrong(f"is not a regular expression: {problem}", hint="a dot in a name is written \\.") from None


def _read_condition(entry: TomlEntry) -> RowCondition:
    below = FORMAT.entries_below(entry, (), optional=("oid", "is", "not"))
    if "oid" not in below or len(below) != 2:
        raise entry.wrong("needs oid, and is or not", hint='write it like { oid = "1.3.6.1.4.1...", is = [0] }')
    excludes = "not" in below
    return RowCondition(read_oid(below["oid"]), frozenset(_numbers(below["not" if excludes else "is"])), excludes)


def _read_naming(entry: TomlEntry) -> RowNaming:
    below = FORMAT.entries_below(entry, (), optional=_NAMING_KEYS)
    return RowNaming(
        read_oid(below["oid"]) if "oid" in below else "",
        tuple(_numbers(below["parts"])) if "parts" in below else (),
        read_oid(below["unit_oid"]) if "unit_oid" in below else "",
        _number(below["unit"]) if "unit" in below else None,
        _number(below["unit_text"]) if "unit_text" in below else None,
        _number(below["first_unit"]) if "first_unit" in below else 1,
    )


BUNDLED = files("offpeak.power.meters.snmp") / "families"
_FAMILY_KEYS = ("models", "mib", "counters", "detect", "no_value", *KINDS)


def read_family(text: str) -> PduFamily:
    """Return the bundled family of that name, else the one in the TOML file. Raises BadInput if it is neither."""
    if text in bundled_names():
        return bundled_family(text)
    path = Path(text).expanduser()
    if path.suffix == ".toml" or path.exists():
        return parse_family(read_bytes(path, BadInput), path.stem, str(path))
    hint = f"{did_you_mean(text, ('auto', *bundled_names()))}; or name a TOML file of your own"
    raise BadInput(f"{text!r} is not a family of PDUs", hint=hint)


@cache
def bundled_names() -> tuple[str, ...]:
    """Return the names of the families that come with offpeak."""
    return tuple(sorted(Path(file.name).stem for file in BUNDLED.iterdir() if file.name.endswith(".toml")))


@cache
def bundled_family(name: str) -> PduFamily:
    """Return the family of one of `bundled_names`."""
    file = BUNDLED / f"{name}.toml"
    return parse_family(file.read_bytes(), name, file.name)


def parse_family(text: bytes, name: str, file: str) -> PduFamily:
    """Return the family that a TOML file describes. Raises BadInput with the file, the key and a hint."""
    top = FORMAT.entries_below(FORMAT.parse(text, file), (), optional=_FAMILY_KEYS)
    found = {kind: top[kind].items(_LIST) for kind in KINDS if kind in top}
    sources = {kind: tuple(read_source(item, kind) for item in items) for kind, items in found.items()}
    if not sources.get("total"):
        raise BadInput(f"{file}: has no [[total]]", hint="add [[total]], the source of the power of the whole PDU")
    return PduFamily(
        name=name,
        models=read_text(top["models"]) if "models" in top else name,
        mib=read_text(top["mib"]) if "mib" in top else "",
        sources=sources,
        detect=tuple(map(read_oid, top["detect"].items(_LIST))) if "detect" in top else (),
        no_value=frozenset(_numbers(top["no_value"])) if "no_value" in top else frozenset(),
        counters=read_text(top["counters"]) if "counters" in top else "resettable",
    )


SYS_OBJECT_ID = "1.3.6.1.2.1.1.2.0"


def candidate_families(system: str) -> Iterator[PduFamily]:
    """Yield every bundled family that matches the sysObjectID, the longest matching prefix first."""
    families = [bundled_family(name).for_system(system) for name in bundled_names()]
    yield from sorted(families, key=lambda family: -_known_prefix_length(family, system))


def is_of_family(family: PduFamily, system: str) -> bool:
    """Tell whether a sysObjectID belongs to that family."""
    return _known_prefix_length(family, system) > 0


def _known_prefix_length(family: PduFamily, system: str) -> int:
    starts = (prefix for prefix in family.detect if f"{system.removeprefix('.')}.".startswith(f"{prefix}."))
    return max(map(len, starts), default=0)
