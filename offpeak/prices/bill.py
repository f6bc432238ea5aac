"""The bill of metered energy under a tariff, position by position, and the charge for the highest quarter-hour.

Energy comes in quarter-hours, as grid operators meter it; a negative one is energy that the site feeds in. A position
is rounded to the cent, as on a bill, and the total is the sum of the positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.local_time import to_unix_s
from offpeak.model.step_series import Series, value_at
from offpeak.model.time_range import TimeRange
from offpeak.prices.rates import RateSchedule, RateWindow, TariffCalendar
from offpeak.prices.tariff import DemandCharge, Tariff

QUARTER_H = 0.25


@dataclass(frozen=True)
class BillLine:
    """A position: its quantity in `unit`, kWh or kW, and its cost."""

    name: str
    quantity: float
    unit: str
    cost: float


@dataclass(frozen=True)
class DemandPeak:
    """The highest quarter-hour of a period of a charge, and what it costs before tax; `share` of the period counts.

    `at_s` [Unix s] is its begin. `period` is "2026" or "2026-11". `unknown_s` of the period so far have no reading: a
    higher quarter-hour may be in them. A ratchet charges at least `ratchet_kw`, by the months before that have
    readings; `unknown_months` of those that count have none, or not of all their quarter-hours.
    """

    charge: DemandCharge
    period: str
    at_s: int
    power_kw: float
    share: float
    vat_percent: float = 0.0
    unknown_s: int = 0
    ratchet_kw: float = 0.0
    unknown_months: int = 0

    @property
    def name(self) -> str:
        """The position of the bill, "demand 2026-11"."""
        return f"{self.charge.name} {self.period}"

    @property
    def charged_kw(self) -> float:
        """The power that is charged."""
        return max(self.power_kw, self.ratchet_kw)

    @property
    def cost(self) -> float:
        """The price of the charged power in the part of the period that counts."""
        return self.charge.cost(self.charged_kw) * self.share

    @property
    def cost_with_tax(self) -> float:
        """The same with the value added tax."""
        return self.cost * (1 + self.vat_percent / 100)


@dataclass(frozen=True)
class Bill:
    """The positions, the tax last. `unpriced_kwh` have no known price, and `unknown_s` no known energy.

    `peaks` are those of the demand charges.
    """

    currency: str
    lines: tuple[BillLine, ...]
    unpriced_kwh: float
    unknown_s: int
    peaks: tuple[DemandPeak, ...] = ()

    @property
    def total(self) -> float:
        """The sum of the positions."""
        return round(sum(line.cost for line in self.lines), 2)


def make_bill(
    tariff: Tariff,
    start_s: Int64,
    energy_kwh: Float64,
    spot: Series | None = None,
    *,
    peaks: tuple[DemandPeak, ...] | None = None,
) -> Bill:
    """Return the bill of the quarter-hours that begin then [Unix s]; NaN is energy that is not known.

    `spot` is the price of the market. A charge per month or year counts with the part of it that the time covers; its
    peak is that of `peaks` if earlier quarter-hours count, too, else the highest of these.
    """
    market = np.full(len(start_s), np.nan) if spot is None else value_at(spot, start_s)
    if spot is not None and spot.currency != tariff.currency:
        hint = "write the tariff in the market's currency"
        raise BadPrices(f"{tariff.text}: is in {tariff.currency}, and the market in {spot.currency}", hint=hint)
    cells, known = tariff.calendar.cells(start_s), np.nan_to_num(energy_kwh)
    imported, exported = np.maximum(known, 0.0), np.maximum(-known, 0.0)
    lines = [line for each in (tariff.energy, *tariff.fees) for line in _energy_lines(each, start_s, imported, market)]
    if tariff.export and exported.any():
        lines += _energy_lines(tariff.export, start_s, exported, market, sign=-1)
    if peaks is None:
        peaks = demand_peaks(tariff, start_s, np.maximum(energy_kwh, 0.0) * (1000 / QUARTER_H))
    lines += [BillLine(peak.name, peak.charged_kw, "kW", round(peak.cost, 2)) for peak in peaks]
    if tariff.vat_percent:
        net = sum(line.cost for line in lines)
        lines.append(BillLine(f"tax {tariff.vat_percent:g} %", 0.0, "", round(net * tariff.vat_percent / 100, 2)))
    unpriced = np.isnan(tariff.energy.prices(cells, market))
    unknown_s = int(np.isnan(energy_kwh).sum()) * QUARTER_S
    return Bill(tariff.currency, tuple(lines), float(imported[unpriced].sum()), unknown_s, peaks)


def _energy_lines(
    schedule: RateSchedule, start_s: Int64, energy_kwh: Float64, market: Float64, *, sign: int = 1
) -> Iterator[BillLine]:
    cells = schedule.calendar.cells(start_s)
    cost = np.nan_to_num(schedule.prices(cells, market)) * energy_kwh / 1000
    window = schedule.table.ravel()[cells]
    for name in dict.fromkeys(each.name for each in schedule.windows):
        numbers = [number for number, each in enumerate(schedule.windows) if each.name == name]
        within = np.isin(window, numbers)
        of_tiers = _tier_cost(schedule, schedule.windows[numbers[0]], start_s, energy_kwh, within)
        total = float(cost[within].sum()) + of_tiers
        title = f"{schedule.title} {name}".strip().replace("_", " ")
        yield BillLine(title, float(energy_kwh[within].sum()), "kWh", round(sign * total, 2))


def _tier_cost(
    schedule: RateSchedule, window: RateWindow, start_s: Int64, energy_kwh: Float64, within: NDArray[np.bool_]
) -> float:
    """Return by how much the tiers change the cost of a position, which is of these quarter-hours.

    The energy of all positions fills the tiers of a month together, and each has its share of each tier. Tiers of a
    part of a month are that part.
    """
    if not window.tiers:
        return 0.0
    months = schedule.calendar.months(start_s)
    cost = 0.0
    for month in np.unique(months).tolist():
        first_s, after_s = _edges_s(schedule.calendar, np.array([month, month + 1]).astype("datetime64[M]"))
        inside = months == month
        part, kwh = int(inside.sum()) * QUARTER_S / (after_s - first_s), float(energy_kwh[inside].sum())
        of_position = float(energy_kwh[inside & within].sum())
        lower = 0.0
        for most_kwh, per_mwh in window.tiers:
            tier_kwh = min(kwh, most_kwh * part) - min(kwh, lower)
            lower = most_kwh * part
            cost += of_position * (tier_kwh / kwh if kwh else 0.0) * (per_mwh - window.per_mwh) / 1000
    return cost


def demand_peaks(
    tariff: Tariff, start_s: Int64, power_w: Float64, *, span: TimeRange | None = None
) -> tuple[DemandPeak, ...]:
    """Return the peak of each demand charge in each of its periods, of the quarter-hours that begin then [Unix s].

    NaN is a quarter-hour that is not known: it has no part in a peak. The bill is that of `span`, by default of these
    quarter-hours; those before it count for the peak: with those since January a month has its part of the year, and
    with those of the months before it a ratchet.
    """
    if len(start_s) == 0:
        return ()
    if np.any(np.diff(start_s) != QUARTER_S) or start_s[0] % QUARTER_S:
        raise BadPrices("the demand is not in quarter-hours", hint="give the mean of each quarter-hour, without gaps")
    billed = span or TimeRange(float(start_s[0]), float(start_s[-1]) + QUARTER_S)
    found = []
    for charge, name, mask, share in demand_periods(tariff, start_s, billed):
        within = np.flatnonzero(mask & ~np.isnan(power_w))
        if len(within):
            at = within[np.argmax(power_w[within])]
            power_kw, unknown_s = float(power_w[at]) / 1000, (int(mask.sum()) - len(within)) * QUARTER_S
            ratchet = _ratchet(charge, tariff.calendar, int(start_s[at]), start_s, power_w)
            found.append(
                DemandPeak(charge, name, int(start_s[at]), power_kw, share, tariff.vat_percent, unknown_s, *ratchet)
            )
    return tuple(found)


def _ratchet(
    charge: DemandCharge, calendar: TariffCalendar, at_s: int, start_s: Int64, power_w: Float64
) -> tuple[float, int]:
    """Return the least power that is charged in the month of an instant [kW], and how many months of it are unknown."""
    if charge.ratchet is None:
        return 0.0, 0
    months, month = calendar.months(start_s), int(calendar.months(np.array([at_s], np.int64))[0])
    highest_w, unknown_months = 0.0, 0
    for before in range(month - charge.ratchet.months_back, month):
        if before % 12 in charge.ratchet.months:
            of_month = power_w[months == before]
            first_s, after_s = _edges_s(calendar, np.array([before, before + 1]).astype("datetime64[M]"))
            known_w = of_month[~np.isnan(of_month)]
            unknown_months += len(known_w) * QUARTER_S < after_s - first_s
            highest_w = max(highest_w, float(known_w.max(initial=0.0)))
    return charge.ratchet.share * highest_w / 1000, unknown_months


def demand_periods(
    tariff: Tariff, start_s: Int64, billed: TimeRange
) -> Iterator[tuple[DemandCharge, str, NDArray[np.bool_], float]]:
    """Yield each charge in each of its periods: its name, the intervals that count for its peak, the billed share."""
    cells, months = tariff.calendar.cells(start_s), tariff.calendar.months(start_s)
    for charge in tariff.demand:
        mask, period = charge.counts(cells), charge.period(months)
        for each in np.unique(period).tolist():
            edges = np.array([each, each + 1]).astype("datetime64[Y]" if charge.is_yearly else "datetime64[M]")
            first_s, after_s = _edges_s(tariff.calendar, edges)
            inside_s = min(after_s, billed.until_unix_s) - max(first_s, billed.from_unix_s)
            if inside_s > 0:
                yield charge, str(edges[0]), mask & (period == each), inside_s / (after_s - first_s)


def demand_cost(tariff: Tariff, start_s: Int64, power_w: Float64, *, span: TimeRange | None = None) -> float:
    """Return what the highest quarter-hours cost, tax included; arguments as `demand_peaks`."""
    return sum(peak.cost_with_tax for peak in demand_peaks(tariff, start_s, power_w, span=span))


def _edges_s(calendar: TariffCalendar, edges: NDArray[np.datetime64]) -> tuple[int, int]:
    days: Int64 = edges.astype("datetime64[D]").astype(np.int64)
    first_s, after_s = to_unix_s(days * DAY_S, calendar.zone)[0].tolist()
    return first_s, after_s
