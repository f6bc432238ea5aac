"""What a PDU answered, as readings: the total added up, phases, outlets with their nodes, and why one has no value."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from offpeak.machines.inventory import Pdu
from offpeak.text import counted
from power.meters.port import Reading
from power.meters.snmp.answers import Answers, Nothing
from power.meters.snmp.doubts import add_up, doubts, sum_of
from power.meters.snmp.layout import Layout, value_of
from power.meters.snmp.rows import Cell, Row

MOST_LISTED = 6
"""So many rows without a value are named, the others counted: a PDU has up to 48 outlets."""


def readings_of(pdu: Pdu, layout: Layout, answers: Answers, at_unix_s: float, *, note: str = "") -> tuple[Reading, ...]:
    """Return the total first, then phases and outlets; an outlet that has a node but no meter is there without a value.

    `note` is told with the total, as is what speaks against it.
    """
    blank = Reading(pdu.name, "snmp", "total", None, at_unix_s)
    phases = tuple(_part("phase", row, layout, answers, blank) for row in layout.phases)
    nodes = dict(pdu.outlets)
    outlets = tuple(_outlet(row, layout, answers, blank, nodes) for row in layout.outlets)
    total = _total(layout, answers, blank)
    total = _parts_instead_of_zero(total, phases, outlets)
    doubted = (*layout.doubts, *doubts(total, phases, outlets))
    why = "; ".join(filter(None, (note, total.why, *(f"doubtful: {doubt}" for doubt in doubted))))
    return (replace(total, why=why), *phases, *outlets, *_unmetered(layout.outlets, blank, nodes))


def _parts_instead_of_zero(total: Reading, phases: Sequence[Reading], outlets: Sequence[Reading]) -> Reading:
    """Return the total; where it is 0 W and its parts are not, their sum: a total that does not count is none."""
    for parts, name in ((phases, "phases"), (outlets, "outlets")):
        sum_w = sum_of(parts)
        step_w = max((each.resolution_w for each in (total, *parts)), default=1.0)
        if total.power_w == 0 and sum_w is not None and not add_up(sum_w, 0.0, step_w):
            said = f"doubtful: 0 W in all, but its {name} add up to {sum_w:g} W, which are taken instead"
            return replace(total, power_w=sum_w, resolution_w=step_w, why="; ".join(filter(None, (total.why, said))))
    return total


def _total(layout: Layout, answers: Answers, blank: Reading) -> Reading:
    power_w, why = _sum(layout, answers)
    return replace(
        blank, power_w=power_w, energy_j=_energy_j(layout, answers), resolution_w=_coarsest(layout.total), why=why
    )


def _energy_j(layout: Layout, answers: Answers) -> float | None:
    """Return the joules of all rows that had any when they were looked up; None unless each still has.

    Where one unit of a chain has no counter, those of the others are no counter of the whole.
    """
    rows = [row for row in layout.energy if row.energy and row.energy.oid not in layout.silent]
    if _lacks_a_counter(layout, rows):
        return None
    energies_j = [value_of(layout.family, row.energy, answers) for row in rows if row.energy]
    known_j = [energy_j for energy_j in energies_j if energy_j is not None]
    return sum(known_j) if known_j and len(known_j) == len(rows) else None


def _lacks_a_counter(layout: Layout, counted_rows: Sequence[Row]) -> bool:
    """Tell whether a part of the PDU has watts in its total, but no counter.

    Within one table that is a row. Between tables, such as of phases and of units, it is a unit of the chain: the first
    number of an index that has several.
    """
    measured = [row for row in layout.total if row.power and row.power.oid not in layout.silent]
    tables = {row.table for row in counted_rows}
    if any(row.table in tables for row in measured):
        return not {row.index for row in measured} <= {row.index for row in counted_rows}
    if not any("." in row.index for row in (*measured, *counted_rows)):
        return False
    units, counted_units = ({row.index.partition(".")[0] for row in rows} for rows in (measured, counted_rows))
    return not units <= counted_units


def _sum(layout: Layout, answers: Answers) -> tuple[float | None, str]:
    """Return the watts of all rows: no sum without a row that had a value before; others are left out and told."""
    known_w: list[float] = []
    lost: list[str] = []
    never: list[str] = []
    for row in layout.total:
        power_w, why = _power(row, layout, answers)
        if power_w is not None:
            known_w.append(power_w)
        else:
            had_one = row.power and row.power.oid not in layout.silent
            (lost if had_one else never).append(f"{layout.total_from} {row.name}: {why}")
    if lost:
        return None, _listed([*lost, *never])
    if not known_w:
        return None, _no_total(layout, answers, never)
    notes = [] if layout.total_from == "row" else [_origin(layout)]
    notes += [f"doubtful: {layout.total_from}s without a meter may say 0 W too"] if notes and not sum(known_w) else []
    notes += [f"added up without {_listed(never)}"] if never else []
    return sum(known_w), "; ".join(notes)


def _origin(layout: Layout) -> str:
    parts = f"its {counted(len(layout.total), layout.total_from)}"
    return f"added up from {parts}: the PDU has no total of its own"


def _no_total(layout: Layout, answers: Answers, never: list[str]) -> str:
    """Return why there is no total: which rows of it, and which phases and outlets, have no value."""
    kinds = (("phase", layout.phases), ("outlet", layout.outlets))
    silent = [(kind, row.name, *_power(row, layout, answers)) for kind, rows in kinds for row in rows]
    missing = [f"{kind} {name}: {why}" for kind, name, power_w, why in silent if power_w is None]
    if not never and not silent:
        return f"the PDU has none of the numbers from which family {layout.family.name} reads watts"
    return "; ".join([*([] if never else ["the PDU has no total of its own"]), _listed([*never, *missing])])


def _listed(whys: list[str]) -> str:
    more = len(whys) - MOST_LISTED
    return "; ".join([*whys[:MOST_LISTED], *([f"and {more} more"] if more > 0 else [])])


def _power(row: Row, layout: Layout, answers: Answers) -> tuple[float | None, str]:
    if row.valid and not row.valid.allows(answers.get(row.valid.oid)):
        return None, "the PDU says that this sensor is not available"
    if row.power is None:
        return None, "the PDU has no such meter"
    power_w = value_of(layout.family, row.power, answers)
    return power_w, "" if power_w is not None else _why(row.power, answers)


def _why(cell: Cell, answers: Answers) -> str:
    answer = answers.get(cell.oid)
    if isinstance(answer, Nothing):
        return answer.why
    return f"the PDU says {answer!r}, its sign for none" if answer is not None else "the PDU has no such OID"


def _part(kind: str, row: Row, layout: Layout, answers: Answers, blank: Reading) -> Reading:
    power_w, why = _power(row, layout, answers)
    energy_j = value_of(layout.family, row.energy, answers) if row.energy else None
    step_w = row.power.step if row.power else blank.resolution_w
    part = f"{kind} {row.name}"
    return replace(blank, part=part, power_w=power_w, energy_j=energy_j, resolution_w=step_w, why=why)


def _outlet(row: Row, layout: Layout, answers: Answers, blank: Reading, nodes: Mapping[str, str]) -> Reading:
    return replace(_part("outlet", row, layout, answers, blank), node=nodes.get(row.name))


def _unmetered(rows: Iterable[Row], blank: Reading, nodes: Mapping[str, str]) -> Iterator[Reading]:
    metered = {row.name for row in rows}
    for outlet, node in nodes.items():
        if outlet not in metered:
            yield replace(blank, part=f"outlet {outlet}", node=node, why=f"the PDU measures no outlet {outlet}")


def _coarsest(rows: Iterable[Row]) -> float:
    return max((row.power.step for row in rows if row.power), default=1.0)
