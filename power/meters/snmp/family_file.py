"""Reads families of PDUs from TOML: those that come with offpeak, and a site's own."""

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.text import did_you_mean
from power.meters.snmp.family import KINDS, Family, Source
from power.meters.snmp.family_keys import Entry, read_oid, read_source, read_text

BUNDLED = files("power.meters.snmp") / "families"
_KEYS = ("models", "mib", "counters", "detect", "no_value", *KINDS)


def family_named(text: str) -> Family:
    """Return the bundled family of that name, else the one in the TOML file; BadInput if it is neither."""
    if text in bundled_names():
        return bundled_family(text)
    path = Path(text).expanduser()
    if path.suffix == ".toml" or path.exists():
        return parsed_family(read_bytes(path, BadInput), path.stem, str(path))
    hint = f"{did_you_mean(text, ('auto', *bundled_names()))}; or name a TOML file of your own"
    raise BadInput(f"{text!r} is no family of PDUs", hint=hint)


@cache
def bundled_names() -> tuple[str, ...]:
    """Return the names of the families that come with offpeak."""
    return tuple(sorted(Path(file.name).stem for file in BUNDLED.iterdir() if file.name.endswith(".toml")))


@cache
def bundled_family(name: str) -> Family:
    """Return the family of one of `bundled_names`."""
    file = BUNDLED / f"{name}.toml"
    return parsed_family(file.read_bytes(), name, file.name)


def parsed_family(text: bytes, name: str, file: str) -> Family:
    """Return the family that a TOML file describes; BadInput with the file, the key and a hint."""
    top = Entry(file, "", _toml(text, file)).below(_KEYS)
    sources = {kind: _sources(top[kind], kind) for kind in KINDS if kind in top}
    if not sources.get("total"):
        raise BadInput(f"{file}: has no [[total]]", hint="add [[total]]: where the power of the whole PDU stands")
    return Family(
        name,
        read_text(top["models"]) if "models" in top else name,
        read_text(top["mib"]) if "mib" in top else "",
        sources,
        tuple(read_oid(entry) for entry in top["detect"].items()) if "detect" in top else (),
        frozenset(entry.number() for entry in top["no_value"].items()) if "no_value" in top else frozenset(),
        read_text(top["counters"]) if "counters" in top else "resettable",
    )


def _sources(entry: Entry, kind: str) -> tuple[Source, ...]:
    return tuple(read_source(item, kind) for item in entry.items())


def _toml(text: bytes, file: str) -> dict[str, object]:
    try:
        return tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise BadInput(f"{file}: {problem}", hint="the file is TOML in UTF-8: text stands in quotes") from None
