"""What meters said that nodes used, and what that cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, Table, case, func, select

from offpeak.ledger.buckets import MINUTE_S, QUARTER_S
from offpeak.ledger.scratch import scratch
from offpeak.ledger.slot_prices import SlotPrices, nan_to_none, slot_prices
from offpeak.ledger.slots import Slot, slots_of
from offpeak.ledger.tables import minutes, quarters, series
from offpeak.ledger.used import Period, Used, periods
from offpeak.time_range import TimeRange

WAYS = ("snmp", "dcmi", "redfish", "slurm", "rapl")
"""The ways of measuring whose parts add up to a node, from the outlet inwards. Of two that know the same share of the
time the first is taken, never both: they measure the same watts."""

J_PER_MWH, J_PER_KWH = 3.6e9, 3.6e6


@dataclass
class _Sums:
    """What one way of measuring says of one node in one period, or all that is asked for of one group."""

    energy_j: float = 0.0
    cost: float = 0.0
    unpriced_j: float = 0.0
    carbon_g: float | None = None
    covered_s: float = 0.0
    most_s: float = 0.0
    series: set[int] = field(default_factory=set)

    def add(self, other: "_Sums") -> None:
        self.energy_j += other.energy_j
        self.cost += other.cost
        self.unpriced_j += other.unpriced_j
        self.covered_s += other.covered_s
        self.most_s += other.most_s
        self.series |= other.series
        if other.carbon_g is not None:
            self.carbon_g = (self.carbon_g or 0.0) + other.carbon_g

    @property
    def covered(self) -> float:
        return self.covered_s / self.most_s if self.most_s else 0.0


def node_energy(connection: Connection, span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[Used]:
    """Return a row for each group of days and nodes that were measured, in their order.

    BadInput where prices of that time are in two currencies.
    """
    days = periods(span, by, zone)
    measured: dict[tuple[int, str], dict[str, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
    currency = ""
    for table, length_s, slots in zip(
        (quarters, minutes), (QUARTER_S, MINUTE_S), slots_of(connection, days), strict=True
    ):
        if slots:
            prices = slot_prices(connection, np.array([slot.at_unix_s for slot in slots], np.float64), length_s)
            currency = currency or prices.currency
            _collect(connection, _rows(slots, prices), table, measured)
    return _groups(measured, by, days, currency)


def _rows(slots: Sequence[Slot], prices: SlotPrices) -> list[dict[str, object]]:
    values = zip(slots, nan_to_none(prices.price_per_mwh), nan_to_none(prices.carbon_g_per_kwh), strict=True)
    return [vars(slot) | {"price_per_mwh": price, "carbon_g_per_kwh": carbon} for slot, price, carbon in values]


def _collect(
    connection: Connection,
    slots: Sequence[Mapping[str, object]],
    table: Table,
    measured: dict[tuple[int, str], dict[str, _Sums]],
) -> None:
    """Add what the table says to what is measured so far, by period and node, and by way."""
    named = connection.execute(select(series.c.number, series.c.node, series.c.way).where(series.c.node != ""))
    of = {number: (node, way) for number, node, way in named}
    with scratch(connection, slots) as slot:
        for period, number, energy_j, price_j, unpriced_j, carbon_j, covered_s in connection.execute(
            _sums(slot, table)
        ):
            node, way = of.get(number, ("", ""))
            if way in WAYS:
                carbon_g = None if carbon_j is None else carbon_j / J_PER_KWH
                sums = _Sums(energy_j, (price_j or 0.0) / J_PER_MWH, unpriced_j, carbon_g, covered_s, 0.0, {number})
                measured[period, node][way].add(sums)


def _sums(slot: Table, table: Table) -> Select[Any]:
    energy_j = table.c.energy_j * slot.c.share
    unpriced_j = case((slot.c.price_per_mwh.is_(None), energy_j), else_=0.0)
    values = (energy_j, energy_j * slot.c.price_per_mwh, unpriced_j, energy_j * slot.c.carbon_g_per_kwh)
    sums = [func.sum(value) for value in (*values, table.c.covered_s * slot.c.share)]
    groups = (slot.c.period, table.c.series)
    return select(*groups, *sums).join_from(slot, table, table.c.at_unix_s == slot.c.at_unix_s).group_by(*groups)


def _groups(
    measured: Mapping[tuple[int, str], Mapping[str, _Sums]], by: Sequence[str], days: Sequence[Period], currency: str
) -> list[Used]:
    groups: dict[tuple[str, ...], _Sums] = defaultdict(_Sums)
    for (period, node), ways in measured.items():
        length_s = days[period].until_unix_s - days[period].from_unix_s
        names = {"day": days[period].name, "node": node}
        groups[tuple(names[name] for name in by)].add(_chosen(ways, length_s))
    return [_used(of, sums, currency) for of, sums in sorted(groups.items(), key=lambda group: group[0])]


def _chosen(ways: Mapping[str, _Sums], length_s: float) -> _Sums:
    for sums in ways.values():
        sums.most_s = length_s * len(sums.series)
    return ways[max(ways, key=lambda way: (round(ways[way].covered, 2), -WAYS.index(way)))]


def _used(of: Iterable[str], sums: _Sums, currency: str) -> Used:
    cost = sums.cost if currency and sums.unpriced_j < sums.energy_j else None
    return Used(
        tuple(of), sums.energy_j, cost, currency, sums.unpriced_j, sums.carbon_g, covered=min(1.0, sums.covered)
    )
