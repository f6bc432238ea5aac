"""Which rows of a PDU are read: looked up once in a walk, then asked for by their OIDs."""

from collections.abc import Sequence
from dataclasses import dataclass

from power.meters.snmp.answers import Answers, below, number_of
from power.meters.snmp.doubts import fits
from power.meters.snmp.family import KINDS, Family
from power.meters.snmp.rows import Cell, Row, apparent_va, rows_of


@dataclass(frozen=True)
class Layout:
    """The rows of one PDU. Those of `total` and `energy` add up; the cells in `silent` never had a value.

    `total_from` is what the rows of `total` are: "row" for the PDU's own total, "phase" or "outlet" where it has none.
    `doubts` are what may be wrong with the rows themselves.
    """

    family: Family
    total: tuple[Row, ...] = ()
    energy: tuple[Row, ...] = ()
    phases: tuple[Row, ...] = ()
    outlets: tuple[Row, ...] = ()
    silent: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()
    total_from: str = "row"

    def tells(self) -> bool:
        """Tell whether the PDU said a total when its rows were looked up."""
        return any(row.power and row.power.oid not in self.silent for row in self.total)

    def oids(self) -> tuple[str, ...]:
        """Return all that a reading asks for, each once."""
        rows = (*self.total, *self.energy, *self.phases, *self.outlets)
        return tuple(dict.fromkeys(oid for row in rows for oid in row.oids()))


def layout_of(family: Family, walked: Answers, troubles: Sequence[str] = ()) -> Layout:
    """Return where this PDU says what: of each kind the first source that has a value in any row, else any rows.

    A PDU without a total of its own is the sum of its phases if each of them has a value, else of its outlets if each
    of them has one. `troubles` are what kept rows from being seen.
    """
    total, energy, phases, outlets = (_chosen(family, kind, walked) for kind in KINDS)
    total_from = "row"
    if not troubles and not any(_tells(family, row.power, walked) for row in total):
        for kind, rows in (("phase", phases), ("outlet", outlets)):
            if rows and all(_is_metered(family, row, walked) for row in rows):
                total_from, total = kind, rows
                if not any(_tells(family, row.energy, walked) for row in energy):
                    energy = rows if all(_tells(family, row.energy, walked) for row in rows) else ()
                break
    doubts = [f"rows may be missing: {trouble}" for trouble in troubles]
    if len(total) > 1 and _is_unsorted(family, "total" if total_from == "row" else total_from, walked):
        doubts.append("the PDU does not say which of its rows add up")
    doubts += dict.fromkeys(row.doubt for row in total if row.doubt and _tells(family, row.power, walked))
    doubts += _contradicted(family, total, walked)
    cells = (cell for row in (*total, *energy) for cell in row.cells())
    silent = frozenset(cell.oid for cell in cells if value_of(family, cell, walked) is None)
    return Layout(family, total, energy, phases, outlets, silent, tuple(doubts), total_from)


def value_of(family: Family, cell: Cell, answers: Answers) -> float | None:
    """Return the watts or joules of a cell, None where the PDU has none: below zero, a sign for none, no number."""
    number = number_of(answers[cell.oid]) if cell.oid in answers else None
    if number is None or number < 0 or number in family.no_value:
        return None
    return number * cell.step


def _chosen(family: Family, kind: str, walked: Answers) -> tuple[Row, ...]:
    offered = [rows for source in family.sources.get(kind, ()) if (rows := rows_of(source, walked))]
    telling = (rows for rows in offered if any(_tells(family, row.cells()[0], walked) for row in rows))
    return next(telling, offered[0] if offered else ())


def _contradicted(family: Family, total: Sequence[Row], walked: Answers) -> list[str]:
    """Return how amperes times volts contradict the total, if they do."""
    said_w = [value_of(family, row.power, walked) for row in total if row.power]
    known_w = [power_w for power_w in said_w if power_w is not None]
    step_w = max((row.power.step for row in total if row.power), default=1.0)
    apparents = (apparent_va(source, walked) for source in family.sources.get("phase", ()))
    apparent = next((va for va in apparents if va is not None), None)
    if apparent is None or not known_w or fits(sum(known_w), apparent, step_w):
        return []
    return [f"{sum(known_w):g} W when rows were looked up, but amperes times volts {apparent:.4g} VA"]


def _is_unsorted(family: Family, kind: str, walked: Answers) -> bool:
    """Tell whether the rows that add up are to be sorted by a column that the PDU lacks."""
    columns = [source.only.oid for source in family.sources.get(kind, ()) if source.only and rows_of(source, walked)]
    return any(not below(walked, column) for column in columns)


def _is_metered(family: Family, row: Row, walked: Answers) -> bool:
    valid = row.valid is None or row.valid.allows(walked.get(row.valid.oid))
    return valid and _tells(family, row.power, walked)


def _tells(family: Family, cell: Cell | None, walked: Answers) -> bool:
    return cell is not None and value_of(family, cell, walked) is not None
