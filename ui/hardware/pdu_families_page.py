"""The reference page of PDU families, from their files."""

from collections.abc import Iterator

from power.meters.snmp.family import KINDS, ColumnSpec, RowSource
from power.meters.snmp.family_file import BUNDLED, bundled_family, bundled_names

_HEAD = """\
# Families of PDUs

The values of `family` in the inventory, and the OIDs of each family. `auto` detects the family by the PDU's
sysObjectID, else by trying each one. Each family is a file in
[power/meters/snmp/families](../../power/meters/snmp/families). [Read your PDUs](../how-to/pdus.md) describes how to
define a family.

If a family lists several sources of the total, the first with a value counts; its selected rows add up. Without a
total, the phases add up if each has a value, else the outlets if each has one. A negative number, "no such OID" and a
text that is not a number are missing values.

| family | models | MIB | phases | outlets | counter |
|---|---|---|---|---|---|"""


def pdu_families_page() -> str:
    """Return the reference page of all bundled families, as Markdown."""
    return "\n".join([_HEAD, *map(_row, bundled_names()), "", *map(_section, bundled_names())])


def _row(name: str) -> str:
    family = bundled_family(name)
    phases, outlets, energy = (
        ", ".join(_units(family.sources.get(kind, ()))) for kind in ("phase", "outlet", "energy")
    )
    counter = f"{energy}, {family.counters}" if energy else ""
    return f"| [{name}](#{name}) | {family.models} | {family.mib} | {phases} | {outlets} | {counter} |"


def _units(sources: tuple[RowSource, ...]) -> list[str]:
    """Return the units in which numbers are told, each once."""
    units = [_unit(column) for source in sources for column in (source.power, source.energy) if column]
    return list(dict.fromkeys(units))


def _unit(column: ColumnSpec) -> str:
    if column.units:
        return "as the PDU says"
    return column.written + (" with decimals" if column.digits else "")


def _section(name: str) -> str:
    lines = (BUNDLED / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    about = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
    head = [f"## {name}", "", *about, "", "| what | OID | unit | rows |", "|---|---|---|---|"]
    return "\n".join([*head, *_places(name), ""])


def _places(name: str) -> Iterator[str]:
    for kind in KINDS:
        for source in bundled_family(name).sources.get(kind, ()):
            for quantity, column in (("power", source.power), ("energy", source.energy)):
                if column:
                    what = "energy of the whole PDU" if kind == "energy" else f"{quantity}, {kind}"
                    yield f"| {what} | `{column.oid}` | {_unit(column)} | {_which(source, column)} |"


def _which(source: RowSource, column: ColumnSpec) -> str:
    """Return which rows count, in words."""
    terms = []
    if column.like:
        terms.append(f"named `{column.like.pattern.replace('|', chr(92) + '|')}`")
    if column.after:
        terms.append(f"ending in `.{column.after}`")
    if source.only:
        values = " or ".join(map(str, sorted(source.only.values)))
        terms.append(f"where `{source.only.oid}` is {'not ' if source.only.excludes else ''}{values}")
    return ", ".join(terms) or "all"
