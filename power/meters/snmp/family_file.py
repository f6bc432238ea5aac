"""Reads the bundled families of PDUs and those of a site from TOML, and finds the families of a PDU by its sysObjectID.

Errors name the file, the key and the allowed values.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.toml_file import TomlEntry, TomlFormat
from offpeak.text import did_you_mean
from power.meters.snmp.family import KINDS, MODEL, ColumnSpec, PduFamily, RowCondition, RowNaming, RowSource, parse_step

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


BUNDLED = files("power.meters.snmp") / "families"
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
