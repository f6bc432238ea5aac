"""A PDU as a meter: one walk finds its rows, then few packets read them.

Readings are the total, phases, outlets with their nodes, and the reason for each missing value. The uptime of the PDU
reveals a restart, after which its rows may have changed.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offpeak.errors import NoAnswer, NotSupported
from offpeak.machines.inventory import Pdu
from offpeak.power.drivers.logins import Logins
from offpeak.power.meters.port import Reading
from offpeak.power.meters.snmp.client import (
    DEFAULT_PATIENCE,
    NoSnmpValue,
    SnmpClient,
    SnmpPatience,
    SnmpValues,
    parse_snmp_number,
)
from offpeak.power.meters.snmp.engines import SnmpEngines, SnmpLogin, read_snmp_login
from offpeak.power.meters.snmp.family import SYS_OBJECT_ID, PduFamily, candidate_families, is_of_family, read_family
from offpeak.power.meters.snmp.layout import (
    PduCell,
    PduLayout,
    PduRow,
    cell_value_of,
    find_doubts,
    find_layout,
    parts_add_up,
    sum_power,
)
from offpeak.text import counted

TICKS_PER_S = 100.0
SLOWEST_CLOCK = 0.9
"""The slowest plausible rate of a PDU's clock."""
LATE_S = 3.0
"""The delay of an answer may exceed that of the previous answer by so much."""

MOST_LISTED = 6
"""The number of rows without a value that are named; the others are counted, as a PDU has up to 48 outlets."""

SYS_UPTIME = "1.3.6.1.2.1.1.3.0"
MAX_WALK_S = 60.0
"""The search for rows takes many packets, each of which may be slow. It is given up after this time."""


@dataclass(frozen=True)
class Uptime:
    """The reported uptime of a PDU [hundredths of a second], when, and whether it is stuck: some PDUs never count."""

    ticks: float
    at_unix_s: float
    stands_still: bool = False


def next_uptime(before: Uptime | None, ticks: float, at_unix_s: float) -> Uptime:
    """Return the next uptime after `before`."""
    return Uptime(ticks, at_unix_s, stands_still=before is not None and before.ticks == ticks)


def has_restarted(before: Uptime | None, now: Uptime) -> bool:
    """Tell whether the uptime has grown by less than the elapsed time, or has decreased.

    A wrap (after 497 days) counts as a restart. A stuck uptime counts as one restart.
    """
    if before is None or (now.stands_still and before.stands_still):
        return False
    passed_s = max(0.0, SLOWEST_CLOCK * (now.at_unix_s - before.at_unix_s) - LATE_S)
    return now.ticks < before.ticks + passed_s * TICKS_PER_S


def make_readings(
    pdu: Pdu, layout: PduLayout, answers: SnmpValues, at_unix_s: float, *, note: str = ""
) -> tuple[Reading, ...]:
    """Return the total first, then phases and outlets; an outlet with a node but without a meter has no value.

    `note` is reported with the total, and so are contradictions to it.
    """
    blank = Reading(pdu.name, "snmp", "total", None, at_unix_s)
    phases = tuple(_part_reading("phase", row, layout, answers, blank) for row in layout.phases)
    nodes = dict(pdu.outlets)
    outlets = tuple(
        replace(_part_reading("outlet", row, layout, answers, blank), node=nodes.get(row.name))
        for row in layout.outlets
    )
    total = _total_reading(layout, answers, blank)
    total = _parts_instead_of_zero(total, phases, outlets)
    doubted = (*layout.doubts, *find_doubts(total, phases, outlets))
    why = "; ".join(filter(None, (note, total.why, *(f"doubtful: {doubt}" for doubt in doubted))))
    return (replace(total, why=why), *phases, *outlets, *_unmetered_outlets(layout.outlets, blank, nodes))


def _parts_instead_of_zero(total: Reading, phases: Sequence[Reading], outlets: Sequence[Reading]) -> Reading:
    """Return the total, or the sum of its parts if the total is 0 W and its parts are not."""
    for parts, name in ((phases, "phases"), (outlets, "outlets")):
        sum_w = sum_power(parts)
        step_w = max((part.resolution_w for part in (total, *parts)), default=1.0)
        if total.power_w == 0 and sum_w is not None and not parts_add_up(sum_w, 0.0, step_w):
            message = f"doubtful: 0 W in all, but its {name} add up to {sum_w:g} W, which are taken instead"
            return replace(total, power_w=sum_w, resolution_w=step_w, why="; ".join(filter(None, (total.why, message))))
    return total


def _total_reading(layout: PduLayout, answers: SnmpValues, blank: Reading) -> Reading:
    power_w, why = _total_power(layout, answers)
    return replace(
        blank,
        power_w=power_w,
        energy_j=_total_energy_j(layout, answers),
        resolution_w=max((row.power.step for row in layout.total if row.power), default=1.0),
        why=why,
    )


def _total_energy_j(layout: PduLayout, answers: SnmpValues) -> float | None:
    """Return the joules of all rows that had a counter when they were found; None unless each still has one.

    If one PDU of a chain has no counter, the counters of the others do not add up to the whole.
    """
    rows = [row for row in layout.energy if row.energy and row.energy.oid not in layout.silent]
    if _lacks_a_counter(layout, rows):
        return None
    energies_j = [cell_value_of(layout.family, row.energy, answers) for row in rows if row.energy]
    known_j = [energy_j for energy_j in energies_j if energy_j is not None]
    return sum(known_j) if known_j and len(known_j) == len(rows) else None


def _lacks_a_counter(layout: PduLayout, counted_rows: Sequence[PduRow]) -> bool:
    """Tell whether a part of the PDU has watts in its total, but no counter.

    Within one table, a part is a row. Between tables, such as phases and PDUs, it is one PDU of the chain: the first
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


def _total_power(layout: PduLayout, answers: SnmpValues) -> tuple[float | None, str]:
    """Return the watts of all rows and a note, no sum if a row lost its value; rows that never had one are named."""
    known_w: list[float] = []
    lost: list[str] = []
    never: list[str] = []
    for row in layout.total:
        power_w, why = _row_power(row, layout, answers)
        if power_w is not None:
            known_w.append(power_w)
        else:
            had_one = row.power and row.power.oid not in layout.silent
            (lost if had_one else never).append(f"{layout.total_from} {row.name}: {why}")
    if lost:
        return None, _list_reasons([*lost, *never])
    if not known_w:
        return None, _no_total_reason(layout, answers, never)
    notes = [] if layout.total_from == "row" else [_origin_note(layout)]
    notes += [f"doubtful: {layout.total_from}s without a meter may show 0 W, too"] if notes and not sum(known_w) else []
    notes += [f"added up without {_list_reasons(never)}"] if never else []
    return sum(known_w), "; ".join(notes)


def _origin_note(layout: PduLayout) -> str:
    parts = f"its {counted(len(layout.total), layout.total_from)}"
    return f"added up from {parts}: the PDU has no total of its own"


def _no_total_reason(layout: PduLayout, answers: SnmpValues, never: list[str]) -> str:
    """Return why there is no total: its rows, phases and outlets without a value."""
    kinds = (("phase", layout.phases), ("outlet", layout.outlets))
    silent = [(kind, row.name, *_row_power(row, layout, answers)) for kind, rows in kinds for row in rows]
    missing = [f"{kind} {name}: {why}" for kind, name, power_w, why in silent if power_w is None]
    if not never and not silent:
        return f"the PDU has none of the numbers from which family {layout.family.name} reads watts"
    return "; ".join([*([] if never else ["the PDU has no total of its own"]), _list_reasons([*never, *missing])])


def _list_reasons(reasons: list[str]) -> str:
    more = len(reasons) - MOST_LISTED
    return "; ".join([*reasons[:MOST_LISTED], *([f"and {more} more"] if more > 0 else [])])


def _row_power(row: PduRow, layout: PduLayout, answers: SnmpValues) -> tuple[float | None, str]:
    if row.valid and not row.valid.allows(answers.get(row.valid.oid)):
        return None, "the PDU reports that this sensor is not available"
    if row.power is None:
        return None, "the PDU has no such meter"
    power_w = cell_value_of(layout.family, row.power, answers)
    return power_w, "" if power_w is not None else _no_value_reason(row.power, answers)


def _no_value_reason(cell: PduCell, answers: SnmpValues) -> str:
    answer = answers.get(cell.oid)
    if isinstance(answer, NoSnmpValue):
        return answer.why
    return f"the PDU reports {answer!r}, which means no value" if answer is not None else "the PDU has no such OID"


def _part_reading(kind: str, row: PduRow, layout: PduLayout, answers: SnmpValues, blank: Reading) -> Reading:
    power_w, why = _row_power(row, layout, answers)
    energy_j = cell_value_of(layout.family, row.energy, answers) if row.energy else None
    step_w = row.power.step if row.power else blank.resolution_w
    part = f"{kind} {row.name}"
    return replace(blank, part=part, power_w=power_w, energy_j=energy_j, resolution_w=step_w, why=why)


def _unmetered_outlets(rows: Iterable[PduRow], blank: Reading, nodes: Mapping[str, str]) -> Iterator[Reading]:
    metered = {row.name for row in rows}
    for outlet, node in nodes.items():
        if outlet not in metered:
            yield replace(blank, part=f"outlet {outlet}", node=node, why=f"the PDU measures no outlet {outlet}")


class SnmpPdu:
    """One PDU. It shares engines and logins with all other PDUs; `clock` returns the time of a reading."""

    way = "snmp"

    def __init__(
        self,
        pdu: Pdu,
        *,
        engines: SnmpEngines,
        logins: Logins,
        patience: SnmpPatience = DEFAULT_PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = pdu.name
        self._pdu, self._logins, self._clock = pdu, logins, clock
        self._engines = engines
        self._named = None if pdu.family == "auto" else read_family(pdu.family)
        self._detected: PduFamily | None = None
        self._agent = SnmpClient(pdu, engines=engines, user=self, patience=patience)
        self._layout: PduLayout | None = None
        self._uptime: Uptime | None = None

    async def read(self) -> tuple[Reading, ...]:
        """Return the total and all phases and outlets. Raises DeviceError if the PDU cannot be read at all."""
        login = read_snmp_login(self._pdu)
        if login.version != "3":
            return await self._read(login)
        # A refused key must not be sent again, neither to this PDU nor to others.
        secret = login.keys
        return await self._logins.log_in(self._pdu.credential, self._pdu.host, lambda: self._read(login), secret=secret)

    async def close(self) -> None:
        """Forget the layout and release the shared engines."""
        self._layout = self._uptime = self._detected = None
        self._engines.release(self)

    async def _read(self, login: SnmpLogin) -> tuple[Reading, ...]:
        note = ""
        layout = self._layout or await self._look_up(login)
        answers = await self._ask(login, layout)
        if moved := self._moved(layout, answers):
            note = f"{moved}: its rows were looked up again"
            self._detected = None
            layout = await self._look_up(login)
            answers = await self._ask(login, layout)
        self._uptime = self._uptime_in(answers)
        return make_readings(self._pdu, layout, answers, self._clock(), note=note)

    async def _ask(self, login: SnmpLogin, layout: PduLayout) -> SnmpValues:
        return await self._agent.get(login, (SYS_UPTIME, *layout.oids()))

    def _moved(self, layout: PduLayout, answers: SnmpValues) -> str:
        """Return why the known rows may have moved, "" if they have not."""
        uptime = self._uptime_in(answers)
        if uptime is not None and has_restarted(self._uptime, uptime):
            return "the PDU restarted"
        rows = (*layout.total, *layout.energy, *layout.phases, *layout.outlets)
        for row in rows:
            if any(_is_gone(answers, oid) for oid in row.oids()) or _is_renamed(row, answers):
                return f"row {row.name} is gone"
        return ""

    def _uptime_in(self, answers: SnmpValues) -> Uptime | None:
        ticks = parse_snmp_number(answers[SYS_UPTIME])
        return None if ticks is None else next_uptime(self._uptime, ticks, self._clock())

    async def _look_up(self, login: SnmpLogin) -> PduLayout:
        # Find a dead PDU before it takes a turn from others.
        await self._agent.get(login, (SYS_UPTIME,))
        try:
            async with self._engines.listing(), asyncio.timeout(MAX_WALK_S):
                layout = await self._found(login)
        except TimeoutError:
            hint = "it answers too slowly; read fewer PDUs at the same time"
            raise NoAnswer(f"{self.name}: took over {MAX_WALK_S:g} s to list its rows", hint=hint) from None
        # A PDU without rows may still be starting: the next reading searches again.
        self._layout = layout if layout.oids() else None
        return layout

    async def _found(self, login: SnmpLogin) -> PduLayout:
        if self._detected:
            return await self._laid_out(login, self._detected)
        if self._named and not self._named.by_model():
            return await self._laid_out(login, self._named)
        value = (await self._agent.get(login, (SYS_OBJECT_ID,)))[SYS_OBJECT_ID]
        system = value if isinstance(value, str) else ""
        if self._named:
            return await self._laid_out(login, self._named.for_system(system))
        likeliest, *others = candidate_families(system)
        best = await self._laid_out(login, likeliest)
        for family in others:
            if best.tells():
                break
            if await self._has_total(login, family):
                laid_out = await self._laid_out(login, family)
                best = laid_out if laid_out.tells() else best
        if best.tells() or is_of_family(best.family, system):
            self._detected = best.family
            return best
        hint = "name its family in the inventory, or write one as docs/how-to/pdus.md explains"
        raise NotSupported(f"{self.name}: sysObjectID {system or 'none'} is of no known family of PDUs", hint=hint)

    async def _has_total(self, login: SnmpLogin, family: PduFamily) -> bool:
        columns = (source.power for source in family.sources["total"] if source.power)
        return any([await self._agent.has(login, column.names or column.oid) for column in columns])

    async def _laid_out(self, login: SnmpLogin, family: PduFamily) -> PduLayout:
        walked: SnmpValues = {}
        problems = []
        for column in family.columns():
            below, error = await self._agent.walk(login, column)
            walked |= below
            problems += [error] if error else []
        return find_layout(family, walked, problems)


def _is_gone(answers: SnmpValues, oid: str) -> bool:
    answer = answers.get(oid)
    return isinstance(answer, NoSnmpValue) and answer.gone


def _is_renamed(row: PduRow, answers: SnmpValues) -> bool:
    return any(cell.name_oid and answers.get(cell.name_oid) != cell.name for cell in row.cells())
