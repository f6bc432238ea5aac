"""The keys of a family's file: what may stand behind each, and what is said where it is wrong."""

import re
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.text import did_you_mean
from power.meters.snmp.family import MODEL, Column, Condition, Naming, Source
from power.meters.snmp.steps import step_of

OID = re.compile(rf"\d+(\.(\d+|{re.escape(MODEL)}))+")
_SOURCE_KEYS = ("power", "energy", "only", "valid", "current", "voltage", "name", "doubt")
_COLUMN_KEYS = ("oid", "unit", "after", "digits", "scale", "units", "names", "like")
_UNITS = {"W": ("power", "10 W"), "J": ("energy", "0.1 kWh"), "A": ("current", "0.1 A"), "V": ("voltage", "V")}
_NAMING_KEYS = ("oid", "parts", "unit_oid", "unit", "unit_text", "first_unit")


@dataclass(frozen=True)
class Entry:
    """Something written in a file, and the dotted key at which it stands."""

    file: str
    key: str
    written: object

    def wrong(self, what: str, hint: str) -> BadInput:
        """Return the error that says what is wrong with this entry."""
        return BadInput(": ".join(filter(None, (self.file, self.key, what))), hint=hint)

    def below(self, known: tuple[str, ...]) -> dict[str, "Entry"]:
        """Return a table's entries by key; BadInput for a key that is not known."""
        if not isinstance(self.written, dict):
            raise self.wrong("is no table", hint=f"write a table of {', '.join(known)}")
        path = f"{self.key}." if self.key else ""
        found = {key: Entry(self.file, f"{path}{key}", written) for key, written in self.written.items()}
        for key in found:
            if key not in known:
                raise found[key].wrong("is no key of a family of PDUs", hint=did_you_mean(key, known))
        return found

    def items(self) -> tuple["Entry", ...]:
        """Return the entries of a list; BadInput if it is none."""
        if not isinstance(self.written, list):
            raise self.wrong("is no list", hint="write it in brackets; sources as [[total]]")
        return tuple(Entry(self.file, f"{self.key}[{i}]", written) for i, written in enumerate(self.written, 1))

    def number(self) -> int:
        """Return a whole number; BadInput if it is none."""
        if not isinstance(self.written, int) or isinstance(self.written, bool):
            raise self.wrong(f"{self.written!r} is no whole number", hint="write it without quotes")
        return self.written


def read_text(entry: Entry) -> str:
    """Return a text; BadInput if it is none."""
    if not isinstance(entry.written, str):
        raise entry.wrong(f"{entry.written!r} is no text", hint="write it in quotes")
    return entry.written


def read_oid(entry: Entry) -> str:
    """Return an OID in digits and dots, without a dot before it; BadInput if it is none."""
    text = read_text(entry).removeprefix(".")
    if not OID.fullmatch(text):
        raise entry.wrong(f"{text!r} is no OID in numbers", hint='write it like "1.3.6.1.4.1.318.1.1.26.4.3.1.5"')
    return text


def read_source(entry: Entry, kind: str) -> Source:
    """Return one place where a family says something; BadInput if it says nothing there."""
    below = entry.below(_SOURCE_KEYS)
    needed = "energy" if kind == "energy" else "power"
    if needed not in below:
        raise entry.wrong(f"{needed} is missing", hint=f'add {needed} = {{ oid = "...", unit = "..." }}')
    return Source(
        _column(below["power"], "W") if "power" in below else None,
        _column(below["energy"], "J") if "energy" in below else None,
        _condition(below["only"]) if "only" in below else None,
        _condition(below["valid"]) if "valid" in below else None,
        _column(below["current"], "A") if "current" in below else None,
        _column(below["voltage"], "V") if "voltage" in below else None,
        _naming(below["name"]) if "name" in below else Naming(),
        read_text(below["doubt"]) if "doubt" in below else "",
    )


def _column(entry: Entry, base: str) -> Column:
    below = entry.below(_COLUMN_KEYS)
    if "oid" not in below:
        raise entry.wrong("oid is missing", hint='name the column, oid = "1.3.6.1.4.1..."')
    oids = {key: read_oid(below[key]) for key in ("oid", "digits", "scale", "units", "names") if key in below}
    step = 1.0 if "units" in below else _step(below.get("unit", entry), base)
    after = read_text(below["after"]) if "after" in below else ""
    written = str(below["unit"].written) if "unit" in below else ""
    return Column(
        step=step, written=written, after=after, like=_pattern(below["like"]) if "like" in below else None, **oids
    )


def _step(entry: Entry, base: str) -> float:
    what, example = _UNITS[base]
    step = step_of(entry.written, base) if isinstance(entry.written, str) else None
    if step is None:
        raise entry.wrong(f"has no unit of {what}", hint=f'add unit = "{example}"')
    return step


def _pattern(entry: Entry) -> re.Pattern[str]:
    try:
        return re.compile(read_text(entry))
    except re.error as problem:
        raise entry.wrong(f"is no regular expression: {problem}", hint="a dot in a name is written \\.") from None


def _condition(entry: Entry) -> Condition:
    below = entry.below(("oid", "is", "not"))
    if "oid" not in below or len(below) != 2:
        raise entry.wrong("needs oid, and is or not", hint='write it like { oid = "1.3.6.1.4.1...", is = [0] }')
    excludes = "not" in below
    listed = below["not" if excludes else "is"]
    return Condition(read_oid(below["oid"]), frozenset(item.number() for item in listed.items()), excludes)


def _naming(entry: Entry) -> Naming:
    below = entry.below(_NAMING_KEYS)
    return Naming(
        read_oid(below["oid"]) if "oid" in below else "",
        tuple(item.number() for item in below["parts"].items()) if "parts" in below else (),
        read_oid(below["unit_oid"]) if "unit_oid" in below else "",
        below["unit"].number() if "unit" in below else None,
        below["unit_text"].number() if "unit_text" in below else None,
        below["first_unit"].number() if "first_unit" in below else 1,
    )
