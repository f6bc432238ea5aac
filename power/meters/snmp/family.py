"""A family of PDUs: the OIDs of its watts and kilowatt-hours, their units, the rows that add up, and its TOML file.

MIBs and PDUs write units as text: "10 W", "0.1 kWh", "kW", "0.1 A". Families are bundled or a site's own; the bundled
ones of a PDU are found by its sysObjectID. Errors name the file, the key and the allowed values.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.description import Description, TableModel, Text, WrongEntry, read_by, refuse, text_by
from offpeak.text import did_you_mean

_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)?\s*(m|k|M)?(Wh|W|J|A|V)\s*")
_PREFIX = {None: 1.0, "m": 1e-3, "k": 1e3, "M": 1e6}
_IN_BASE = {("W", "W"): 1.0, ("Wh", "J"): 3600.0, ("J", "J"): 1.0, ("A", "A"): 1.0, ("V", "V"): 1.0}

KINDS = ("total", "energy", "phase", "outlet")
"""The quantities for which a family lists sources, in order of preference; `energy` is that of the whole PDU."""
MODEL = "{model}"
"""A placeholder in OIDs for the number of a PDU's model, for makers with one subtree for each model."""

OID = re.compile(rf"\d+(\.(\d+|{re.escape(MODEL)}))+")
_UNITS = {"W": ("power", "10 W"), "J": ("energy", "0.1 kWh"), "A": ("current", "0.1 A"), "V": ("voltage", "V")}

BUNDLED = files("offpeak.power.meters.snmp") / "families"

SYS_OBJECT_ID = "1.3.6.1.2.1.1.2.0"


def parse_step(text: str, base: str) -> float | None:
    """Return a unit in terms of `base` ("W", "J", "A", "V"), 360,000 J for "0.1 kWh"; None if it is not such a unit."""
    match = _UNIT.fullmatch(text)
    if match is None or (match[3], base) not in _IN_BASE:
        return None
    return float(match[1] or 1) * _PREFIX[match[2]] * _IN_BASE[match[3], base]


def _oid(text: str) -> str:
    text = text.removeprefix(".")
    hint = 'write it like "1.3.6.1.4.1.318.1.1.26.4.3.1.5"'
    return text if OID.fullmatch(text) else refuse(f"{text!r} is not a numeric OID", hint=hint)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as problem:
        raise BadInput(f"is not a regular expression: {problem}", hint="a dot in a name is written \\.") from None


def _number(written: object) -> int:
    if not isinstance(written, int) or isinstance(written, bool):
        raise BadInput(f"{written!r} is not a whole number", hint="write it without quotes")
    return written


Oid = Annotated[str, text_by(_oid)]
Number = Annotated[int, read_by(_number)]


class ColumnSpec(TableModel):
    """A column of a table: a number in it times `step` is watts (power) or joules (energy); `unit` is its unit as text.

    A row's number is at `oid`.row, or at `oid`.row.`after` if several kinds of sensors share a table. `digits` and
    `scale` are columns with the scale of a number: n in `digits` divides by 10^n; -10 in `scale` divides by 10, and 10
    multiplies by 10. `units` is a column of units such as "kW", which `step` multiplies. If rows are found by their
    names, `names` is the column of names and `like` a pattern for the whole name, whose groups name the row.
    """

    base: ClassVar[str]

    oid: Oid
    unit: Text = ""
    after: Text = ""
    digits: Oid = ""
    scale: Oid = ""
    units: Oid = ""
    names: Oid = ""
    like: Annotated[re.Pattern[str], text_by(_pattern)] | None = None

    @model_validator(mode="after")
    def _has_a_unit(self) -> Self:
        what, example = _UNITS[self.base]
        if not self.units and parse_step(self.unit, self.base) is None:
            raise WrongEntry(f"has no unit of {what}", hint=f'add unit = "{example}"')
        return self

    @property
    def step(self) -> float:
        """A unit of the column in the base unit."""
        return 1.0 if self.units else parse_step(self.unit, self.base) or 1.0


class PowerColumn(ColumnSpec):
    """Watts."""

    base = "W"


class EnergyColumn(ColumnSpec):
    """Joules."""

    base = "J"


class CurrentColumn(ColumnSpec):
    """Amperes."""

    base = "A"


class VoltageColumn(ColumnSpec):
    """Volts."""

    base = "V"


class RowCondition(TableModel):
    """A row counts if its number in `oid` is one of `is` (none of `not`), or without such a column."""

    oid: Oid = ""
    is_: tuple[Number, ...] | None = Field(None, alias="is", strict=False)
    not_: tuple[Number, ...] | None = Field(None, alias="not", strict=False)

    @model_validator(mode="after")
    def _has_one_condition(self) -> Self:
        if not self.oid or (self.is_ is None) == (self.not_ is None):
            raise WrongEntry("needs oid, and is or not", hint='write it like { oid = "1.3.6.1.4.1...", is = [0] }')
        return self

    def allows(self, answer: object) -> bool:
        """Tell whether a row with that number counts."""
        return answer in self.is_ if self.is_ is not None else answer not in (self.not_ or ())


class RowNaming(TableModel):
    """The name of a row: column `oid`, else `parts` of its index, counted from 1; without either, the whole index.

    The number of the PDU in a chain is in column `unit_oid` or part `unit`; it becomes a prefix, "2.7", unless it is
    `first_unit`. If it is a text, part `unit_text` is its length and the parts after that are its characters.
    """

    oid: Oid = ""
    parts: tuple[Number, ...] = Field((), strict=False)
    unit_oid: Oid = ""
    unit: Number | None = None
    unit_text: Number | None = None
    first_unit: Number = 1


class RowSource(TableModel):
    """One source of values in a family; all rows in it that count add up.

    `only` is evaluated once, when rows are found; `valid` at each reading. `current` and `voltage`, in steps of amperes
    and volts, are read once, too: their product must be close to the watts. `doubt` is a known weakness of all values.
    """

    power: PowerColumn | None = None
    energy: EnergyColumn | None = None
    only: RowCondition | None = None
    valid: RowCondition | None = None
    current: CurrentColumn | None = None
    voltage: VoltageColumn | None = None
    naming: RowNaming = Field(default_factory=lambda: RowNaming.model_validate({}), alias="name")
    doubt: Text = ""


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
    if isinstance(value, TableModel):
        return value.model_copy(update={name: _insert_model(entry, model) for name, entry in value})
    return value


def _columns(source: RowSource) -> list[str]:
    oids = [source.naming.oid, source.naming.unit_oid]
    oids += [condition.oid for condition in (source.only, source.valid) if condition]
    for column in (source.power, source.energy, source.current, source.voltage):
        if column:
            oids += [column.oid, column.digits, column.scale, column.units, column.names]
    return oids


class FamilyFile(Description):
    """The whole file."""

    noun = "a family of PDUs"
    examples: ClassVar = {
        "models": '"Our PDU"',
        "power": '{ oid = "...", unit = "W" }',
        "energy": '{ oid = "...", unit = "kWh" }',
        "oid": '"1.3.6.1.4.1..."',
    }
    page = "write lists in brackets, and sources as [[total]]"

    models: Text = ""
    mib: Text = ""
    counters: Text = "resettable"
    detect: tuple[Oid, ...] = Field((), strict=False)
    no_value: tuple[Number, ...] = Field((), strict=False)
    total: tuple[RowSource, ...] = Field((), strict=False)
    energy: tuple[RowSource, ...] = Field((), strict=False)
    phase: tuple[RowSource, ...] = Field((), strict=False)
    outlet: tuple[RowSource, ...] = Field((), strict=False)

    def family(self, name: str) -> PduFamily:
        """Return the family of that name."""
        sources: dict[str, tuple[RowSource, ...]] = {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind)}
        for kind, found in sources.items():
            needed = "energy" if kind == "energy" else "power"
            for number, source in enumerate(found):
                if getattr(source, needed) is None:
                    hint = f"add {needed} = {self.examples[needed]}"
                    raise WrongEntry(f"{needed} is missing", kind, number, hint=hint)
        if not self.total:
            raise WrongEntry("has no [[total]]", hint="add [[total]], the source of the power of the whole PDU")
        models, no_value = self.models or name, frozenset(self.no_value)
        return PduFamily(name, models, self.mib, sources, self.detect, no_value, self.counters)


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
    return FamilyFile.parse(text, file, lambda tables: tables.family(name))


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
