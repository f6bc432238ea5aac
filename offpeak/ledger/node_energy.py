"""The energy of nodes as meters measured it, its cost, and the mean power of each quarter-hour.

A time is divided into quarter-hours, in each of which one meter of a node counts (`meter_choice`), at one price. Where
a time begins or ends within a quarter-hour, its minutes and readings say which part of it counts, as far as they are
kept, else its mean does.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, Connection, Select, Table, case, func, select, tuple_

from offpeak.ledger.energy_use import EnergySums, EnergyUse, UsePeriod, energy_use, periods
from offpeak.ledger.meter_choice import ChosenRows, MeterChoice, choose_meters, temporary_table
from offpeak.ledger.prices import PriceReader, nan_to_none, slot_prices
from offpeak.ledger.tables import minutes, quarters, readings
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH, J_PER_MWH, MINUTE_S, QUARTER_S
from offpeak.model.time_range import TimeRange


class NodeMean(NamedTuple):
    """The mean draw [W] of a node over the measured part of the quarter-hour that begins at `at_unix_s`."""

    at_unix_s: int
    node: str
    power_w: float


def node_means(connection: Connection, span: TimeRange) -> list[NodeMean]:
    """Return the means of the quarter-hours that begin in that time."""
    choice = choose_meters(connection, span)
    by_node: dict[tuple[int, str], float] = {}
    with choice.rows(connection) as chosen:
        columns = (quarters.c.at_unix_s, quarters.c.series, quarters.c.energy_j, quarters.c.covered_s)
        question = select(*columns).select_from(chosen.joined).where(_measured_in(span), chosen.share > 0)
        for at_unix_s, number, energy_j, covered_s in connection.execute(question):
            key = at_unix_s, choice.node_of[number]
            by_node[key] = by_node.get(key, 0.0) + energy_j / covered_s
    return [NodeMean(*key, power_w) for key, power_w in sorted(by_node.items())]


def _measured_in(span: TimeRange) -> ColumnElement[bool]:
    """Return the condition for what was measured of the quarter-hours that begin in that time."""
    at = quarters.c.at_unix_s
    return (at >= span.from_unix_s) & (at < span.until_unix_s) & (quarters.c.covered_s > 0)


@dataclass(frozen=True)
class QuarterLoad:
    """The load of all metered nodes in each quarter-hour that begins then: mean power [W] and metered energy [J].

    NaN: no node was measured. `covered_s` is the sum of what readings cover of it over the `nodes` that were measured.
    """

    start_s: Int64
    power_w: Float64
    energy_j: Float64
    covered_s: Float64
    nodes: frozenset[str]


def quarter_load(connection: Connection, span: TimeRange) -> QuarterLoad:
    """Return the load in the quarter-hours that begin in that time."""
    choice = choose_meters(connection, span)
    at, energy_j, covered_s = quarters.c.at_unix_s, quarters.c.energy_j, quarters.c.covered_s
    with choice.rows(connection) as chosen:
        sums = (func.sum(energy_j / covered_s), func.sum(energy_j), func.sum(covered_s * chosen.share))
        question = select(at, *sums).select_from(chosen.joined).where(_measured_in(span), chosen.share > 0).group_by(at)
        rows = [tuple(row) for row in connection.execute(question)]
    numbers = connection.execute(select(quarters.c.series).where(_measured_in(span)).distinct()).scalars()
    nodes = frozenset(choice.node_of[number] for number in numbers if number in choice.node_of)
    first_s = math.ceil(span.from_unix_s / QUARTER_S) * QUARTER_S
    start_s = np.arange(first_s, math.ceil(span.until_unix_s), QUARTER_S, dtype=np.int64)
    values = np.full((3, len(start_s)), np.nan)
    found = np.array(rows, np.float64).reshape(-1, 4)
    values[:, (found[:, 0].astype(np.int64) - first_s) // QUARTER_S] = found[:, 1:].T
    return QuarterLoad(start_s, values[0], values[1], np.nan_to_num(values[2]), nodes)


SeriesSums = Mapping[tuple[int, int], EnergySums]
"""By number of the period and series."""


def sum_energy(
    connection: Connection,
    periods: Sequence[UsePeriod],
    nodes: Sequence[Collection[str]] | None = None,
    *,
    read_prices: PriceReader = slot_prices,
) -> tuple[Mapping[tuple[int, str], EnergySums], str]:
    """Return the measured energy by number of the period and node, and the currency of its cost.

    `nodes` are those of each period, all if not given. Raises BadInput like `sum_series`.
    """
    whole = TimeRange(min(each.from_unix_s for each in periods), max(each.until_unix_s for each in periods))
    choice = choose_meters(connection, whole, None if nodes is None else set().union(*nodes))
    found, currency = sum_series(connection, periods, choice, nodes, read_prices=read_prices)
    sums: dict[tuple[int, str], EnergySums] = defaultdict(EnergySums)
    for (period, number), each in found.items():
        sums[period, choice.node_of[number]].add(each)
    return sums, currency


def sum_series(
    connection: Connection,
    periods: Sequence[UsePeriod],
    choice: MeterChoice,
    nodes: Sequence[Collection[str]] | None = None,
    *,
    read_prices: PriceReader = slot_prices,
) -> tuple[SeriesSums, str]:
    """Return the energy of the series that count, and the currency of its cost; `nodes` as `sum_energy`.

    Raises BadInput if prices of that time are in two currencies, unless `read_prices` reads the intensity only.
    """
    found: dict[tuple[int, int], EnergySums] = defaultdict(EnergySums)
    slots, currency = _priced_slots(connection, periods, read_prices) if choice.node_of else ([], "")
    if not slots:
        return found, currency
    with temporary_table(connection, slots) as slot, choice.rows(connection, slot, nodes) as chosen:
        for period, number, energy_j, price_j, unpriced_j, carbon_j, without_carbon_j, covered_s in connection.execute(
            _sums(slot, chosen)
        ):
            carbon_g = None if carbon_j is None else carbon_j / J_PER_KWH
            cost = (price_j or 0.0) / J_PER_MWH
            found[period, number].add(EnergySums(energy_j, cost, unpriced_j, carbon_g, without_carbon_j, covered_s))
        columns = (*slot.c, quarters.c.series, quarters.c.energy_j, quarters.c.covered_s, chosen.share.label("part"))
        partly = select(*columns).select_from(chosen.joined).where(chosen.share > 0, slot.c.share < 1)
        rows = connection.execute(partly).all()
    finer = _read_finer(connection, rows) if rows else ()
    for row in rows:
        mean = _Mean(row.at_unix_s, QUARTER_S, row.energy_j, row.covered_s)
        energy_j, covered_s = _within(mean, row.series, row.from_unix_s, row.until_unix_s, finer)
        if covered_s or energy_j:
            price, carbon = row.price_per_mwh, row.carbon_g_per_kwh
            sums = EnergySums(energy_j, covered_s=covered_s * row.part)
            sums.cost, sums.unpriced_j = (0.0, energy_j) if price is None else (energy_j * price / J_PER_MWH, 0.0)
            sums.without_carbon_j = energy_j if carbon is None else 0.0
            sums.carbon_g = None if carbon is None else energy_j * carbon / J_PER_KWH
            found[row.period, row.series].add(sums)
    return found, currency


def _priced_slots(
    connection: Connection, periods: Sequence[UsePeriod], read_prices: PriceReader
) -> tuple[list[dict[str, object]], str]:
    """Return the quarter-hours of each period, the `share` of each in it, and their prices; and the currency."""
    slots: list[dict[str, object]] = []
    begins_s: list[int] = []
    for number, period in enumerate(periods):
        first_s = math.floor(period.from_unix_s / QUARTER_S) * QUARTER_S
        for at_unix_s in range(first_s, math.ceil(period.until_unix_s), QUARTER_S):
            start_s = float(max(period.from_unix_s, at_unix_s))
            end_s = float(min(period.until_unix_s, at_unix_s + QUARTER_S))
            share, edges = (end_s - start_s) / QUARTER_S, {"from_unix_s": start_s, "until_unix_s": end_s}
            slots.append({"at_unix_s": at_unix_s, "period": number, "share": share, **edges})
            begins_s.append(at_unix_s)
    if not slots:
        return [], ""
    each_s, place = np.unique(begins_s, return_inverse=True)
    prices = read_prices(connection, each_s.astype(np.float64), QUARTER_S)
    values = [nan_to_none(each[place]) for each in (prices.price_per_mwh, prices.carbon_g_per_kwh)]
    priced = zip(slots, *values, strict=True)
    return [
        slot | {"price_per_mwh": price, "carbon_g_per_kwh": carbon} for slot, price, carbon in priced
    ], prices.currency


def _sums(slot: Table, chosen: ChosenRows) -> Select[Any]:
    """Return the sums by period and series over the quarter-hours that are wholly in a period."""
    energy_j, groups = quarters.c.energy_j, (slot.c.period, quarters.c.series)
    unpriced_j = case((slot.c.price_per_mwh.is_(None), energy_j), else_=0.0)
    without_carbon_j = case((slot.c.carbon_g_per_kwh.is_(None), energy_j), else_=0.0)
    values = (energy_j, energy_j * slot.c.price_per_mwh, unpriced_j, energy_j * slot.c.carbon_g_per_kwh)
    sums = [func.sum(value) for value in (*values, without_carbon_j, quarters.c.covered_s * chosen.share)]
    return (
        select(*groups, *sums).select_from(chosen.joined).where(chosen.share > 0, slot.c.share >= 1).group_by(*groups)
    )


class _Mean(NamedTuple):
    """The energy of a series in a quarter-hour, a minute, or a reading, and how much of it is covered."""

    at_unix_s: float
    length_s: float
    energy_j: float
    covered_s: float


_Finer = Mapping[tuple[int, int], list[_Mean]]
"""The parts of a quarter-hour or a minute, by its begin and the series."""
SAME_COVER_S = 0.5
"""Minutes of a quarter-hour that cover less than this of it less are all there, and so are readings of a minute."""


def _within(mean: _Mean, number: int, from_s: float, until_s: float, finer: Sequence[_Finer]) -> tuple[float, float]:
    """Return the energy and the covered seconds of the part of a mean that lies in a time.

    The parts of the mean decide if all of them are kept, else it is divided evenly: of an inner meter only those
    minutes are kept that the outer one misses, where single readings are not.
    """
    inside_s = min(until_s, mean.at_unix_s + mean.length_s) - max(from_s, mean.at_unix_s)
    if inside_s <= 0:
        return 0.0, 0.0
    parts = finer[0].get((int(mean.at_unix_s), number), []) if finer and inside_s < mean.length_s else []
    if parts and abs(sum(part.covered_s for part in parts) - mean.covered_s) < SAME_COVER_S:
        inside = [_within(part, number, from_s, until_s, finer[1:]) for part in parts]
        return sum(energy_j for energy_j, _ in inside), sum(covered_s for _, covered_s in inside)
    share = inside_s / mean.length_s
    return mean.energy_j * share, mean.covered_s * share


def _read_finer(connection: Connection, rows: Sequence[Any]) -> tuple[_Finer, _Finer]:
    """Return the minutes of these quarter-hours, and the readings of those minutes that a time begins or ends in."""
    in_quarters: dict[tuple[int, int], list[_Mean]] = defaultdict(list)
    in_minutes: dict[tuple[int, int], list[_Mean]] = defaultdict(list)
    pairs = {(row.at_unix_s, row.series) for row in rows}
    ends = {
        (int(edge_s // MINUTE_S * MINUTE_S), row.series)
        for row in rows
        for edge_s in (row.from_unix_s, row.until_unix_s)
        if edge_s % MINUTE_S
    }
    wanted = [
        {"at_unix_s": at_unix_s + minute_s, "series": number}
        for at_unix_s, number in pairs
        for minute_s in range(0, QUARTER_S, MINUTE_S)
    ]
    with temporary_table(connection, wanted) as want:
        same = (minutes.c.at_unix_s == want.c.at_unix_s) & (minutes.c.series == want.c.series)
        columns = (minutes.c.at_unix_s, minutes.c.series, minutes.c.energy_j, minutes.c.covered_s)
        for at_unix_s, number, energy_j, covered_s in connection.execute(
            select(*columns).join_from(want, minutes, same)
        ):
            quarter = at_unix_s // QUARTER_S * QUARTER_S, number
            in_quarters[quarter].append(_Mean(at_unix_s, MINUTE_S, energy_j, covered_s))
    if ends:
        with temporary_table(connection, [{"at_unix_s": at, "series": number} for at, number in sorted(ends)]) as want:
            # Rows are ordered by time: those of each minute are read once, for all series.
            minute, until = select(want.c.at_unix_s).distinct().subquery(), readings.c.until_unix_s
            inside = (until > minute.c.at_unix_s) & (until <= minute.c.at_unix_s + MINUTE_S)
            is_wanted = tuple_(minute.c.at_unix_s, readings.c.series).in_(select(want.c.at_unix_s, want.c.series))
            columns_there = (minute.c.at_unix_s, readings.c.series, readings.c.from_unix_s, until, readings.c.energy_j)
            question = select(*columns_there).join_from(minute, readings, inside)
            for at, number, start, end, energy_j in connection.execute(
                question.where(readings.c.energy_j.is_not(None), is_wanted)
            ):
                in_minutes[at, number].append(_Mean(start, end - start, energy_j, end - start))
    return in_quarters, in_minutes


def node_energy(connection: Connection, span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[EnergyUse]:
    """Return a row for each group of days and nodes that were measured, in their order.

    The measured share of a day is that of all nodes which are measured in the time. Raises BadInput if prices of that
    time are in two currencies.
    """
    days = periods(span, by, zone)
    found, currency = sum_energy(connection, days)
    nodes = 1 if "node" in by else len({node for _, node in found})
    groups: dict[tuple[str, ...], EnergySums] = defaultdict(EnergySums)
    length_s: dict[tuple[str, ...], float] = {}
    for (period, node), sums in found.items():
        names = {"day": days[period].name, "node": node}
        of = tuple(names[name] for name in by)
        groups[of].add(sums)
        length_s[of] = days[period].until_unix_s - days[period].from_unix_s
    return [energy_use(of, sums, currency, nodes * length_s[of]) for of, sums in sorted(groups.items())]


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
        for (number, node), sums in found.items():
            length_s = each[number].until_unix_s - each[number].from_unix_s
            answers[number][node] = energy_use((node,), sums, currency, length_s)
    return answers
