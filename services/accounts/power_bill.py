"""The bill of the metered nodes under a tariff, with the highest quarter-hours of its demand charges."""

from datetime import datetime

import numpy as np
from sqlalchemy import Connection

from offpeak.display import energy_text, minute_text, percent_text
from offpeak.errors import BadInput
from offpeak.ledger.backlog import QUARTER_S
from offpeak.ledger.node_energy import QuarterLoad, quarter_load
from offpeak.ledger.prices import slot_prices
from offpeak.model.constants import J_PER_KWH
from offpeak.model.step_series import Series
from offpeak.model.time_range import TimeRange
from offpeak.prices.bill import Bill, DemandPeak, demand_peaks, make_bill
from offpeak.prices.tariff import Tariff, price_of_market, price_of_next_mwh
from offpeak.text import counted
from services.accounts.account_of_savings import MEASURED_SHARE


def _load_since(connection: Connection, span: TimeRange, tariff: Tariff) -> QuarterLoad:
    """Return the load in that time, and before it since the periods of the demand charges in it began."""
    begin = datetime.fromtimestamp(span.from_unix_s, tariff.calendar.zone)
    month = 1 if any(charge.is_yearly for charge in tariff.demand) else begin.month
    since_s = datetime(begin.year, month, 1, tzinfo=tariff.calendar.zone).timestamp() if tariff.demand else np.inf
    return quarter_load(connection, TimeRange(min(since_s, span.from_unix_s), span.until_unix_s))


def read_demand(connection: Connection, span: TimeRange, tariff: Tariff) -> tuple[DemandPeak, ...]:
    """Return the peaks of the metered nodes in the periods of that time, each since the period began."""
    load = _load_since(connection, span, tariff)
    return demand_peaks(tariff, load.start_s, load.power_w, span=span)


SAME_PRICE = 0.005
"""Prices per MWh are equal to the hundredth."""


def make_metered_bill(connection: Connection, span: TimeRange, tariff: Tariff) -> tuple[Bill, list[str]]:
    """Return the bill of the metered nodes in whole quarter-hours, and what it lacks.

    The prices of a market are those of the ledger. Raises BadInput where these are needed and in two currencies.
    """
    span = TimeRange(span.from_unix_s, span.until_unix_s // QUARTER_S * QUARTER_S)
    load, zone = _load_since(connection, span, tariff), tariff.calendar.zone
    first = int(np.searchsorted(load.start_s, span.from_unix_s))
    if first == len(load.start_s):
        raise BadInput("that time has no whole quarter-hour", hint="name a longer one")
    start_s, energy_kwh = load.start_s[first:], load.energy_j[first:] / J_PER_KWH
    try:
        prices = slot_prices(connection, start_s.astype(np.float64), QUARTER_S)
        charged, currency = prices.price_per_mwh, prices.currency or tariff.currency
    except BadInput:
        if tariff.follows_market:
            raise
        charged, currency = np.full(len(start_s), np.nan), ""
    unit = f"{currency}/MWh"
    spot = Series(start_s, int(start_s[-1]) + QUARTER_S, price_of_market(tariff, start_s, charged), unit, "the ledger")
    peaks = demand_peaks(tariff, load.start_s, load.power_w, span=span)
    bill = make_bill(tariff, start_s, energy_kwh, spot if tariff.follows_market else None, peaks=peaks)
    differs = np.abs(charged - price_of_next_mwh(tariff, start_s, spot.value)) > SAME_PRICE
    differs = differs if currency == tariff.currency else ~np.isnan(charged)
    unmeasured = np.isnan(energy_kwh)
    unpriced = np.isnan(tariff.energy.prices(tariff.calendar.cells(start_s), spot.value))
    lacks = [
        ("no reading of a node", unmeasured, "that energy is in no position"),
        ("no price of the market", unpriced & ~unmeasured, f"{energy_text(bill.unpriced_kwh)} cost nothing here"),
        (
            f"another price in the ledger than {tariff.text}",
            differs,
            "if the tariff was another one then, bill that time by itself",
        ),
    ]
    gaps = [
        f"{what} for {counted(int(mask.sum()), 'quarter-hour')}, "
        f"first at {minute_text(int(start_s[mask][0]), zone)}: {so}"
        for what, mask, so in lacks
        if mask.any()
    ]
    share = load.covered_s[first:].sum() / (QUARTER_S * max(load.parts, 1) * max((~unmeasured).sum(), 1))
    if share < MEASURED_SHARE and load.parts:
        gaps.append(f"meters cover {percent_text(100 * share, 1)} of the nodes' time in the other quarter-hours")
    for peak in peaks:
        if peak.unknown_s:
            missing = counted(peak.unknown_s // QUARTER_S, "quarter-hour")
            gaps.append(f"{peak.name}: a higher quarter-hour may be among the {missing} without a reading")
    return bill, gaps
