"""Estimates what a cluster used over the time of its own log, what offpeak would have saved, and why much or little.

What was used follows from the logged starts and ends. The reasons come from the site's own load, prices and power.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from offpeak.display import percent_text
from offpeak.errors import BadTrace
from offpeak.executor import THREADS, Executor
from offpeak.model.arrays import Float64
from offpeak.model.cluster import Cluster
from offpeak.model.constants import J_PER_KWH, J_PER_MWH, YEAR_S
from offpeak.model.job_power import ASSUMED_POWER
from offpeak.model.jobs import Jobs, RejectedJobs, Trace
from offpeak.model.schedule_metrics import utilization
from offpeak.model.step_series import split
from offpeak.prices.peak import Peak, classify
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.electricity import decision_series
from offpeak.sim_backend.case.replay_case import PreparedCase, ReplayCase, prepare
from offpeak.sim_backend.comparison.compare import Comparison, compare, demand_of, meters_of, usage_of
from offpeak.sim_backend.comparison.likeness import Likeness, likeness_of
from offpeak.sim_backend.comparison.outcome import Demand, PolicyOutcome, charges_of
from offpeak.sim_backend.comparison.replications import ReplicationSpread, replay_each, spreads_of
from offpeak.sim_backend.comparison.weeks import LEAST_WEEKS
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak.sim_backend.traces.filters import known_period_s, last_days, priced

HARDLY_PCT = 0.5
"""Savings below this percentage of the bill are called hardly worth it."""
MOST_REPLAYS, FIRST_REPLAYS = 20, 4
"""How often orders are replayed, and how often for a first answer."""
QUICK_JOBS, QUICK_REPLAYS = 100_000, 10
"""Logs of more jobs are replayed less often, for an answer within seconds."""
RARELY_WAITING, FLAT_PRICES, ALIKE = 0.25, 1.3, 0.1
"""Below this share of waiting, ratio of prices and variation of power there is little to gain."""


@dataclass(frozen=True)
class Bounds:
    """A figure with its lower and upper bound; all three are equal without assumptions."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class LoggedUse:
    """Energy, money and waiting of a log as it was, over [begin_s, until_s) of the trace's clock.

    `waiting_share` is the share of the period in which at least one job waited: without that there is nothing to
    reorder. `mean_price` is the price of the energy used, `plain_mean_price` the period's mean, both per MWh. `cost`
    has the demand charges of the tariff in it, `demand` is None without any.
    """

    begin_s: int
    until_s: int
    energy_kwh: Bounds
    idle_energy_kwh: float
    cost: Bounds
    currency: str
    unpriced_kwh: float
    co2_kg: float | None
    mean_price: float
    plain_mean_price: float
    utilization: float
    mean_wait_s: float
    waiting_share: float
    demand: Demand | None = None


def logged_use(case: ReplayCase, draws_w: tuple[Float64, Float64, Float64], begin_s: int, until_s: int) -> LoggedUse:
    """Return the usage if the jobs drew the lowest, the likeliest and the highest `draws_w` [W per unit].

    All starts are logged and all runs lie within the period; processors are those used. The prices reach to its end.
    """
    meters = meters_of(case, until_s)
    case = replace(case, jobs=case.jobs.as_logged())
    jobs = case.jobs
    schedule = Schedule(jobs.logged_start_s, jobs.logged_start_s + jobs.runtime_s, 0.0)
    usages = [usage_of(replace(case, node_power_w=draw_w), schedule, begin_s, until_s) for draw_w in draws_w]
    charges, demands = [charges_of(each, meters) for each in usages], [demand_of(case, each, None) for each in usages]
    energy = Bounds(*(charge.energy.total / J_PER_KWH for charge in charges))
    # At negative prices the highest power costs least.
    costs = [
        charge.cost.total / J_PER_MWH + (demand.cost if demand else 0.0)
        for charge, demand in zip(charges, demands, strict=True)
    ]
    cost = Bounds(min(costs), costs[1], max(costs))
    aligned = case.prices.aligned.until(until_s)
    series = aligned.series
    edges_s = np.append(series.start_s, series.end_s) - aligned.offset_s
    length_s = np.diff(np.clip(edges_s, begin_s, until_s)) * series.known
    known_kwh = energy.middle - charges[1].unpriced_j / J_PER_KWH
    return LoggedUse(
        begin_s=begin_s,
        until_s=until_s,
        energy_kwh=energy,
        idle_energy_kwh=charges[1].energy.idle / J_PER_KWH,
        cost=cost,
        currency=meters.currency,
        unpriced_kwh=charges[1].unpriced_j / J_PER_KWH,
        co2_kg=charges[1].co2_kg,
        mean_price=1000 * charges[1].cost.total / J_PER_MWH / known_kwh if known_kwh else 0.0,
        plain_mean_price=float(np.dot(length_s, np.nan_to_num(series.value)) / max(length_s.sum(), 1)),
        utilization=utilization(jobs.size, jobs.runtime_s, machine_size=case.machine.size, period_s=until_s - begin_s),
        mean_wait_s=float((jobs.logged_start_s - jobs.submit_s).mean()),
        waiting_share=waiting_share(jobs, begin_s, until_s),
        demand=demands[1],
    )


def waiting_share(jobs: Jobs, begin_s: int, until_s: int) -> float:
    """Return the share of the period in which at least one job waited."""
    latest_s = np.maximum.accumulate(np.concatenate([[begin_s], jobs.logged_start_s]))[:-1]
    alone_from_s = np.maximum(jobs.submit_s, latest_s)
    return float(np.maximum(jobs.logged_start_s - alone_from_s, 0).sum()) / max(until_s - begin_s, 1)


@dataclass(frozen=True)
class CapabilitySaving:
    """What one capability would have saved: share of the bill [%], and money over a year like the log's period.

    Low to high holds 19 of 20 further periods as long as the replays, a year at most, if load and prices are like those
    of the weeks of the log; `weeks` are those that the range rests on, of fewer than LEAST_WEEKS there is none and all
    three are equal. Where the draw of jobs is assumed, the range also holds jobs that all draw the same: then no order
    is cheaper than another. `is_noise`: the policy may as well cost more. `boot_delay_s` is the mean time
    for which a job that needed sleeping nodes waited for them; it and the cycles are None if no node sleeps. Energy is
    saved over a year, `peak_kw` is the fall of the highest quarter-hour, None if not known. Of jobs that may be kept
    back, the wait is theirs. `longer_run` is the share by which runs become longer, 0 unless nodes are capped.
    """

    capability: str
    policy: str
    share_pct: Bounds
    a_year: Bounds
    wait_change_s: float = 0.0
    wait_is_noise: bool = False
    is_noise: bool = False
    boot_delay_s: float | None = None
    cycles_per_node_day: float | None = None
    energy_kwh: float = 0.0
    peak_kw: float | None = None
    peak_is_noise: bool = False
    longer_run: float = 0.0
    weeks: int = 0

    @property
    def has_range(self) -> bool:
        """Whether the replays have weeks enough for a range."""
        return self.weeks >= LEAST_WEEKS

    @property
    def pays(self) -> bool:
        """Whether it saves more than chance alone could."""
        return not self.is_noise and self.share_pct.middle > 0


@dataclass(frozen=True)
class SavingsEstimate:
    """What was used, what reordering would have saved, and how well the baseline's replay resembles the log.

    `trace` is the log cut to the period. `spreads` holds the replays of all policies, the baseline first; `comparison`
    the replay of the log as it is, of the baseline alone. `are_starts_replayed`: the log has no start of any job, so
    those of the baseline replace them. `likeness` is how near the baseline's replay is to the log, None without any
    start. `outcomes` are those of the replays so far.
    """

    trace: Trace
    prepared: PreparedCase
    used: LoggedUse
    savings: tuple[CapabilitySaving, ...]
    spreads: tuple[ReplicationSpread, ...]
    comparison: Comparison
    are_starts_replayed: bool = False
    likeness: Likeness | None = None
    outcomes: tuple[tuple[PolicyOutcome, ...], ...] = ()

    @property
    def hardly_pays(self) -> bool:
        """Whether no policy saves a notable share of the bill for certain."""
        return all(saving.is_noise or saving.share_pct.high < HARDLY_PCT for saving in self.savings)


def estimate_savings(
    trace: Trace,
    settings: Settings,
    policies: tuple[Policy, ...],
    *,
    days: int | None,
    replays: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
    cluster: Cluster | None = None,
    executor: Executor = THREADS,
) -> SavingsEstimate:
    """Return the estimate of a log's last days, or of all that it knows whole, for the baseline and other policies.

    With a `cluster` the replays are on its pools of nodes. `replays` is how often to replay; None stands for as often
    as an answer within seconds allows. BadTrace or BadPrices as `prepare` raises them, or if no job ran in that time or
    none took any.
    """
    whole = started(trace, settings, policies[0], cluster)
    cut = priced(last_days(whole, days), settings.prices)
    begin_s, until_s = int(cut.jobs.submit_s[0]), known_period_s(cut.jobs)[1]
    if until_s <= begin_s:
        raise BadTrace(f"{cut.name}: its jobs took no time at all", hint="a log of more days is needed")
    prepared = prepare(cut, settings, start=None, whole=whole, cluster=cluster)
    comparison = compare(prepared.case, policies[:1])
    # The lowest, likeliest and highest draw of each job: one and the same unless it is assumed.
    power, likeliest_w = prepared.power, prepared.case.node_power_w
    draws_w = likeliest_w, likeliest_w, likeliest_w
    if power.assumed:
        low_w, high_w = (watts / power.units_per_node for watts in (ASSUMED_POWER.low_w, ASSUMED_POWER.high_w))
        draws_w = np.full_like(likeliest_w, low_w), likeliest_w, np.full_like(likeliest_w, high_w)
    are_starts_replayed = not (trace.jobs.logged_start_s >= 0).any()
    estimate = SavingsEstimate(
        trace=cut,
        prepared=prepared,
        used=logged_use(comparison.case, draws_w, begin_s, until_s),
        savings=(),
        spreads=(),
        comparison=comparison,
        are_starts_replayed=are_starts_replayed,
        likeness=None if are_starts_replayed else likeness_of(comparison, cut.names, prepared.units_per_node),
    )
    if replays is None:
        replays = MOST_REPLAYS if len(prepared.case.jobs) <= QUICK_JOBS else QUICK_REPLAYS
    return replay_more(
        estimate, policies=policies, seed=settings.power.seed, replays=replays, progress=progress, executor=executor
    )


def replay_more(
    estimate: SavingsEstimate,
    *,
    policies: tuple[Policy, ...],
    seed: int,
    replays: int,
    progress: Callable[[int], None] = lambda _: None,
    executor: Executor = THREADS,
) -> SavingsEstimate:
    """Return the estimate of so many replays, of which those that it has are not repeated."""
    prepared = estimate.prepared
    draw_w = prepared.power.draw_w if prepared.power.is_drawn else None
    more = range(len(estimate.outcomes), replays)
    outcomes = (
        *estimate.outcomes,
        *replay_each(prepared.case, policies, more, seed=seed, draw_power=draw_w, progress=progress, executor=executor),
    )
    spreads = spreads_of(outcomes, prepared.case.prices.aligned.weeks)
    is_assumed = prepared.power.assumed
    savings = tuple(saving_of(each, estimate.used, "order", is_assumed=is_assumed) for each in spreads[1:])
    return replace(estimate, outcomes=outcomes, spreads=spreads, savings=savings)


def started(trace: Trace, settings: Settings, baseline: Policy, cluster: Cluster | None = None) -> Trace:
    """Return the log with a start for each job: those logged, or those of the baseline's replay if none was."""
    known = trace.jobs.logged_start_s >= 0
    if len(known) and known.all():
        return trace
    if known.any():
        missing = RejectedJobs("its start is not in the log", tuple(trace.jobs.job_id[~known].tolist()))
        return replace(trace, jobs=trace.jobs.take(known), rejected=(*trace.rejected, missing))
    case = prepare(trace, settings, start=None, cluster=cluster).case
    schedule = compare(case, (baseline,)).runs[0].schedule
    note = f"the log does not say when jobs started: {baseline.name} does, replayed"
    jobs = replace(case.jobs, logged_start_s=schedule.start_s)
    return replace(trace, jobs=jobs, requests=case.requests, notes=(*trace.notes, note))


def saving_of(
    spread: ReplicationSpread,
    used: LoggedUse,
    capability: str,
    *,
    is_assumed: bool = False,
    period_s: int | None = None,
) -> CapabilitySaving:
    """Return the saving of a policy by its replays; `is_assumed`: with equal power of all jobs it may be zero.

    `period_s` is the length of the replays if they are of a part of the log.
    """
    money = "bill_saving_pct" if "bill_saving_pct" in spread.figures else "saving_pct"
    middle, half = spread.figures[money].middle, spread.further.share_half_pct
    differences, part = spread.differences, 1.0
    if used.demand and "peak_kw" not in spread.figures and used.cost.middle:
        # No quarter-hour of these days counts for a demand charge: what they save is a part of the energy's cost.
        part = abs((used.cost.middle - used.demand.cost) / used.cost.middle)
    share = Bounds(part * (middle - half), part * middle, part * (middle + half))
    is_noise = share.low <= 0 <= share.high if spread.further.is_known else spread.is_noise(money)
    wait, wait_is_noise = differences["mean_wait_s"], spread.is_noise("mean_wait_s")
    if "held_wait_s" in spread.figures:
        wait = spread.figures["held_wait_s"]
        wait_is_noise = wait.has_either_sign
    boot_delay_s = None
    if "delayed_share" in spread.figures:
        delayed = spread.figures["delayed_share"].mean
        boot_delay_s = spread.figures["mean_sleep_delay_s"].mean / delayed if delayed else 0.0
    years = (period_s or used.until_s - used.begin_s) / YEAR_S
    a_year = _a_year(share, spread, used, years)
    if is_assumed and spread.further.is_known:
        share, a_year = (replace(each, low=min(each.low, 0.0)) for each in (share, a_year))
    return CapabilitySaving(
        capability=capability,
        policy=spread.policy,
        share_pct=share,
        a_year=a_year,
        wait_change_s=wait.middle,
        wait_is_noise=wait_is_noise,
        is_noise=is_noise,
        boot_delay_s=boot_delay_s,
        cycles_per_node_day=cycles.mean if (cycles := spread.figures.get("cycles_per_node_day")) else None,
        energy_kwh=-differences["energy_kwh"].middle / years,
        peak_kw=-differences["peak_kw"].middle if "peak_kw" in differences else None,
        peak_is_noise="peak_kw" in differences and spread.is_noise("peak_kw"),
        weeks=spread.further.weeks,
    )


def _a_year(share: Bounds, spread: ReplicationSpread, used: LoggedUse, years: float) -> Bounds:
    """Return the money a year: that share of what the log cost a year or, where the week of the prices is drawn and the
    bill is another one in each replay, the median of the replays.

    Its range has the sign of that of the share. An assumed draw widens it as it widens the logged bill. Shares count
    from the size of the bill, also of one that is paid to the cluster, as negative prices make it.
    """
    bill, further = abs(used.cost.middle), spread.further
    middle = share.middle * bill / 100 / ((used.until_s - used.begin_s) / YEAR_S)
    if spread.alignments > 1:
        middle = -spread.differences.get("bill", spread.differences["cost"]).middle / years
    if not further.is_known:
        return Bounds(middle, middle, middle)
    if share.low * share.high > 0 and further.saved_factor is not None:
        ends = (middle / further.saved_factor, middle * further.saved_factor)
    else:
        ends = (middle - further.saved_half / years, middle + further.saved_half / years)
    ratios = [abs(each) / bill for each in (used.cost.low, used.cost.high)] if bill else [1.0]
    money = [end * ratio for end in ends for ratio in ratios]
    return Bounds(min(money), middle, max(money))


def reasons(estimate: SavingsEstimate) -> list[str]:
    """Return in sentences what keeps the saving small; nothing if nothing does."""
    used = estimate.used
    lines = []
    if used.waiting_share < RARELY_WAITING:
        share = percent_text(100 * used.waiting_share)
        lines.append(f"jobs waited in {share} of the time only: without waiting jobs there is nothing to reorder")
    ratio = price_ratio(estimate)
    if ratio is not None and ratio < FLAT_PRICES:
        lines.append(f"expensive hours cost {ratio:.2f} times as much as the others: there is little to gain")
    case = estimate.comparison.case
    weight = np.maximum(case.jobs.size * case.jobs.runtime_s, 1)
    mean_w = float(np.average(case.node_power_w, weights=weight))
    deviation_w = float(np.average((case.node_power_w - mean_w) ** 2, weights=weight)) ** 0.5
    if not estimate.prepared.power.assumed and deviation_w / mean_w < ALIKE:
        lines.append("jobs draw nearly the same power: no order is much cheaper than another")
    return lines


def price_ratio(estimate: SavingsEstimate) -> float | None:
    """Return the mean on-peak price over the mean off-peak price; None without either, or if one is not positive."""
    case = estimate.comparison.case
    aligned = case.prices.aligned
    decisions, peak = classify(decision_series(case.prices, case.carbon), case.prices.rule)
    series = split(aligned.series, decisions.start_s)
    edges_s = np.append(series.start_s, series.end_s) - aligned.offset_s
    length_s = np.diff(np.clip(edges_s, estimate.used.begin_s, estimate.used.until_s))
    means = []
    for state in (Peak.ON_PEAK, Peak.OFF_PEAK):
        inside = (peak == state) & (length_s > 0) & series.known
        if not inside.any():
            return None
        means.append(float(np.average(series.value[inside], weights=length_s[inside])))
    return means[0] / means[1] if min(means) > 0 else None
