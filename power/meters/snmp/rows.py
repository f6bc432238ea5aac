"""Looks up the rows of a family in what a PDU answered: which numbers there are, and how each is called."""

import re
from dataclasses import dataclass, replace

from power.meters.snmp.answers import Answers, below, number_of
from power.meters.snmp.family import Column, Condition, Naming, Source
from power.meters.snmp.steps import step_of


@dataclass(frozen=True)
class Cell:
    """One number of a PDU: its OID, and the watts or joules of one step.

    Where rows are found by name, `name_oid` has to say `name` still, else rows have moved.
    """

    oid: str
    step: float
    name_oid: str = ""
    name: str = ""


@dataclass(frozen=True)
class Row:
    """One part of a PDU: an outlet, a phase, or what adds up to the total.

    It is row `index` of the table at `table`. It counts while `valid` allows it; `doubt` is what may be wrong with its
    values.
    """

    name: str
    table: str
    index: str
    power: Cell | None = None
    energy: Cell | None = None
    valid: Condition | None = None
    doubt: str = ""

    def cells(self) -> tuple[Cell, ...]:
        """Return its numbers."""
        return tuple(cell for cell in (self.power, self.energy) if cell)

    def oids(self) -> tuple[str, ...]:
        """Return what has to be asked to read it."""
        cells = self.cells()
        names = (cell.name_oid for cell in cells if cell.name_oid)
        return (*(cell.oid for cell in cells), *names, *((self.valid.oid,) if self.valid else ()))


def rows_of(source: Source, walked: Answers) -> tuple[Row, ...]:
    """Return the rows of a source, in the order of their index."""
    powers = _cells(source.power, walked, "W") if source.power else {}
    energies = _cells(source.energy, walked, "J") if source.energy else {}
    table = next((column.oid.rpartition(".")[0] for column in (source.power, source.energy) if column), "")
    return tuple(
        Row(
            _name(source.naming, index, walked),
            table,
            index,
            powers.get(index),
            energies.get(index),
            _check(source, index, walked),
            source.doubt,
        )
        for index in sorted(powers | energies, key=_order)
        if _counts(source.only, index, walked)
    )


def apparent_va(source: Source, walked: Answers) -> float | None:
    """Return amperes times volts of all rows together, None unless a source has both for each row that counts."""
    if not (source.current and source.voltage):
        return None
    amperes, volts = _cells(source.current, walked, "A"), _cells(source.voltage, walked, "V")
    rows = [index for index in amperes if _counts(source.only, index, walked)]
    said = [(_said(amperes[index], walked), _said(volts.get(index), walked)) for index in rows]
    known = [current_a * voltage_v for current_a, voltage_v in said if current_a is not None and voltage_v is not None]
    return sum(known) if known and len(known) == len(rows) else None


def _said(cell: Cell | None, walked: Answers) -> float | None:
    number = number_of(walked[cell.oid]) if cell else None
    return None if cell is None or number is None or number < 0 else number * cell.step


def _cells(column: Column, walked: Answers, base: str) -> dict[str, Cell]:
    """Return a column's cells by the index of their row."""
    if column.like:
        return _named_cells(column, column.like, walked, base)
    after = f".{column.after}" if column.after else ""
    rows = below(walked, column.oid)
    found = (index.removesuffix(after) for index in rows if index.endswith(after))
    return {index: _cell(column, f"{index}{after}", walked, base) for index in found}


def _named_cells(column: Column, like: re.Pattern[str], walked: Answers, base: str) -> dict[str, Cell]:
    """Return cells by the index before the last number, and what the name says: 2 and L1 as "2.L1"."""
    cells = {}
    for index, name in below(walked, column.names).items():
        match = like.fullmatch(name) if isinstance(name, str) else None
        if match and f"{column.oid}.{index}" in walked and _is_known(column, index, walked, base):
            key = ".".join(filter(None, (index.rpartition(".")[0], *match.groups())))
            cells[key] = replace(_cell(column, index, walked, base), name_oid=f"{column.names}.{index}", name=match[0])
    return cells


def _is_known(column: Column, index: str, walked: Answers, base: str) -> bool:
    """Tell whether a unit that the PDU gives as text is one of this quantity."""
    return not column.units or step_of(str(walked.get(f"{column.units}.{index}")), base) is not None


def _cell(column: Column, index: str, walked: Answers, base: str) -> Cell:
    step = column.step
    if column.digits:
        step *= 10.0 ** -(number_of(walked.get(f"{column.digits}.{index}", 0)) or 0)
    if column.scale:
        scale = number_of(walked.get(f"{column.scale}.{index}", 1)) or 1
        step *= scale if scale > 0 else -1 / scale
    if column.units:
        step *= step_of(str(walked.get(f"{column.units}.{index}", "")), base) or 1
    return Cell(f"{column.oid}.{index}", step)


def _counts(only: Condition | None, index: str, walked: Answers) -> bool:
    said = walked.get(f"{only.oid}.{index}") if only else None
    return only is None or said is None or only.allows(said)


def _check(source: Source, index: str, walked: Answers) -> Condition | None:
    if not (source.valid and source.power):
        return None
    oid = ".".join(filter(None, (source.valid.oid, index, source.power.after)))
    return replace(source.valid, oid=oid) if oid in walked else None


def _name(naming: Naming, index: str, walked: Answers) -> str:
    parts = index.split(".")
    own = str(walked.get(f"{naming.oid}.{index}", "")).strip() if naming.oid else ""
    if not own:
        chosen = [parts[part - 1] for part in naming.parts if part <= len(parts)]
        own = ".".join(chosen or parts)
    unit = str(walked.get(f"{naming.unit_oid}.{index}", "")) if naming.unit_oid else ""
    if naming.unit is not None and naming.unit <= len(parts):
        unit = parts[naming.unit - 1]
    if naming.unit_text is not None:
        unit = "".join(chr(int(part)) for part in parts[naming.unit_text :] if part.isdigit())
    return own if unit in ("", str(naming.first_unit)) else f"{unit}.{own}"


def _order(index: str) -> tuple[tuple[int, int | str], ...]:
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in index.split("."))
