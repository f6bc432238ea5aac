"""What came, as the ledger knows it, and its bills under several policies.

The site is that of the agent's view: usable nodes by class. The log has the ledger's jobs with the energy that each has
used, and jobs that have not ended with what is expected of them; a row of an older program does not say when its job
was submitted: it is left out, and counted. The engine replays the log under each policy with the same shifts of
submissions, prices and power, and charges each period. `offpeak.services.accounts.lever_savings` compares the bills.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, or_, select

from offpeak.ledger.prices import LedgerPrices, read_prices
from offpeak.ledger.rows import JobUse
from offpeak.ledger.tables import jobs
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster
from offpeak.model.constants import J_PER_KWH, J_PER_MWH
from offpeak.model.jobs import Jobs, LogNames, Trace
from offpeak.model.request import Chunk, Request
from offpeak.model.step_series import Series, fill_gaps, split
from offpeak.model.time_range import TimeRange, day_edges
from offpeak.model.weighing import Weighing, parse_weighing
from offpeak.prices.peak import Peak, PeakRule, classify, parse_peak_rule
from offpeak.prices.tariff_file import site_tariff
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices, decision_series
from offpeak.sim_backend.case.replay_case import ReplayCase
from offpeak.sim_backend.comparison.compare import charge_period, meters_of, replay_policy
from offpeak.sim_backend.comparison.outcome import Meters
from offpeak.sim_backend.comparison.replications import shifted
from offpeak.sim_backend.engine.rules import PeakTimes
from offpeak.sim_backend.replay.policy import DEFAULT_DISCIPLINE, DISCIPLINES, Policy, parse_policy
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak.sim_backend.traces.records import request_classes

COLUMNS = (
    *("started_unix_s", "ended_unix_s", "submitted_unix_s", "limit_s", "node_count", "cpus", "energy_j"),
    *("user", "account", "partition"),
)
NUMBERS, UNKNOWN = 7, -1


@dataclass(frozen=True)
class LedgerTrace:
    """The jobs as a log whose second 0 is the begin of the time, and how many rows of that time are left out."""

    trace: Trace
    left_out: int


def ledger_trace(
    connection: Connection, span: TimeRange, cluster: Cluster, not_ended: Iterable[JobUse] = ()
) -> LedgerTrace:
    """Return the jobs that waited or ran in that time, in nodes of the cluster, in processors if jobs share them."""
    came = or_(jobs.c.submitted_unix_s < span.until_unix_s, jobs.c.started_unix_s < span.until_unix_s)
    within = (jobs.c.ended_unix_s > span.from_unix_s) & came
    ended = connection.execute(select(*(jobs.c[name] for name in COLUMNS)).where(within))
    rows = [tuple(row) for row in ended] + [tuple(getattr(job, name) for name in COLUMNS) for job in not_ended]
    numbers = np.array([row[:NUMBERS] for row in rows], np.float64).reshape(-1, NUMBERS)
    is_known = ~np.isnan(numbers[:, [2, 4]]).any(axis=1)
    if is_shared := any(partition.shared for partition in cluster.partitions.values()):
        is_known &= numbers[:, 5] > 0
    known = np.flatnonzero(is_known)
    known = known[np.argsort(numbers[known, 2], kind="stable")]
    trace = _trace(numbers[known], [rows[at][NUMBERS:] for at in known.tolist()], span, cluster, is_shared=is_shared)
    return LedgerTrace(trace, len(rows) - len(known))


def _trace(
    numbers: np.ndarray, texts: Sequence[Sequence[str]], span: TimeRange, cluster: Cluster, *, is_shared: bool
) -> Trace:
    begin_s = int(span.from_unix_s)
    start_s, end_s, submit_s = (np.rint(numbers[:, at] - begin_s).astype(np.int64) for at in range(3))
    runtime_s = np.maximum(end_s - start_s, 0)
    nodes = np.maximum(numbers[:, 4], 1).astype(np.int64)
    cpus = np.nan_to_num(numbers[:, 5]).astype(np.int64)
    size = cpus if is_shared else nodes
    has_limit = ~np.isnan(numbers[:, 3])
    (user, users), (group, groups), (partition, partitions) = (
        _coded([row[at] for row in texts]) for at in range(len(COLUMNS) - NUMBERS)
    )
    unit_s = size * runtime_s
    number = np.arange(len(numbers))
    unknown = np.full(len(numbers), UNKNOWN)

    def request_of(row: tuple[int, ...]) -> Request:
        copies, processors, code = row
        of_job = cluster.partitions.get(partitions[code])
        is_whole = not is_shared or (of_job is not None and not of_job.shared)
        names = (partitions[code],) if partitions[code] else ()
        return Request(names, (Chunk(copies, max(1, -(-processors // copies))),), whole_nodes=is_whole)

    request, requests = request_classes((nodes, cpus, partition), request_of)
    columns = Jobs(
        job_id=number,
        submit_s=np.minimum(submit_s, start_s),
        runtime_s=runtime_s,
        estimate_s=np.where(has_limit, np.nan_to_num(numbers[:, 3]), runtime_s).astype(np.int64),
        size=size,
        user=user,
        group=group,
        queue=partition,
        application=unknown,
        logged_start_s=start_s,
        node_power_w=np.where(unit_s > 0, numbers[:, 6] / np.maximum(unit_s, 1), np.nan),
        request=request,
        partition=partition,
    )
    cores = sum(pool.nodes * pool.node_type.cores for pool in cluster.pools)
    return Trace(
        name="the ledger",
        jobs=columns.take(np.argsort(columns.submit_s, kind="stable")),
        processors=None,
        nodes=None,
        unix_start_s=begin_s,
        time_zone=None,
        names=LogNames(user=users, group=groups, partition=partitions),
        units_per_node=max(1, round(cores / cluster.nodes)) if is_shared else 1,
        without_estimate=number[~has_limit],
        requests=requests,
    )


def _coded(texts: Sequence[str]) -> tuple[Int64, tuple[str, ...]]:
    """Return the number of each text among the distinct ones, and these."""
    distinct, number = np.unique(np.array(texts, dtype=np.str_), return_inverse=True)
    return number.astype(np.int64), tuple(distinct.tolist())


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
    """Each period's money, CO2 [kg] or None, energy [J], node-seconds not on: float64[periods]; starts by job."""

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
        tuple(replay_policy(replayed, each.policy, each.peaks, rest_until_s=rest_s) for each in policies)
        for replayed in cases
    ]
    logged = Schedule(case.jobs.logged_start_s, case.jobs.logged_start_s + case.jobs.runtime_s, 0.0)
    ends_s = [int(schedule.end_s.max()) for schedule in (logged, *(schedule for run in schedules for schedule in run))]
    edges_s = np.append(day_edges_s, max(*ends_s, rest_s + 1))
    reaching = replace(case, prices=replace(case.prices, aligned=case.prices.aligned.until(int(edges_s[-1]))))
    meters = meters_of(reaching, int(edges_s[-1]))
    return BilledDays(
        _bills(replace(case, nodes=None), logged, edges_s, meters),
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


def _fill_gaps(series: Series, trace: Trace, inputs: ReplayInputs) -> AlignedSeries:
    """Return the series on the log's clock without gaps, because an hour without a price would cost nothing."""
    filled = fill_gaps(series)
    mean = float(np.average(series.value[series.known], weights=series.length_s[series.known]))
    whole = replace(filled, value=np.where(filled.known, filled.value, mean))
    return AlignedSeries(whole, trace.unix_start_s or 0, inputs.zone, ())


def find_ordered_peaks(inputs: ReplayInputs, case: ReplayCase, ordered: NDArray[np.bool_]) -> PeakTimes:
    """Return the on-peak times; they are unknown on days that are not `ordered`, so that the queue is not changed."""
    aligned, decisions = case.prices.aligned, decision_series(case.prices, case.carbon)
    series, peak = classify(split(decisions, inputs.edges_unix_s), inputs.peak_rule)
    day = np.searchsorted(inputs.edges_unix_s, series.start_s, side="right") - 1
    is_ordered = ordered[np.clip(day, 0, len(ordered) - 1)]
    known_peak = np.append(np.where(is_ordered, peak, Peak.UNKNOWN), Peak.UNKNOWN).astype(np.int8)
    return PeakTimes(np.append(series.start_s, series.end_s) - aligned.offset_s, known_peak)


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
    rule = parse_peak_rule(settings.peak_rule, zone=zone)
    if prices.by_tariff and not parse_weighing(settings.decide_by).needs_carbon:
        return site_tariff(settings.tariff, zone).on_peak(rule)
    return rule
