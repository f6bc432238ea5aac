"""The cost of the site's own order of the queue: the same jobs replayed, corrected by each day's own error.

The engine replays the jobs twice: under the site's own scheduling, and with a reordered queue on the days on which
offpeak reordered it. The second replay reproduces the real schedule, so its error is the error of the engine, which is
subtracted from the first replay, day by day. All replays are charged with the same power and prices, and with every
node on. The savings of sleeping nodes are another account.
"""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadTrace
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH, J_PER_MWH
from offpeak.model.jobs import Trace
from offpeak.model.step_series import Series, fill_gaps
from offpeak.settings.replay import CarbonSettings, PriceSettings
from offpeak.settings.table import Settings
from services.accounts.month_account import ReplayInputs, add_draws, find_ordered_peaks
from sim_backend.case.electricity import LaidSeries, ReplayPrices
from sim_backend.case.replay_case import PreparedCase, ReplayCase, prepare
from sim_backend.comparison.compare import charge_period, meters_of, replay_policies
from sim_backend.comparison.outcome import Meters
from sim_backend.comparison.replications import ReplicationInterval, interval_of, shifted
from sim_backend.engine.state import PeakTimes
from sim_backend.replay.policy import DEFAULT_DISCIPLINE, DISCIPLINES, Policy, parse_policy
from sim_backend.replay.schedule import NO_PEAKS, Schedule
from sim_backend.traces.filters import between

REPLAYS = 20


def site_policies(settings: Settings) -> tuple[Policy, Policy]:
    """Return the site's own policy, which is the first discipline in the settings, and that of the agent on top."""
    own = next((name for name in settings.scheduling.policies if name in DISCIPLINES), DEFAULT_DISCIPLINE)
    site, queue = parse_policy(own, settings.scheduling), settings.agent.queue
    if queue in ("off", "plan"):
        return site, site
    return site, parse_policy(queue if own == DEFAULT_DISCIPLINE else f"{own}+{queue}", settings.scheduling)


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


@dataclass(frozen=True)
class Counterfactual:
    """Bills by the times of jobs, float64[periods], with every node on; the last period follows the time.

    `logged` is by the real starts; `own` the replay of them, `without` what the site's own order would have cost, set
    right by own's error, both means. `saved` and `saved_kg` hold 19 of 20 replays. `error_share` is how far own's days
    are off, of the bill. `drawn` of the jobs have their draw from the ledger.
    """

    site: str
    ordering: str
    jobs: int
    drawn: int
    nodes: int
    logged: Float64
    own: Float64
    without: Float64
    saved: ReplicationInterval
    saved_kg: ReplicationInterval | None
    currency: str
    error_share: float
    wait_s: float
    own_wait_s: float
    without_wait_s: float

    @property
    def is_noise(self) -> bool:
        """Whether the saving may be by chance."""
        return self.saved.low <= 0 <= self.saved.high


def replay_site_order(
    trace: Trace, inputs: ReplayInputs, settings: Settings, site: Policy, ordering: Policy
) -> Counterfactual:
    """Return the comparison for the jobs of a log; `ordering` put the queue in order on the days that `inputs` names.

    Raises BadTrace for a log without dates or starts, or where no job ran.
    """
    if trace.unix_start_s is None:
        raise BadTrace(f"{trace.name}: has no date", hint="the accounting of the cluster has")
    drawing, drawn = add_draws(_started(trace), inputs.energies_j)
    edges_s = inputs.edges_unix_s - trace.unix_start_s
    cut = between(drawing, int(edges_s[0]), int(edges_s[-1]))
    prepared = _prepare_case(cut, drawing, settings, inputs)
    case = prepared.case
    policies = (
        PolicyReplay(site, NO_PEAKS),
        PolicyReplay(ordering, find_ordered_peaks(inputs, case, inputs.ordered)),
    )
    billed = bill_days(case, policies, edges_s, seed=settings.power.seed)
    known = int(np.isin(case.jobs.job_id, drawn).sum())
    counts = (len(case.jobs), known, case.machine.size // prepared.units_per_node)
    return _compare_bills(billed, (site.name, ordering.name), counts, case.prices.laid.series.currency)


def _started(trace: Trace) -> Trace:
    started = trace.jobs.logged_start_s >= 0
    if not started.any():
        raise BadTrace(f"{trace.name}: does not say when jobs started", hint="the accounting of the cluster does")
    return replace(trace, jobs=trace.jobs.take(started))


def _prepare_case(cut: Trace, whole: Trace, settings: Settings, inputs: ReplayInputs) -> PreparedCase:
    """Return the case of the log with the prices of the ledger instead of those of the settings, all nodes on."""
    prepared = prepare(cut, replace(settings, prices=PriceSettings(), carbon=CarbonSettings()), start=None, whole=whole)
    return replace(prepared, case=replace(with_ledger_prices(prepared.case, cut, inputs), nodes=None))


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


def _compare_bills(
    billed: BilledDays, names: tuple[str, str], counts: tuple[int, int, int], currency: str
) -> Counterfactual:
    logged = billed.logged
    saved = np.array([site.cost - own.cost for site, own in billed.replayed])
    own_cost = np.mean([own.cost for _, own in billed.replayed], axis=0)
    bill = float(np.abs(logged.cost[:-1]).sum())
    return Counterfactual(
        *names,
        *counts,
        logged=logged.cost,
        own=own_cost,
        without=logged.cost + saved.mean(axis=0),
        saved=interval_of(saved.sum(axis=1)),
        saved_kg=_saved_kg(billed),
        currency=currency,
        error_share=float(np.abs(own_cost - logged.cost)[:-1].sum()) / bill if bill else 0.0,
        wait_s=logged.mean_wait_s,
        own_wait_s=float(np.mean([own.mean_wait_s for _, own in billed.replayed])),
        without_wait_s=float(np.mean([site.mean_wait_s for site, _ in billed.replayed])),
    )


def _saved_kg(billed: BilledDays) -> ReplicationInterval | None:
    sums = [
        float((site.co2_kg - own.co2_kg).sum())
        for site, own in billed.replayed
        if site.co2_kg is not None and own.co2_kg is not None
    ]
    return interval_of(np.array(sums)) if sums else None
