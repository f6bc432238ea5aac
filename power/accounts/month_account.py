"""What the ledger says of a month: jobs by account, nodes by their meters, and what nodes at rest saved."""

from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
from sqlalchemy import Connection

from offpeak.ledger.energy_use import J_PER_KWH, EnergyUse
from offpeak.ledger.job_costs import AccountUse, account_uses, job_energies
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.prices import LedgerPrices, assumed_share, mean_prices, read_prices
from offpeak.ledger.records import queue_orders, savings_in
from offpeak.model.local_time import TimeRange, day_edges
from offpeak.prices.peak import PeakRule, parse_peak_rule
from offpeak.prices.tariff import site_tariff
from offpeak.settings.replay import PriceSettings
from power.accounts.ordered_days import Told
from power.accounts.savings import BASELINE


@dataclass(frozen=True)
class Rested:
    """What resting nodes saved in some days of a time, against all nodes on; no value is None, what nobody knows."""

    days: int
    saved_j: float
    cost: float | None
    currency: str
    carbon_g: float | None


@dataclass(frozen=True)
class MonthAccount:
    """Jobs by account, nodes by node as their meters say, what rests saved, and what a replay of the time needs.

    `rested` is None where nothing was booked, `told` where no price is known. Of `assumed_price_share` of the priced
    time the price is that of an assumed tariff.
    """

    accounts: tuple[AccountUse, ...]
    nodes: tuple[EnergyUse, ...]
    rested: Rested | None
    told: Told | None
    assumed_price_share: float


def month_account(connection: Connection, span: TimeRange, zone: tzinfo, prices: PriceSettings) -> MonthAccount:
    """Return the account of a time; BadInput where it was paid in two currencies."""
    return MonthAccount(
        accounts=tuple(account_uses(connection, span)),
        nodes=tuple(node_energy(connection, span, ("node",), zone)),
        rested=_rested(connection, span),
        told=_told(connection, span, zone, prices),
        assumed_price_share=assumed_share(connection, span),
    )


def _rested(connection: Connection, span: TimeRange) -> Rested | None:
    rows = [row for row in savings_in(connection, span) if row["baseline"] == BASELINE]
    if not rows:
        return None
    saved_j = [row["baseline_energy_j"] - row["energy_j"] for row in rows]
    costs = [_difference(row["baseline_cost"], row["cost"]) for row in rows]
    means = mean_prices(connection, [TimeRange(row["from_unix_s"], row["until_unix_s"]) for row in rows])
    grams = [
        None if mean.carbon_g_per_kwh is None else mean.carbon_g_per_kwh * joules / J_PER_KWH
        for mean, joules in zip(means, saved_j, strict=True)
    ]
    currencies = {row["currency"] for row in rows}
    cost = _sum(costs) if len(currencies) == 1 else None
    return Rested(len(rows), sum(saved_j), cost, min(currencies), _sum(grams))


def _difference(baseline: float | None, cost: float | None) -> float | None:
    return None if baseline is None or cost is None else baseline - cost


def _sum(values: list[float | None]) -> float | None:
    """Return the sum, None if one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _told(connection: Connection, span: TimeRange, zone: tzinfo, settings: PriceSettings) -> Told | None:
    prices = read_prices(connection, span)
    if prices is None:
        return None
    edges_s = np.array(day_edges(span, zone)).astype(np.int64)
    ordered = np.histogram(queue_orders(connection, span), edges_s)[0] > 0
    rule = _peak_rule(prices, settings, zone)
    return Told(job_energies(connection, span), prices, rule, zone, edges_s, ordered)


def _peak_rule(prices: LedgerPrices, settings: PriceSettings, zone: tzinfo) -> PeakRule:
    """Return the rule by which the agent tells dear hours: a tariff's own hours, else that of the settings."""
    return (
        site_tariff(settings.tariff, zone).hours if prices.by_tariff else parse_peak_rule(settings.peak_rule, zone=zone)
    )
