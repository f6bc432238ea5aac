"""The account of a month from the ledger: jobs by account, nodes by their meters, and the account of savings.

It has also the inputs of a replay of that month: the energy of jobs, the prices, and the days with an ordered queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from offpeak.ledger.energy_use import EnergyUse
from offpeak.ledger.job_costs import AccountUse, account_uses, job_energies
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.prices import LedgerPrices, assumed_share, read_prices
from offpeak.ledger.records import queue_orders
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Trace
from offpeak.model.step_series import split
from offpeak.model.time_range import TimeRange, day_edges
from offpeak.model.weighing import Weighing, parse_weighing
from offpeak.prices.peak import Peak, PeakRule, classify, parse_peak_rule
from offpeak.prices.tariff import site_tariff
from offpeak.settings.replay import PriceSettings
from services.accounts.account_of_savings import SavingsAccount, account_of
from sim_backend.case.electricity import decision_series
from sim_backend.case.replay_case import ReplayCase
from sim_backend.engine.state import PeakTimes


@dataclass(frozen=True)
class ReplayInputs:
    """The energy [J] of jobs by number and start [Unix s], the prices, and the days of the time.

    `edges_unix_s` are the midnights of its days in `zone`, with both ends; `ordered` says for each day whether jobs
    were moved.
    """

    energies_j: Mapping[tuple[str, int], float]
    prices: LedgerPrices
    peak_rule: PeakRule
    weighing: Weighing
    zone: tzinfo
    edges_unix_s: Int64
    ordered: NDArray[np.bool_]


def add_draws(trace: Trace, energies_j: Mapping[tuple[str, int], float]) -> tuple[Trace, Int64]:
    """Return the log with the powers that the ledger has, and the ids of their jobs."""
    jobs, offset_s = trace.jobs, trace.unix_start_s or 0
    starts = zip(jobs.job_id.tolist(), (jobs.logged_start_s + offset_s).tolist(), strict=True)
    energy_j = np.array([_energy_j(trace, job, start_s, energies_j) for job, start_s in starts])
    unit_s = jobs.size * jobs.runtime_s
    known = (energy_j > 0) & (unit_s > 0)
    draw_w = np.where(known, energy_j / np.maximum(unit_s, 1), jobs.node_power_w)
    return replace(trace, jobs=replace(jobs, node_power_w=draw_w)), jobs.job_id[known]


def find_ordered_peaks(inputs: ReplayInputs, case: ReplayCase, ordered: NDArray[np.bool_]) -> PeakTimes:
    """Return the on-peak times; they are unknown on days that are not `ordered`, so that the queue is not changed."""
    laid, decisions = case.prices.laid, decision_series(case.prices, case.carbon)
    series, peak = classify(split(decisions, inputs.edges_unix_s), inputs.peak_rule)
    day = np.searchsorted(inputs.edges_unix_s, series.start_s, side="right") - 1
    is_ordered = ordered[np.clip(day, 0, len(ordered) - 1)]
    known_peak = np.append(np.where(is_ordered, peak, Peak.UNKNOWN), Peak.UNKNOWN).astype(np.int8)
    return PeakTimes(np.append(series.start_s, series.end_s) - laid.offset_s, known_peak)


def _energy_j(trace: Trace, job: int, start_s: int, energies_j: Mapping[tuple[str, int], float]) -> float:
    # Accounts name a job of an array as users do, some logs by its number.
    by_name = energies_j.get((trace.names.job_text(job), start_s))
    return by_name if by_name is not None else energies_j.get((str(job), start_s), np.nan)


@dataclass(frozen=True)
class MonthAccount:
    """Jobs by account, measured energy by node, the account of savings, and the inputs of a replay of the time.

    `shadow` is what shadow mode would have saved. `replay_inputs` is None if no price is known. `assumed_price_share`
    is the part of the priced time whose price is that of an assumed tariff.
    """

    accounts: tuple[AccountUse, ...]
    nodes: tuple[EnergyUse, ...]
    saved: SavingsAccount
    shadow: SavingsAccount
    replay_inputs: ReplayInputs | None
    assumed_price_share: float


def make_month_account(connection: Connection, span: TimeRange, zone: tzinfo, prices: PriceSettings) -> MonthAccount:
    """Return the account of a time. Raises BadInput if it has prices in two currencies."""
    return MonthAccount(
        accounts=tuple(account_uses(connection, span)),
        nodes=tuple(node_energy(connection, span, ("node",), zone)),
        saved=account_of(connection, span),
        shadow=account_of(connection, span, is_shadow=True),
        replay_inputs=read_replay_inputs(connection, span, zone, prices),
        assumed_price_share=assumed_share(connection, span),
    )


def read_replay_inputs(
    connection: Connection, span: TimeRange, zone: tzinfo, settings: PriceSettings
) -> ReplayInputs | None:
    """Return the inputs of a replay; None without prices, BadInput if they are in two currencies."""
    prices = read_prices(connection, span)
    if prices is None:
        return None
    edges_s = np.array(day_edges(span, zone)).astype(np.int64)
    ordered = np.histogram(queue_orders(connection, span), edges_s)[0] > 0
    rule, weighing = _peak_rule(prices, settings, zone), parse_weighing(settings.decide_by)
    return ReplayInputs(
        job_energies(connection, span), prices, rule, weighing, zone, edges_unix_s=edges_s, ordered=ordered
    )


def _peak_rule(prices: LedgerPrices, settings: PriceSettings, zone: tzinfo) -> PeakRule:
    """Return the on-peak rule of the agent: the hours of a tariff, else the rule of the settings."""
    if prices.by_tariff and not parse_weighing(settings.decide_by).needs_carbon:
        return site_tariff(settings.tariff, zone).hours
    return parse_peak_rule(settings.peak_rule, zone=zone)
