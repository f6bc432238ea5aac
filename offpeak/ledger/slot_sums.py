"""The energy of periods, and what it cost, summed over means and readings: by period, node and way of measuring."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Select, Table, case, func, select

from offpeak.ledger.rungs import Rung
from offpeak.ledger.scratch import scratch
from offpeak.ledger.slot_prices import nan_to_none, slot_prices
from offpeak.ledger.slots import Slot, slots_of
from offpeak.ledger.tables import series
from offpeak.ledger.used import Period
from offpeak.ledger.way_sums import J_PER_KWH, J_PER_MWH, WAYS, Sums

Measured = Mapping[tuple[int, str], Mapping[str, Sums]]
"""By number of the period and node, and in there by way."""
Parts = Mapping[int, tuple[str, str]]
"""Node and way of a series, by its number."""


def measured(
    connection: Connection, periods: Sequence[Period], nodes: Sequence[Collection[str]] | None = None
) -> tuple[Measured, str]:
    """Return what meters said, and the currency of its cost; `nodes` are those of each period, all if not given.

    BadInput where prices of that time are in two currencies.
    """
    parts = _parts(connection, None if nodes is None else {node for each in nodes for node in each})
    wanted = None if nodes is None else _wanted(parts, nodes)
    found: dict[tuple[int, str], dict[str, Sums]] = defaultdict(lambda: defaultdict(Sums))
    currency = ""
    for rung, slots in slots_of(connection, periods).items():
        if slots and parts:
            rows, currency_there = _priced(connection, slots, rung.length_s)
            currency = currency or currency_there
            _collect(connection, _Question(rows, wanted, rung), parts, found)
    return found, currency


class _Question(NamedTuple):
    """Slots with their prices, the series that are wanted of each period, None for all, and where to look."""

    slots: Sequence[Mapping[str, object]]
    wanted: Sequence[Mapping[str, object]] | None
    rung: Rung


def _parts(connection: Connection, nodes: Collection[str] | None) -> Parts:
    known = select(series.c.number, series.c.node, series.c.way).where(series.c.node != "", series.c.way.in_(WAYS))
    found = connection.execute(known)
    return {number: (node, way) for number, node, way in found if nodes is None or node in nodes}


def _wanted(parts: Parts, nodes: Sequence[Collection[str]]) -> list[dict[str, object]]:
    of = defaultdict[str, list[int]](list)
    for number, (node, _) in parts.items():
        of[node].append(number)
    return [
        {"period": period, "series": number}
        for period, each in enumerate(nodes)
        for node in each
        for number in of.get(node, ())
    ]


def _priced(connection: Connection, slots: Sequence[Slot], length_s: int) -> tuple[list[dict[str, object]], str]:
    at_unix_s, place = np.unique([slot.at_unix_s for slot in slots], return_inverse=True)
    prices = slot_prices(connection, at_unix_s.astype(np.float64), length_s)
    values = [nan_to_none(each[place]) for each in (prices.price_per_mwh, prices.carbon_g_per_kwh)]
    rows = zip(slots, *values, strict=True)
    priced = [vars(slot) | {"price_per_mwh": price, "carbon_g_per_kwh": carbon} for slot, price, carbon in rows]
    return priced, prices.currency


def _collect(
    connection: Connection, question: _Question, parts: Parts, found: dict[tuple[int, str], dict[str, Sums]]
) -> None:
    """Add what the rung says to what was found so far."""
    if question.wanted is not None and not question.wanted:
        return
    few = nullcontext() if question.wanted is None else scratch(connection, question.wanted, name="offpeak_wanted")
    with scratch(connection, question.slots) as slot, few as wanted:
        sums_of = _sums(slot, question.rung, wanted)
        for period, number, energy_j, price_j, unpriced_j, carbon_j, covered_s in connection.execute(sums_of):
            if number in parts:
                node, way = parts[number]
                carbon_g = None if carbon_j is None else carbon_j / J_PER_KWH
                sums = Sums(energy_j, (price_j or 0.0) / J_PER_MWH, unpriced_j, carbon_g, covered_s, 0.0, {number})
                found[period, node][way].add(sums)


def _sums(slot: Table, rung: Rung, wanted: Table | None) -> Select[Any]:
    inside = rung.inside(slot, wanted)
    energy_j, groups = inside.energy_j, (slot.c.period, inside.series)
    unpriced_j = case((slot.c.price_per_mwh.is_(None), energy_j), else_=0.0)
    values = (energy_j, energy_j * slot.c.price_per_mwh, unpriced_j, energy_j * slot.c.carbon_g_per_kwh)
    sums = [func.sum(value) for value in (*values, inside.covered_s)]
    return select(*groups, *sums).select_from(inside.joined).group_by(*groups)
