"""The account of a month from the ledger: jobs by account, nodes by their meters, and the account of savings."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from sqlalchemy import Connection

from offpeak.ledger.energy_use import EnergyUse
from offpeak.ledger.job_costs import AccountUse, GpuUse, account_uses, gpu_uses
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.prices import assumed_share
from offpeak.ledger.records import savings_in
from offpeak.model.time_range import TimeRange
from offpeak.prices.tariff import Tariff
from offpeak.services.accounts.account_of_savings import DemandSaving, SavingsAccount, account_of, sum_account
from offpeak.services.accounts.power_bill import read_demand
from offpeak.services.accounts.trials import TrialResult, trial_results


@dataclass(frozen=True)
class DayCost:
    """What the metered nodes cost on a local day, and what was saved on it; None if nothing is booked."""

    name: str
    cost: float
    saved: float | None


@dataclass(frozen=True)
class MonthAccount:
    """Jobs by account, measured energy by node, the account of savings, and the cost of each day.

    `shadow` is what shadow mode would have saved, `trials` what days on and off have measured. `assumed_price_share` is
    the part of the priced time whose price is that of an assumed tariff. `demand` are the demand charges of the
    tariff, with the month's part of each. `gpus` are the GPUs of jobs by account and user.
    """

    accounts: tuple[AccountUse, ...]
    nodes: tuple[EnergyUse, ...]
    saved: SavingsAccount
    shadow: SavingsAccount
    days: tuple[DayCost, ...]
    trials: tuple[TrialResult, ...]
    assumed_price_share: float
    demand: tuple[DemandSaving, ...] = ()
    gpus: tuple[GpuUse, ...] = ()


def make_month_account(
    connection: Connection, span: TimeRange, zone: tzinfo, tariff: Tariff | None = None
) -> MonthAccount:
    """Return the account of a time, with the tariff's demand charges. Raises BadInput for prices in two currencies."""
    by_day = defaultdict[str, list[dict[str, Any]]](list)
    for row in savings_in(connection, span):
        by_day[datetime.fromtimestamp(row["from_unix_s"], zone).date().isoformat()].append(row)
    days = tuple(
        DayCost(use.of[0], use.cost, sum_account(by_day[use.of[0]], None).cost)
        for use in node_energy(connection, span, ("day",), zone)
        if use.cost is not None
    )
    return MonthAccount(
        accounts=tuple(account_uses(connection, span)),
        nodes=tuple(node_energy(connection, span, ("node",), zone)),
        saved=account_of(connection, span),
        shadow=account_of(connection, span, is_shadow=True),
        days=days,
        trials=tuple(result for result in trial_results(connection) if result.at_unix_s >= span.from_unix_s),
        assumed_price_share=assumed_share(connection, span),
        demand=read_demand(connection, span, tariff) if tariff else (),
        gpus=tuple(gpu_uses(connection, span)),
    )
