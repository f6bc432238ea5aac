"""The energy of nodes as meters measured it, its cost, and the mean power of each quarter-hour.

A time is divided into slots: quarter-hours, at its ragged ends minutes, and at the ends of those readings, as far as
they are kept. The slots join the tables of means and readings as a temporary table, and the sums come by period, node
and way of measuring.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    CTE,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    FromClause,
    MetaData,
    Select,
    Table,
    Text,
    case,
    func,
    insert,
    select,
    tuple_,
)

from offpeak.ledger.backlog import QUARTER_S
from offpeak.ledger.energy_use import (
    GPU,
    GPU_BUSY,
    GPU_IDLE,
    WAYS,
    EnergySums,
    EnergyUse,
    UsePeriod,
    choose_sums,
    energy_use,
    periods,
)
from offpeak.ledger.prices import PriceReader, nan_to_none, slot_prices
from offpeak.ledger.tables import minutes, quarters, readings, series
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH, J_PER_MWH, MINUTE_S
from offpeak.model.time_range import TimeRange


class NodeMean(NamedTuple):
    """The mean draw [W] of a node over the measured part of the quarter-hour that begins at `at_unix_s`."""

    at_unix_s: int
    node: str
    power_w: float


def node_means(connection: Connection, span: TimeRange) -> list[NodeMean]:
    """Return the means of the quarter-hours that begin in that time; of two ways of measuring the outermost."""
    columns = (quarters.c.at_unix_s, series.c.node, series.c.way, quarters.c.energy_j, quarters.c.covered_s)
    within = (quarters.c.at_unix_s >= span.from_unix_s) & (quarters.c.at_unix_s < span.until_unix_s)
    of_nodes = (series.c.node != "") & series.c.way.in_(WAYS) & (quarters.c.covered_s > 0)
    found = connection.execute(select(*columns).join(series).where(within, of_nodes))
    by_way: dict[tuple[int, str], dict[str, float]] = {}
    for at_unix_s, node, way, energy_j, covered_s in found:
        ways = by_way.setdefault((at_unix_s, node), {})
        ways[way] = ways.get(way, 0.0) + energy_j / covered_s
    return [NodeMean(*key, ways[min(ways, key=WAYS.index)]) for key, ways in sorted(by_way.items())]


@dataclass(frozen=True)
class QuarterLoad:
    """The load of all metered nodes in each quarter-hour that begins then: mean power [W] and metered energy [J].

    NaN: no node was measured. `covered_s` is the sum of what readings cover of it, over the `parts` that were measured.
    """

    start_s: Int64
    power_w: Float64
    energy_j: Float64
    covered_s: Float64
    parts: int
    nodes: frozenset[str]


def quarter_load(connection: Connection, span: TimeRange) -> QuarterLoad:
    """Return the load in the quarter-hours that begin in that time; a node counts by its way with the most readings."""
    at = quarters.c.at_unix_s
    within = (at >= span.from_unix_s) & (at < span.until_unix_s) & (quarters.c.covered_s > 0)
    number, seconds = quarters.c.series, quarters.c.covered_s
    parts, lengths = _parts(connection, None), defaultdict[tuple[str, str], list[float]](list)
    # Without a join SQLite reads the table in its own order, which takes less than half the time.
    for of, length_s in connection.execute(select(number, func.sum(seconds)).where(within).group_by(number)):
        if of in parts:
            lengths[parts[of]].append(length_s)
    best: dict[str, tuple[float, int]] = {}
    for (node, way), each_s in lengths.items():
        best[node] = max(best.get(node, (0.0, 0)), (sum(each_s) / len(each_s), -WAYS.index(way)))
    chosen = {(node, WAYS[-at_way]) for node, (_, at_way) in best.items()}
    numbers = [of for of, part in parts.items() if part in chosen]
    energy_j = quarters.c.energy_j
    sums = (func.sum(energy_j / seconds), func.sum(energy_j), func.sum(seconds))
    wanted = number.in_(numbers)
    rows = [tuple(row) for row in connection.execute(select(at, *sums).where(within, wanted).group_by(at))]
    first_s = math.ceil(span.from_unix_s / QUARTER_S) * QUARTER_S
    start_s = np.arange(first_s, math.ceil(span.until_unix_s), QUARTER_S, dtype=np.int64)
    values = np.full((3, len(start_s)), np.nan)
    found = np.array(rows, np.float64).reshape(-1, 4)
    values[:, (found[:, 0].astype(np.int64) - first_s) // QUARTER_S] = found[:, 1:].T
    return QuarterLoad(start_s, values[0], values[1], np.nan_to_num(values[2]), len(numbers), frozenset(best))


COLUMN_TYPES: Mapping[type, BigInteger | Text] = {int: BigInteger(), str: Text()}


@contextmanager
def temporary_table(
    connection: Connection, rows: Sequence[Mapping[str, object]], *, name: str = "offpeak_scratch"
) -> Iterator[Table]:
    """Create a temporary table of these rows, at least one; the first row decides the types: text, integer, else float.

    A question that fails takes its transaction with it, and so the table.
    """
    columns: list[Column[Any]] = [
        Column(key, COLUMN_TYPES.get(type(value), Float(53))) for key, value in rows[0].items()
    ]
    table = Table(name, MetaData(), *columns, prefixes=["TEMPORARY"])
    table.create(connection)
    connection.execute(insert(table), rows)
    yield table
    table.drop(connection)


Number = ColumnElement[Any]


@dataclass(frozen=True)
class SlotJoin:
    """Slots joined with rows of energy, and the part of each row within the slot's part of the period."""

    joined: FromClause
    series: Number
    energy_j: Number
    covered_s: Number


@dataclass(frozen=True)
class Resolution:
    """The length of slots, and the join of a table of slots with its data.

    It takes the table of the series that are wanted of each period, too, None for all.
    """

    length_s: int
    inside: Callable[[Table, Table | None], SlotJoin]


def within_quarter(quarter_unix_s: Number) -> ColumnElement[bool]:
    """Return the condition for the minutes of the quarter-hour that begins then."""
    at = minutes.c.at_unix_s
    return (at >= quarter_unix_s) & (at < quarter_unix_s + QUARTER_S)


def within_minute(minute_unix_s: Number) -> ColumnElement[bool]:
    """Return the condition for the readings of the minute that begins then; all are cut at full minutes."""
    until = readings.c.until_unix_s
    return (until > minute_unix_s) & (until <= minute_unix_s + MINUTE_S)


def _of_means(table: Table, slot: Table, wanted: Table | None) -> SlotJoin:
    joined = _join(slot, wanted, table, table.c.at_unix_s == slot.c.at_unix_s)
    return SlotJoin(joined, table.c.series, table.c.energy_j * slot.c.share, table.c.covered_s * slot.c.share)


def _of_readings(slot: Table, wanted: Table | None) -> SlotJoin:
    rows = _near(slot, wanted)
    start, end = rows.c.from_unix_s, rows.c.until_unix_s
    first = case((start > slot.c.from_unix_s, start), else_=slot.c.from_unix_s)
    last = case((end < slot.c.until_unix_s, end), else_=slot.c.until_unix_s)
    joined = _join(slot, wanted, rows, (rows.c.at_unix_s == slot.c.at_unix_s) & (last > first))
    return SlotJoin(joined, rows.c.series, rows.c.energy_j * (last - first) / (end - start), last - first)


def _near(slot: Table, wanted: Table | None) -> CTE:
    """Return the readings of the slots' minutes, each read once, because rows are ordered by time, not by series."""
    minute = select(slot.c.at_unix_s).distinct().subquery()
    known = within_minute(minute.c.at_unix_s) & readings.c.energy_j.is_not(None)
    found = select(minute.c.at_unix_s, readings).join_from(minute, readings, known)
    if wanted is not None:
        pairs = select(slot.c.at_unix_s, wanted.c.series).join(wanted, wanted.c.period == slot.c.period)
        found = found.where(tuple_(minute.c.at_unix_s, readings.c.series).in_(pairs))
    # Else SQLite looks through all readings.
    return found.cte().prefix_with("MATERIALIZED")


def _join(slot: Table, wanted: Table | None, rows: FromClause, same: ColumnElement[bool]) -> FromClause:
    if wanted is None:
        return slot.join(rows, same)
    its = slot.join(wanted, wanted.c.period == slot.c.period)
    return its.join(rows, same & (rows.c.series == wanted.c.series))


QUARTERS, MINUTES = (
    Resolution(QUARTER_S, partial(_of_means, quarters)),
    Resolution(MINUTE_S, partial(_of_means, minutes)),
)
READINGS = Resolution(MINUTE_S, _of_readings)

PeriodSpan = tuple[int, float, float]
"""The number of a period, and from when until when."""


@dataclass(frozen=True)
class Slot:
    """A time that begins at a full minute, the number of its period, and the share of it within the period."""

    at_unix_s: int
    period: int
    from_unix_s: float
    until_unix_s: float
    share: float


Slots = list[Slot]


def slots_of(connection: Connection, periods: Sequence[UsePeriod]) -> Mapping[Resolution, Slots]:
    """Return the slots of the periods, by the table to look in.

    A slot that is only partly in a period uses finer data, or the proportional part if that was pruned.
    """
    spans = [(number, period.from_unix_s, period.until_unix_s) for number, period in enumerate(periods)]
    quarters, ragged = _split(connection, _slots(spans, QUARTER_S), within_quarter)
    minutes, rest = _split(connection, _slots(map(_span, ragged), MINUTE_S), within_minute)
    return {QUARTERS: quarters, MINUTES: minutes, READINGS: rest}


def _span(slot: Slot) -> PeriodSpan:
    return slot.period, slot.from_unix_s, slot.until_unix_s


def _slots(spans: Iterable[PeriodSpan], length_s: int) -> Slots:
    return [slot for span in spans for slot in _slots_of_span(*span, length_s)]


def _slots_of_span(number: int, from_unix_s: float, until_unix_s: float, length_s: int) -> Iterator[Slot]:
    first = math.floor(from_unix_s / length_s) * length_s
    for at_unix_s in range(first, math.ceil(until_unix_s), length_s):
        start, end = max(from_unix_s, at_unix_s), min(until_unix_s, at_unix_s + length_s)
        yield Slot(at_unix_s, number, float(start), float(end), (end - start) / length_s)


def _split(
    connection: Connection, slots: Slots, finer: Callable[[ColumnElement[Any]], ColumnElement[bool]]
) -> tuple[Slots, Slots]:
    """Return the slots to use as a whole, and those for which finer data are kept."""
    ragged = sorted({slot.at_unix_s for slot in slots if slot.share < 1})
    if not ragged:
        return slots, []
    with temporary_table(connection, [{"at_unix_s": at_unix_s} for at_unix_s in ragged]) as slot:
        at = slot.c.at_unix_s
        kept = set(connection.execute(select(at).where(select(1).where(finer(at)).exists())).scalars())
    fine = [slot.share < 1 and slot.at_unix_s in kept for slot in slots]
    return (
        [slot for slot, is_fine in zip(slots, fine, strict=True) if not is_fine],
        [slot for slot, is_fine in zip(slots, fine, strict=True) if is_fine],
    )


MeasuredSums = Mapping[tuple[int, str], Mapping[str, EnergySums]]
"""By number of the period and node, and in there by way."""
SeriesParts = Mapping[int, tuple[str, str]]
"""Node and way of a series, by its number."""


def _parts(connection: Connection, nodes: Collection[str] | None) -> SeriesParts:
    known = select(series.c.number, series.c.node, series.c.way).where(series.c.node != "", series.c.way.in_(WAYS))
    found = connection.execute(known)
    return {number: (node, way) for number, node, way in found if nodes is None or node in nodes}


def gpu_parts(connection: Connection, nodes: Collection[str] | None) -> SeriesParts:
    """Return the node of each series of a GPU, and in place of the way "idle" or "busy" and the meter."""
    known = select(series.c.number, series.c.node, series.c.meter, series.c.part).where(series.c.way == GPU)
    return {
        number: (node, f"{part.rpartition(' ')[2]} {meter}")
        for number, node, meter, part in connection.execute(known)
        if part.endswith((GPU_IDLE, GPU_BUSY)) and (nodes is None or node in nodes)
    }


def sum_energy(
    connection: Connection,
    periods: Sequence[UsePeriod],
    nodes: Sequence[Collection[str]] | None = None,
    *,
    read_prices: PriceReader = slot_prices,
    read_parts: Callable[[Connection, Collection[str] | None], SeriesParts] = _parts,
) -> tuple[MeasuredSums, str]:
    """Return the measured energy, and the currency of its cost; `nodes` are those of each period, all if not given.

    `read_parts` finds the series that count.

    Raises BadInput if prices of that time are in two currencies, unless `read_prices` reads the intensity only.
    """
    parts = read_parts(connection, None if nodes is None else {node for each in nodes for node in each})
    wanted = None if nodes is None else _wanted(parts, nodes)
    found: dict[tuple[int, str], dict[str, EnergySums]] = defaultdict(lambda: defaultdict(EnergySums))
    currency = ""
    for resolution, slots in (slots_of(connection, periods) if parts else {}).items():
        if slots:
            rows, currency_there = _priced(connection, slots, resolution.length_s, read_prices)
            currency = currency or currency_there
            _collect(connection, _EnergyQuery(rows, wanted, resolution), parts, found)
    return found, currency


class _EnergyQuery(NamedTuple):
    """Slots with their prices, the series that are wanted of each period, None for all, and where to look."""

    slots: Sequence[Mapping[str, object]]
    wanted: Sequence[Mapping[str, object]] | None
    resolution: Resolution


def _wanted(parts: SeriesParts, nodes: Sequence[Collection[str]]) -> list[dict[str, object]]:
    of = defaultdict[str, list[int]](list)
    for number, (node, _) in parts.items():
        of[node].append(number)
    return [
        {"period": period, "series": number}
        for period, each in enumerate(nodes)
        for node in each
        for number in of.get(node, ())
    ]


def _priced(
    connection: Connection, slots: Sequence[Slot], length_s: int, read_prices: PriceReader
) -> tuple[list[dict[str, object]], str]:
    at_unix_s, place = np.unique([slot.at_unix_s for slot in slots], return_inverse=True)
    prices = read_prices(connection, at_unix_s.astype(np.float64), length_s)
    values = [nan_to_none(each[place]) for each in (prices.price_per_mwh, prices.carbon_g_per_kwh)]
    rows = zip(slots, *values, strict=True)
    priced = [vars(slot) | {"price_per_mwh": price, "carbon_g_per_kwh": carbon} for slot, price, carbon in rows]
    return priced, prices.currency


def _collect(
    connection: Connection,
    question: _EnergyQuery,
    parts: SeriesParts,
    found: dict[tuple[int, str], dict[str, EnergySums]],
) -> None:
    """Add the data of one resolution to the sums so far."""
    if question.wanted is not None and not question.wanted:
        return
    few = (
        nullcontext()
        if question.wanted is None
        else temporary_table(connection, question.wanted, name="offpeak_wanted")
    )
    with temporary_table(connection, question.slots) as slot, few as wanted:
        sums_of = _sums(slot, question.resolution, wanted)
        for period, number, *values in connection.execute(sums_of):
            energy_j, price_j, unpriced_j, carbon_j, without_carbon_j, covered_s = values
            if number in parts:
                node, way = parts[number]
                carbon_g = None if carbon_j is None else carbon_j / J_PER_KWH
                sums = EnergySums(
                    energy_j=energy_j,
                    cost=(price_j or 0.0) / J_PER_MWH,
                    unpriced_j=unpriced_j,
                    carbon_g=carbon_g,
                    without_carbon_j=without_carbon_j,
                    covered_s=covered_s,
                    most_s=0.0,
                    series={number},
                )
                found[period, node][way].add(sums)


def _sums(slot: Table, resolution: Resolution, wanted: Table | None) -> Select[Any]:
    inside = resolution.inside(slot, wanted)
    energy_j, groups = inside.energy_j, (slot.c.period, inside.series)
    unpriced_j = case((slot.c.price_per_mwh.is_(None), energy_j), else_=0.0)
    without_carbon_j = case((slot.c.carbon_g_per_kwh.is_(None), energy_j), else_=0.0)
    values = (energy_j, energy_j * slot.c.price_per_mwh, unpriced_j, energy_j * slot.c.carbon_g_per_kwh)
    sums = [func.sum(value) for value in (*values, without_carbon_j, inside.covered_s)]
    return select(*groups, *sums).select_from(inside.joined).group_by(*groups)


def node_energy(connection: Connection, span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[EnergyUse]:
    """Return a row for each group of days and nodes that were measured, in their order.

    Raises BadInput if prices of that time are in two currencies.
    """
    days = periods(span, by, zone)
    found, currency = sum_energy(connection, days)
    groups: dict[tuple[str, ...], EnergySums] = defaultdict(EnergySums)
    for (period, node), ways in found.items():
        names = {"day": days[period].name, "node": node}
        groups[tuple(names[name] for name in by)].add(choose_sums(ways, _length_s(days[period])))
    return [energy_use(of, sums, currency) for of, sums in sorted(groups.items(), key=lambda group: group[0])]


def spans_energy(
    connection: Connection, spans: Sequence[TimeRange], nodes: Sequence[Collection[str]]
) -> list[dict[str, EnergyUse]]:
    """Return the energy of nodes by node for each span, none of which is empty; unmeasured nodes are missing.

    All spans are queried at once. Raises BadInput like `node_energy`.
    """
    each = [UsePeriod("", span.from_unix_s, span.until_unix_s) for span in spans]
    answers: list[dict[str, EnergyUse]] = [{} for _ in spans]
    if spans:
        found, currency = sum_energy(connection, each, nodes)
        for (number, node), ways in found.items():
            answers[number][node] = energy_use((node,), choose_sums(ways, _length_s(each[number])), currency)
    return answers


def _length_s(period: UsePeriod) -> float:
    return period.until_unix_s - period.from_unix_s
