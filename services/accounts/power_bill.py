"""The bill of the metered nodes under a tariff, and what of its demand charges was saved."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from sqlalchemy import Connection

from offpeak.display import energy_text, minute_text, percent_text
from offpeak.errors import BadInput
from offpeak.ledger.node_energy import QuarterLoad, quarter_load
from offpeak.ledger.prices import slot_prices
from offpeak.ledger.records import Record, savings_in
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, J_PER_KWH, QUARTER_S
from offpeak.model.step_series import Series
from offpeak.model.time_range import TimeRange
from offpeak.model.zones import zone_text
from offpeak.prices.bill import Bill, DemandPeak, demand_peaks, demand_periods, make_bill
from offpeak.prices.tariff import DemandCharge, Tariff, price_of_market, price_of_next_mwh
from offpeak.services.accounts.account_of_savings import BASELINE, DEMAND, MEASURED_SHARE, ORDER, DemandSaving
from offpeak.text import counted

HALF_DAY_S = DAY_S / 2
LONGEST_PERIOD_S = 366 * DAY_S


def _load_since(connection: Connection, span: TimeRange, tariff: Tariff) -> QuarterLoad:
    """Return the load in that time, and before it since the first month on which the demand charges in it depend."""
    begin = datetime.fromtimestamp(span.from_unix_s, tariff.calendar.zone)
    months_back = [charge.ratchet.months_back for charge in tariff.demand if charge.ratchet]
    months_back += [begin.month - 1 for charge in tariff.demand if charge.is_yearly]
    year, month = divmod(12 * begin.year + begin.month - 1 - max(months_back, default=0), 12)
    since_s = datetime(year, month + 1, 1, tzinfo=tariff.calendar.zone).timestamp()
    return quarter_load(connection, TimeRange(min(since_s, span.from_unix_s), span.until_unix_s))


def months_of(span: TimeRange, zone: tzinfo) -> TimeRange:
    """Return the whole months of a clock that the time is in; months of two clocks begin within half a day."""
    middle_s = min(span.from_unix_s + HALF_DAY_S, (span.from_unix_s + span.until_unix_s) / 2)
    edges = (datetime.fromtimestamp(at, zone) for at in (middle_s, max(middle_s, span.until_unix_s - HALF_DAY_S)))
    first, last = (datetime(edge.year, edge.month, 1, tzinfo=zone) for edge in edges)
    return TimeRange(first.timestamp(), (last + timedelta(days=32)).replace(day=1).timestamp())


def demand_baseline(baseline: str, name: str) -> str:
    """Return the baseline that the rows of a demand charge have; `name` is that of the charge in its period."""
    return f"{baseline}, {name}"


def charge_terms(tariff: Tariff, charge: DemandCharge) -> str:
    """Return a digest of what a demand charge says: rows that were booked under other terms have another."""
    clock = zone_text(tariff.calendar.zone) or "UTC"
    terms = repr((charge, tariff.vat_percent, tariff.currency, clock, tariff.calendar.holidays))
    # Rows of charges without tiers and ratchets were booked before there were any.
    return f"terms {sha256(terms.replace(', tiers=(), ratchet=None', '').encode()).hexdigest()[:12]}"


def day_cost(tariff: Tariff, charge: DemandCharge, quarter_j: float) -> float:
    """Return what a quarter-hour of that energy costs, tax included, if none of the charge's period is higher."""
    return charge.cost(quarter_j / QUARTER_S / 1000) * (1 + tariff.vat_percent / 100)


def read_demand(
    connection: Connection, span: TimeRange, tariff: Tariff, *, since_s: float | None = None
) -> tuple[DemandSaving, ...]:
    """Return the demand charges in the months of a time, each since its period began, or since then if given.

    The load is that of the metered nodes up to the last booking. What was saved is known once each quarter-hour that
    counts is booked: the highest one of the period under the baseline, less the highest as metered.
    """
    if not tariff.demand:
        return ()
    billed = months_of(span, tariff.calendar.zone)
    rows = savings_in(connection, TimeRange(billed.from_unix_s - LONGEST_PERIOD_S, span.until_unix_s))
    running = (row for row in rows if row["lever"] == DEMAND and row["until_unix_s"] > span.until_unix_s)
    # A bundle does not have the time of the last booking.
    as_of = [row["as_of_unix_s"] for row in running if row["as_of_unix_s"] and since_s is None]
    until_s = min([span.until_unix_s, *as_of]) // QUARTER_S * QUARTER_S
    load = _load_since(connection, TimeRange(billed.from_unix_s, until_s), tariff)
    power_w = load.power_w if since_s is None else np.where(load.start_s < since_s, np.nan, load.power_w)
    periods = {(charge, name): mask for charge, name, mask, _ in demand_periods(tariff, load.start_s, billed)}
    found = []
    for peak in demand_peaks(tariff, load.start_s, power_w, span=billed):
        charge, counts = peak.charge, periods[peak.charge, peak.period] & (load.start_s >= (since_s or -np.inf))
        terms = charge_terms(tariff, charge)
        ends = charge.period(tariff.calendar.months(np.array([peak.at_s, until_s], np.int64)))
        found.append(
            DemandSaving(
                *(peak.name, peak.at_s, peak.power_kw, peak.cost_with_tax, tariff.currency, peak.share),
                is_over=bool(ends[0] < ends[1]),
                **_saved(rows, peak, (load.start_s[counts], power_w[counts]), terms, tariff.calendar.zone),
            )
        )
    return tuple(found)


def _saved(
    rows: Sequence[Record], peak: DemandPeak, counting: tuple[Int64, Float64], terms: str, zone: tzinfo
) -> dict[str, Any]:
    """Return the highest quarter-hour under the baseline and the saving, or why they are not known."""
    counting_s, power_w = counting
    if np.isnan(power_w).any():
        return {"why": f"no node was measured at {minute_text(int(counting_s[np.isnan(power_w)][0]), zone)}"}
    booked, is_booked = list[tuple[float, float]](), np.zeros(len(counting_s), np.bool_)
    for row in rows:
        inside = (counting_s >= row["from_unix_s"]) & (counting_s < row["until_unix_s"])
        if not inside.any() or row["is_shadow"]:
            continue
        day = minute_text(row["from_unix_s"], zone)
        if row["lever"] == ORDER:
            return {"why": f"the queue was put in another order from {day}, which changes the load"}
        if row["baseline"] == demand_baseline(BASELINE, peak.name):
            if terms not in row["basis"]:
                return {"why": f"the charge had other terms on {day}"}
            if row["baseline_energy_j"] is None:
                return {"why": f"readings are missing in the day from {day}"}
            booked.append((row["baseline_energy_j"], row["energy_j"]))
            is_booked |= inside
    if not is_booked.all():
        return {"why": f"nothing is booked for {minute_text(int(counting_s[~is_booked][0]), zone)}"}
    without_kw, peak_kw = (max(each) / QUARTER_S / 1000 for each in zip(*booked, strict=True))
    without, actual = (peak.charge.cost(max(power_kw, peak.ratchet_kw)) for power_kw in (without_kw, peak_kw))
    return {"without_kw": without_kw, "saved": (without - actual) * peak.share * (1 + peak.vat_percent / 100)}


def check_demand(connection: Connection, span: TimeRange, tariff: Tariff) -> list[str]:
    """Return the rows of demand charges that readings and tariff contradict, for rows under the present terms."""
    found = []
    for row in savings_in(connection, span):
        is_whole = row["lever"] == DEMAND and row["energy_j"] is not None and row["until_unix_s"] <= span.until_unix_s
        load = quarter_load(connection, TimeRange(row["from_unix_s"], row["until_unix_s"])) if is_whole else None
        for peak in demand_peaks(tariff, load.start_s, load.power_w) if load else ():
            is_its = row["baseline"] == demand_baseline(BASELINE, peak.name)
            if not is_its or charge_terms(tariff, peak.charge) not in row["basis"]:
                continue
            read_j, booked_j = 1000 * QUARTER_S * peak.power_kw, row["energy_j"]
            cost_of = partial(day_cost, tariff, peak.charge)
            pairs = [(row["cost"], cost_of(booked_j)), (row["baseline_cost"], cost_of(row["baseline_energy_j"]))]
            # Lower than the readings is a day whose end the agent did not book.
            pairs.append((max(booked_j, read_j) / QUARTER_S / 1000, peak.power_kw))
            if any(abs(one - other) > SAME_PRICE for one, other in pairs):
                texts = [
                    f"{j / QUARTER_S / 1000:,.2f} kW, {cost:,.2f} {tariff.currency}"
                    for j, cost in ((booked_j, row["cost"]), (read_j, cost_of(read_j)))
                ]
                day = minute_text(peak.at_s, tariff.calendar.zone)[:10]
                found.append(f"{peak.name} of {day}: booked with {texts[0]}, by readings and tariff {texts[1]}")
    return found


SAME_PRICE = 0.005
"""Prices, costs and kW are equal to the hundredth."""


def make_metered_bill(
    connection: Connection, span: TimeRange, tariff: Tariff, *, billed: TimeRange | None = None
) -> tuple[Bill, list[str]]:
    """Return the bill of the metered nodes in whole quarter-hours, and what it lacks.

    Demand charges count with their part of `billed`, by default of that time. The prices of a market are those of the
    ledger, those behind them where a tariff charged them. Raises BadInput where these are needed and in two currencies.
    """
    span = TimeRange(span.from_unix_s, span.until_unix_s // QUARTER_S * QUARTER_S)
    load, zone = quarter_load(connection, span), tariff.calendar.zone
    start_s, energy_kwh = load.start_s, load.energy_j / J_PER_KWH
    if not len(start_s):
        raise BadInput("that time has no whole quarter-hour", hint="name a longer one")
    try:
        prices = slot_prices(connection, start_s.astype(np.float64), QUARTER_S)
        charged, currency, by_tariff = prices.price_per_mwh, prices.currency or tariff.currency, prices.charged > 0
    except BadInput:
        if tariff.follows_market:
            raise
        charged, currency, by_tariff = np.full(len(start_s), np.nan), "", np.zeros(len(start_s), np.bool_)
    unit = f"{currency}/MWh"
    market = np.where(by_tariff, price_of_market(tariff, start_s, charged), charged)
    spot = Series(start_s, int(start_s[-1]) + QUARTER_S, market, unit, "the ledger")
    since = _load_since(connection, span, tariff) if tariff.demand else load
    peaks = demand_peaks(tariff, since.start_s, since.power_w, span=billed or span)
    bill = make_bill(tariff, start_s, energy_kwh, spot if tariff.follows_market else None, peaks=peaks)
    differs = np.abs(charged - price_of_next_mwh(tariff, start_s, spot.value)) > SAME_PRICE
    differs = differs if currency == tariff.currency else ~np.isnan(charged)
    as_market = tariff.follows_market & ~by_tariff & ~np.isnan(charged)
    unmeasured = np.isnan(energy_kwh)
    unpriced = np.isnan(tariff.energy.prices(tariff.calendar.cells(start_s), spot.value))
    lacks = [
        ("no reading of a node", unmeasured, "that energy is in no position"),
        ("prices that were recorded without a tariff", as_market, "they count as those of the market"),
        ("no price of the market", unpriced & ~unmeasured, f"{energy_text(bill.unpriced_kwh)} cost nothing here"),
        (
            f"another price in the ledger than {tariff.text}",
            differs & ~as_market,
            "if another tariff applied then, bill that period separately",
        ),
    ]
    gaps = [
        f"{what} for {counted(int(mask.sum()), 'quarter-hour')}, "
        f"first at {minute_text(int(start_s[mask][0]), zone)}: {so}"
        for what, mask, so in lacks
        if mask.any()
    ]
    share = load.covered_s.sum() / (QUARTER_S * max(len(load.nodes), 1) * max((~unmeasured).sum(), 1))
    if share < MEASURED_SHARE and load.nodes:
        gaps.append(f"meters cover {percent_text(100 * share, 1)} of the nodes' time in the other quarter-hours")
    for peak in peaks:
        if peak.unknown_s:
            missing = counted(peak.unknown_s // QUARTER_S, "quarter-hour")
            gaps.append(f"{peak.name}: a higher quarter-hour may be among the {missing} without a reading")
        if peak.ratchet_kw > peak.power_kw:
            gaps.append(f"{peak.name}: the ratchet charges more than the {peak.power_kw:,.2f} kW of this month")
        if peak.unknown_months:
            missing = counted(peak.unknown_months, "month")
            gaps.append(f"{peak.name}: the ratchet may charge more, because readings of {missing} before are missing")
    return bill, gaps
