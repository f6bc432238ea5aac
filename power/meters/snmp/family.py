"""A family of PDUs: where its watts and kilowatt-hours stand, in which unit, and which of its rows add up."""

import re
from dataclasses import dataclass

KINDS = ("total", "energy", "phase", "outlet")
"""What a family lists sources of, each in order of preference: `energy` is that of the whole PDU."""


@dataclass(frozen=True)
class Column:
    """A column of a table: a number in it times `step` is watts (power) or joules (energy); `written` is that unit.

    A row's number is at `oid`.row, or `oid`.row.`after` where several kinds of sensors share a table. `digits` and
    `scale` are columns that say by how much a number is to be divided: by 10^n, and by 10 for -10 or times 10 for 10.
    `units` is a column of texts such as "kW", of which `step` is then the number before. Where rows are found by their
    names, `names` is the column of them and `like` what the whole name has to be; its groups name the row.
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
class Condition:
    """A row counts where its number at column `oid` is one of `values`, or where there is no such column."""

    oid: str
    values: frozenset[int]


@dataclass(frozen=True)
class Naming:
    """How a row is called: by the column `oid`, else by `parts` of its index, counted from 1; none: the whole index.

    The unit of a chain stands at column `unit_oid` or part `unit` and is put before, "2.7", unless it is `first_unit`.
    """

    oid: str = ""
    parts: tuple[int, ...] = ()
    unit_oid: str = ""
    unit: int | None = None
    first_unit: int | None = 1


@dataclass(frozen=True)
class Source:
    """One place where a family says something; all rows in it that count add up.

    `only` is looked at once, when rows are looked up; `valid` whenever the row is read. `current` and `voltage`, in
    steps of amperes and volts, are looked at once too: their product cannot be far from the watts.
    """

    power: Column | None = None
    energy: Column | None = None
    only: Condition | None = None
    valid: Condition | None = None
    current: Column | None = None
    voltage: Column | None = None
    naming: Naming = Naming()


@dataclass(frozen=True)
class Family:
    """A family by its name. `detect` are beginnings of sysObjectID; `no_value` and what is below 0 are no numbers."""

    name: str
    models: str
    mib: str
    sources: dict[str, tuple[Source, ...]]
    detect: tuple[str, ...] = ()
    no_value: frozenset[int] = frozenset()
    counters: str = "resettable"

    def columns(self) -> tuple[str, ...]:
        """Return every column that has to be walked to look up rows, each once."""
        found = (oid for kind in KINDS for source in self.sources.get(kind, ()) for oid in _columns(source))
        return tuple(dict.fromkeys(filter(None, found)))


def _columns(source: Source) -> list[str]:
    oids = [source.naming.oid, source.naming.unit_oid]
    oids += [condition.oid for condition in (source.only, source.valid) if condition]
    for column in (source.power, source.energy, source.current, source.voltage):
        if column:
            oids += [column.oid, column.digits, column.scale, column.units, column.names]
    return oids
