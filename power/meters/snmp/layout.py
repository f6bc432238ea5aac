"""The rows of one PDU: found in one walk by its family, later read by their OIDs.

The layout chooses the source of the total and compares it with its parts and with the volt-amperes, because only two
numbers reveal a unit that is wrong by a factor of ten.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from offpeak.power.meters.port import Reading
from offpeak.power.meters.snmp.client import SnmpValues, parse_snmp_number, values_below
from offpeak.power.meters.snmp.family import (
    KINDS,
    ColumnSpec,
    PduFamily,
    RowCondition,
    RowNaming,
    RowSource,
    parse_step,
)

MAX_EXCESS = 0.25
"""Parts may exceed the total by so much: PDUs are exact to a few percent, and parts are read one after the other."""
MAX_LACK = 0.5
"""Or to so much less: some PDUs in a chain have no meters for phases or outlets."""
MIN_POWER_FACTOR = 0.125
"""The lowest plausible power factor, also of idle nodes: watts too small by a factor of ten give a lower one."""
DOUBTLESS_STEPS = 3.0
"""A difference of so many of the coarser steps is never doubtful."""


@dataclass(frozen=True)
class PduCell:
    """A PDU's number: its OID, the watts or joules of a step; `name_oid` must still hold `name`, or rows have moved."""

    oid: str
    step: float
    name_oid: str = ""
    name: str = ""


@dataclass(frozen=True)
class PduRow:
    """One part of a PDU: an outlet, a phase, or a row that adds to the total.

    It is row `index` of the table at `table`. It counts while `valid` allows it; `doubt` is a weakness.
    """

    name: str
    table: str
    index: str
    power: PduCell | None = None
    energy: PduCell | None = None
    valid: RowCondition | None = None
    doubt: str = ""

    def cells(self) -> tuple[PduCell, ...]:
        """Return its numbers."""
        return tuple(cell for cell in (self.power, self.energy) if cell)

    def oids(self) -> tuple[str, ...]:
        """Return the OIDs that a reading of this row needs."""
        cells = self.cells()
        names = (cell.name_oid for cell in cells if cell.name_oid)
        return (*(cell.oid for cell in cells), *names, *((self.valid.oid,) if self.valid else ()))


def find_rows(source: RowSource, walked: SnmpValues) -> tuple[PduRow, ...]:
    """Return the rows of a source, in the order of their index."""
    powers = _find_cells(source.power, walked, "W") if source.power else {}
    energies = _find_cells(source.energy, walked, "J") if source.energy else {}
    table = next((column.oid.rpartition(".")[0] for column in (source.power, source.energy) if column), "")
    return tuple(
        PduRow(
            name=_row_name(source.naming, index, walked),
            table=table,
            index=index,
            power=powers.get(index),
            energy=energies.get(index),
            valid=_validity_of(source, index, walked),
            doubt=source.doubt,
        )
        for index in sorted(powers | energies, key=_index_order)
        if _is_counted(source.only, index, walked)
    )


def apparent_va(source: RowSource, walked: SnmpValues) -> float | None:
    """Return the sum of amperes times volts over all rows, None unless a source has both for each row that counts."""
    if not (source.current and source.voltage):
        return None
    amperes, volts = _find_cells(source.current, walked, "A"), _find_cells(source.voltage, walked, "V")
    rows = [index for index in amperes if _is_counted(source.only, index, walked)]
    cells = [(_cell_value(amperes[index], walked), _cell_value(volts.get(index), walked)) for index in rows]
    known = [current_a * voltage_v for current_a, voltage_v in cells if current_a is not None and voltage_v is not None]
    return sum(known) if known and len(known) == len(rows) else None


def _cell_value(cell: PduCell | None, walked: SnmpValues) -> float | None:
    number = parse_snmp_number(walked[cell.oid]) if cell else None
    return None if cell is None or number is None or number < 0 else number * cell.step


def _find_cells(column: ColumnSpec, walked: SnmpValues, base: str) -> dict[str, PduCell]:
    """Return a column's cells by the index of their row."""
    if column.like:
        return _find_named_cells(column, column.like, walked, base)
    after = f".{column.after}" if column.after else ""
    rows = values_below(walked, column.oid)
    found = (index.removesuffix(after) for index in rows if index.endswith(after))
    return {index: _make_cell(column, f"{index}{after}", walked, base) for index in found}


def _find_named_cells(column: ColumnSpec, like: re.Pattern[str], walked: SnmpValues, base: str) -> dict[str, PduCell]:
    """Return cells by the index without its last number, and the groups of the name: 2 and L1 as "2.L1"."""
    cells = {}
    for index, name in values_below(walked, column.names).items():
        match = like.fullmatch(name) if isinstance(name, str) else None
        if match and f"{column.oid}.{index}" in walked and _is_known(column, index, walked, base):
            key = ".".join(filter(None, (index.rpartition(".")[0], *match.groups())))
            cells[key] = replace(
                _make_cell(column, index, walked, base), name_oid=f"{column.names}.{index}", name=match[0]
            )
    return cells


def _is_known(column: ColumnSpec, index: str, walked: SnmpValues, base: str) -> bool:
    """Tell whether the unit that the PDU reports as text is a unit of this quantity."""
    return not column.units or parse_step(str(walked.get(f"{column.units}.{index}")), base) is not None


def _make_cell(column: ColumnSpec, index: str, walked: SnmpValues, base: str) -> PduCell:
    step = column.step
    if column.digits:
        step *= 10.0 ** -(parse_snmp_number(walked.get(f"{column.digits}.{index}", 0)) or 0)
    if column.scale:
        scale = parse_snmp_number(walked.get(f"{column.scale}.{index}", 1)) or 1
        step *= scale if scale > 0 else -1 / scale
    if column.units:
        step *= parse_step(str(walked.get(f"{column.units}.{index}", "")), base) or 1
    return PduCell(f"{column.oid}.{index}", step)


def _is_counted(only: RowCondition | None, index: str, walked: SnmpValues) -> bool:
    value = walked.get(f"{only.oid}.{index}") if only else None
    return only is None or value is None or only.allows(value)


def _validity_of(source: RowSource, index: str, walked: SnmpValues) -> RowCondition | None:
    if not (source.valid and source.power):
        return None
    oid = ".".join(filter(None, (source.valid.oid, index, source.power.after)))
    return source.valid.model_copy(update={"oid": oid}) if oid in walked else None


def _row_name(naming: RowNaming, index: str, walked: SnmpValues) -> str:
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


def _index_order(index: str) -> tuple[tuple[int, int | str], ...]:
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in index.split("."))


def find_doubts(total: Reading, phases: Sequence[Reading], outlets: Sequence[Reading]) -> Iterator[str]:
    """Yield contradictions to the total; doubtful values are reported. Parts are compared if all have values."""
    for parts, name in ((phases, "phases"), (outlets, "outlets")):
        sum_w = sum_power(parts)
        if total.power_w is None or sum_w is None:
            continue
        step_w = max(total.resolution_w, *(part.resolution_w for part in parts))
        if not parts_add_up(sum_w, total.power_w, step_w):
            yield f"{total.power_w:g} W in all, but its {name} add up to {sum_w:g} W"


def parts_add_up(sum_w: float, total_w: float, step_w: float) -> bool:
    """Tell whether the sum of the parts is consistent with the total."""
    margin_w = DOUBTLESS_STEPS * step_w
    return (1 - MAX_LACK) * total_w - margin_w <= sum_w <= (1 + MAX_EXCESS) * total_w + margin_w


def fits_apparent_power(power_w: float, apparent_va: float, step_w: float) -> bool:
    """Tell whether watts are consistent with volt-amperes: not clearly more, and not below the lowest power factor."""
    margin_w = DOUBTLESS_STEPS * step_w
    return MIN_POWER_FACTOR * apparent_va - margin_w <= power_w <= (1 + MAX_EXCESS) * apparent_va + margin_w


def sum_power(parts: Sequence[Reading]) -> float | None:
    """Return the watts of all parts, None if there are none or one has no value."""
    known_w = [part.power_w for part in parts if part.power_w is not None]
    return sum(known_w) if known_w and len(known_w) == len(parts) else None


@dataclass(frozen=True)
class PduLayout:
    """The rows of one PDU. The rows of `total` and of `energy` add up; the cells in `silent` never had a value.

    `total_from` is the kind of the rows of `total`: "row" for the PDU's own total, "phase" or "outlet" if it has none.
    `doubts` are doubts about the rows themselves.
    """

    family: PduFamily
    total: tuple[PduRow, ...] = ()
    energy: tuple[PduRow, ...] = ()
    phases: tuple[PduRow, ...] = ()
    outlets: tuple[PduRow, ...] = ()
    silent: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()
    total_from: str = "row"

    def tells(self) -> bool:
        """Tell whether the PDU had a total when its rows were found."""
        return any(row.power and row.power.oid not in self.silent for row in self.total)

    def oids(self) -> tuple[str, ...]:
        """Return all OIDs of a reading, each once."""
        rows = (*self.total, *self.energy, *self.phases, *self.outlets)
        return tuple(dict.fromkeys(oid for row in rows for oid in row.oids()))


def find_layout(family: PduFamily, walked: SnmpValues, problems: Sequence[str] = ()) -> PduLayout:
    """Return the layout of this PDU: for each kind the first source that has a value in any row, else the first with
    rows.

    The total of a PDU without its own total is the sum of its phases if each of them has a value, else of its outlets
    if each of them has one. `problems` say why rows may be missing.
    """
    total, energy, phases, outlets = (_choose_rows(family, kind, walked) for kind in KINDS)
    total_from = "row"
    if not problems and not any(_has_value(family, row.power, walked) for row in total):
        for kind, rows in (("phase", phases), ("outlet", outlets)):
            if rows and all(_is_metered(family, row, walked) for row in rows):
                total_from, total = kind, rows
                if not any(_has_value(family, row.energy, walked) for row in energy):
                    energy = rows if all(_has_value(family, row.energy, walked) for row in rows) else ()
                break
    doubts = [f"rows may be missing: {error}" for error in problems]
    if len(total) > 1 and _is_unsorted(family, "total" if total_from == "row" else total_from, walked):
        doubts.append("the PDU does not report which of its rows add up")
    doubts += dict.fromkeys(row.doubt for row in total if row.doubt and _has_value(family, row.power, walked))
    doubts += _find_contradictions(family, total, walked)
    cells = (cell for row in (*total, *energy) for cell in row.cells())
    silent = frozenset(cell.oid for cell in cells if cell_value_of(family, cell, walked) is None)
    return PduLayout(
        family=family,
        total=total,
        energy=energy,
        phases=phases,
        outlets=outlets,
        silent=silent,
        doubts=tuple(doubts),
        total_from=total_from,
    )


def cell_value_of(family: PduFamily, cell: PduCell, answers: SnmpValues) -> float | None:
    """Return the watts or joules of a cell, None for a negative number, a family's `no_value` or text."""
    number = parse_snmp_number(answers[cell.oid]) if cell.oid in answers else None
    if number is None or number < 0 or number in family.no_value:
        return None
    return number * cell.step


def _choose_rows(family: PduFamily, kind: str, walked: SnmpValues) -> tuple[PduRow, ...]:
    offered = [rows for source in family.sources.get(kind, ()) if (rows := find_rows(source, walked))]
    telling = (rows for rows in offered if any(_has_value(family, row.cells()[0], walked) for row in rows))
    return next(telling, offered[0] if offered else ())


def _find_contradictions(family: PduFamily, total: Sequence[PduRow], walked: SnmpValues) -> list[str]:
    """Return the contradictions between amperes times volts and the total."""
    rows_w = [cell_value_of(family, row.power, walked) for row in total if row.power]
    known_w = [power_w for power_w in rows_w if power_w is not None]
    step_w = max((row.power.step for row in total if row.power), default=1.0)
    apparents = (apparent_va(source, walked) for source in family.sources.get("phase", ()))
    apparent = next((va for va in apparents if va is not None), None)
    if apparent is None or not known_w or fits_apparent_power(sum(known_w), apparent, step_w):
        return []
    return [f"{sum(known_w):g} W when the rows were found, but amperes times volts {apparent:.4g} VA"]


def _is_unsorted(family: PduFamily, kind: str, walked: SnmpValues) -> bool:
    """Tell whether the rows that add up are selected by a column that the PDU lacks."""
    columns = [source.only.oid for source in family.sources.get(kind, ()) if source.only and find_rows(source, walked)]
    return any(not values_below(walked, column) for column in columns)


def _is_metered(family: PduFamily, row: PduRow, walked: SnmpValues) -> bool:
    valid = row.valid is None or row.valid.allows(walked.get(row.valid.oid))
    return valid and _has_value(family, row.power, walked)


def _has_value(family: PduFamily, cell: PduCell | None, walked: SnmpValues) -> bool:
    return cell is not None and cell_value_of(family, cell, walked) is not None
