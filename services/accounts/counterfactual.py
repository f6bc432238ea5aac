"""The bills of what came under several policies: the inputs from the ledger, replays, and their charges by period.

The engine replays the jobs under each policy with the same shifts of submissions, prices and power, and charges each
period. `services.accounts.lever_savings` compares the bills.
"""

from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from offpeak.ledger.prices import LedgerPrices, read_prices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH, J_PER_MWH
from offpeak.model.jobs import Trace
from offpeak.model.step_series import Series, fill_gaps, split
from offpeak.model.time_range import TimeRange, day_edges
from offpeak.model.weighing import Weighing, parse_weighing
from offpeak.prices.peak import Peak, PeakRule, classify, parse_peak_rule
from offpeak.prices.tariff import site_tariff
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings
from sim_backend.case.electricity import LaidSeries, ReplayPrices, decision_series
from sim_backend.case.replay_case import ReplayCase
from sim_backend.comparison.compare import charge_period, meters_of, replay_policies
from sim_backend.comparison.outcome import Meters
from sim_backend.comparison.replications import shifted
from sim_backend.engine.state import PeakTimes
from sim_backend.replay.policy import DEFAULT_DISCIPLINE, DISCIPLINES, Policy, parse_policy
from sim_backend.replay.schedule import Schedule

REPLAYS = 20


def site_policies(settings: Settings) -> tuple[Policy, Policy]:
    """Return the site's own policy, which is the first discipline in the settings, and that of the agent on top."""
    own = next((name for name in settings.scheduling.policies if name in DISCIPLINES), DEFAULT_DISCIPLINE)
    site, queue = parse_policy(own, settings.scheduling), settings.agent.queue
    if queue in ("off", "plan"):
        return site, site
    return site, parse_policy(queue if own == DEFAULT_DISCIPLINE else f"{own}+{queue}", settings.scheduling)


@dataclass(frozen=True)
class ReplayInputs:
    """The prices of a time, how decisions are made by them, and its edges: the midnights in `zone`, with both ends."""

    prices: LedgerPrices
    peak_rule: PeakRule
    weighing: Weighing
    zone: tzinfo
    edges_unix_s: Int64


@dataclass(frozen=True)
class PolicyReplay:
    """A policy, and the on-peak times that it knows."""

    policy: Policy
    peaks: PeakTimes


@dataclass(frozen=True)
class Bills:
    """Money, CO2 [kg], energy [J], and node-seconds not on, of each period: float64[periods]; starts by job.

    The CO2 is None without an intensity.
    """

    cost: Float64
    co2_kg: Float64 | None
    energy_j: Float64
    away_s: Float64
    start_s: Int64
    mean_wait_s: float


@dataclass(frozen=True)
class BilledDays:
    """The bills of the log, and those of the policies in each replay, in which jobs come at `submit_s`.

    One more period follows the last day: it has the cost of jobs that a policy moves out of the time.
    """

    logged: Bills
    replayed: tuple[tuple[Bills, ...], ...]
    submit_s: tuple[Int64, ...]


def bill_days(case: ReplayCase, policies: tuple[PolicyReplay, ...], day_edges_s: Int64, *, seed: int) -> BilledDays:
    """Return the bills of the days between these edges [trace seconds]; jobs start in the log and in REPLAYS replays.

    Submit times are shifted by up to a minute in each replay: the same for all policies. Nodes sleep under policies
    that let them, and are on in the log.
    """
    cases = [shifted(case, np.random.default_rng([seed, number])) for number in range(REPLAYS)]
    rest_s = int(day_edges_s[-1])
    schedules = [
        tuple(
            schedule
            for each in policies
            for schedule in replay_policies(replayed, (each.policy,), each.peaks, rest_until_s=rest_s)
        )
        for replayed in cases
    ]
    logged = Schedule(case.jobs.logged_start_s, case.jobs.logged_start_s + case.jobs.runtime_s, 0.0)
    ends_s = [int(schedule.end_s.max()) for schedule in (logged, *(schedule for run in schedules for schedule in run))]
    edges_s = np.append(day_edges_s, max(*ends_s, rest_s + 1))
    reaching = replace(case, prices=replace(case.prices, laid=case.prices.laid.until(int(edges_s[-1]))))
    meters = meters_of(reaching, int(edges_s[-1]))
    return BilledDays(
        _bills(replace(case, nodes=None, pools=None), logged, edges_s, meters),
        tuple(
            tuple(_bills(replayed, schedule, edges_s, meters) for schedule in run)
            for replayed, run in zip(cases, schedules, strict=True)
        ),
        tuple(replayed.jobs.submit_s for replayed in cases),
    )


def _bills(case: ReplayCase, schedule: Schedule, edges_s: Int64, meters: Meters) -> Bills:
    periods = zip(edges_s[:-1].tolist(), edges_s[1:].tolist(), strict=True)
    charges, away_s = zip(*(charge_period(case, schedule, meters, *period) for period in periods), strict=True)
    cost = np.array([charge.cost.total for charge in charges]) / J_PER_MWH
    co2_kg = np.array([charge.carbon.total for charge in charges if charge.carbon]) / J_PER_KWH / 1000
    energy_j = np.array([charge.energy.total for charge in charges])
    wait_s = float((schedule.start_s - case.jobs.submit_s).mean())
    return Bills(
        cost, co2_kg if meters.carbon else None, energy_j, np.array(away_s, np.float64), schedule.start_s, wait_s
    )


def with_ledger_prices(case: ReplayCase, trace: Trace, inputs: ReplayInputs) -> ReplayCase:
    """Return the case with the prices and the carbon intensity of the ledger, their gaps filled."""
    price, carbon = inputs.prices.price, inputs.prices.carbon
    return replace(
        case,
        prices=ReplayPrices(_fill_gaps(price, trace, inputs), inputs.peak_rule, inputs.weighing),
        carbon=_fill_gaps(carbon, trace, inputs) if carbon else None,
    )


def _fill_gaps(series: Series, trace: Trace, inputs: ReplayInputs) -> LaidSeries:
    """Return the series on the log's clock without gaps, because an hour without a price would cost nothing."""
    filled = fill_gaps(series)
    mean = float(np.average(series.value[series.known], weights=series.length_s[series.known]))
    whole = replace(filled, value=np.where(filled.known, filled.value, mean))
    return LaidSeries(whole, trace.unix_start_s or 0, inputs.zone, ())


def find_ordered_peaks(inputs: ReplayInputs, case: ReplayCase, ordered: NDArray[np.bool_]) -> PeakTimes:
    """Return the on-peak times; they are unknown on days that are not `ordered`, so that the queue is not changed."""
    laid, decisions = case.prices.laid, decision_series(case.prices, case.carbon)
    series, peak = classify(split(decisions, inputs.edges_unix_s), inputs.peak_rule)
    day = np.searchsorted(inputs.edges_unix_s, series.start_s, side="right") - 1
    is_ordered = ordered[np.clip(day, 0, len(ordered) - 1)]
    known_peak = np.append(np.where(is_ordered, peak, Peak.UNKNOWN), Peak.UNKNOWN).astype(np.int8)
    return PeakTimes(np.append(series.start_s, series.end_s) - laid.offset_s, known_peak)


def read_replay_inputs(
    connection: Connection, span: TimeRange, zone: tzinfo, settings: PriceSettings
) -> ReplayInputs | None:
    """Return the inputs of a replay; None without prices, BadInput if they are in two currencies."""
    prices = read_prices(connection, span)
    if prices is None:
        return None
    edges_s = np.array(day_edges(span, zone)).astype(np.int64)
    rule, weighing = _peak_rule(prices, settings, zone), parse_weighing(settings.decide_by)
    return ReplayInputs(prices, rule, weighing, zone, edges_s)


def _peak_rule(prices: LedgerPrices, settings: PriceSettings, zone: tzinfo) -> PeakRule:
    """Return the on-peak rule of the agent: the hours of a tariff, else the rule of the settings."""
    if prices.by_tariff and not parse_weighing(settings.decide_by).needs_carbon:
        return site_tariff(settings.tariff, zone).hours
    return parse_peak_rule(settings.peak_rule, zone=zone)
