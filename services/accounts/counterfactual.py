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
from sim_backend.comparison.compare import meters_of, usage_of
from sim_backend.comparison.outcome import Meters, charges_of
from sim_backend.comparison.replications import ReplicationInterval, interval_of, shifted
from sim_backend.engine.state import PeakTimes
from sim_backend.replay.policy import Policy
from sim_backend.replay.schedule import Schedule, replay
from sim_backend.traces.filters import between

REPLAYS = 20


@dataclass(frozen=True)
class Bills:
    """Money and CO2 [kg] of each period, float64[periods], the CO2 None without an intensity; and the mean wait."""

    cost: Float64
    co2_kg: Float64 | None
    mean_wait_s: float


@dataclass(frozen=True)
class BilledDays:
    """The bills of the log, and those of the policies in each replay.

    One more period follows the last day: it has the cost of jobs that a policy moves out of the time.
    """

    logged: Bills
    replayed: tuple[tuple[Bills, ...], ...]


def bill_days(
    case: ReplayCase, policies: tuple[Policy, ...], peaks: PeakTimes, day_edges_s: Int64, *, seed: int
) -> BilledDays:
    """Return the bills of the days between these edges [trace seconds]; jobs start in the log and in REPLAYS replays.

    Submit times are shifted by up to a minute in each replay: the same for all policies.
    """
    cases = [shifted(case, np.random.default_rng([seed, number])) for number in range(REPLAYS)]
    schedules = [tuple(_replay(replayed, policy, peaks) for policy in policies) for replayed in cases]
    logged = Schedule(case.jobs.logged_start_s, case.jobs.logged_start_s + case.jobs.runtime_s, 0.0)
    ends_s = [int(schedule.end_s.max()) for schedule in (logged, *(schedule for run in schedules for schedule in run))]
    edges_s = np.append(day_edges_s, max(*ends_s, int(day_edges_s[-1]) + 1))
    reaching = replace(case, prices=replace(case.prices, laid=case.prices.laid.until(int(edges_s[-1]))))
    meters = meters_of(reaching, int(edges_s[-1]))
    return BilledDays(
        _bills(case, logged, edges_s, meters),
        tuple(
            tuple(_bills(replayed, schedule, edges_s, meters) for schedule in run)
            for replayed, run in zip(cases, schedules, strict=True)
        ),
    )


def _replay(case: ReplayCase, policy: Policy, peaks: PeakTimes) -> Schedule:
    return replay(case.jobs, case.node_power_w, machine_size=case.machine.size, policy=policy, peaks=peaks)


def _bills(case: ReplayCase, schedule: Schedule, edges_s: Int64, meters: Meters) -> Bills:
    periods = zip(edges_s[:-1].tolist(), edges_s[1:].tolist(), strict=True)
    charges = [charges_of(usage_of(case, _within(schedule, *period), *period), meters) for period in periods]
    cost = np.array([charge.cost.total for charge in charges]) / J_PER_MWH
    co2_kg = np.array([charge.carbon.total for charge in charges if charge.carbon]) / J_PER_KWH / 1000
    wait_s = float((schedule.start_s - case.jobs.submit_s).mean())
    return Bills(cost, co2_kg if meters.carbon else None, wait_s)


def _within(schedule: Schedule, begin_s: int, until_s: int) -> Schedule:
    """Return the part of the schedule in that period; a job outside it takes no time."""
    edges = (begin_s, until_s)
    return Schedule(np.clip(schedule.start_s, *edges), np.clip(schedule.end_s, *edges), 0.0)


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
    peaks = find_ordered_peaks(inputs, prepared.case)
    billed = bill_days(prepared.case, (site, ordering), peaks, edges_s, seed=settings.power.seed)
    case = prepared.case
    known = int(np.isin(case.jobs.job_id, drawn).sum())
    counts = (len(case.jobs), known, case.machine.size // prepared.units_per_node)
    return _compare_bills(billed, (site.name, ordering.name), counts, case.prices.laid.series.currency)


def _started(trace: Trace) -> Trace:
    started = trace.jobs.logged_start_s >= 0
    if not started.any():
        raise BadTrace(f"{trace.name}: does not say when jobs started", hint="the accounting of the cluster does")
    return replace(trace, jobs=trace.jobs.take(started))


def _prepare_case(cut: Trace, whole: Trace, settings: Settings, inputs: ReplayInputs) -> PreparedCase:
    """Return the case of the log with the prices of the ledger instead of those of the settings."""
    prepared = prepare(cut, replace(settings, prices=PriceSettings(), carbon=CarbonSettings()), start=None, whole=whole)
    price, carbon = inputs.prices.price, inputs.prices.carbon
    laid = _fill_gaps(price, cut, inputs)
    case: ReplayCase = replace(
        prepared.case,
        prices=ReplayPrices(laid, inputs.peak_rule, inputs.weighing),
        carbon=_fill_gaps(carbon, cut, inputs) if carbon else None,
        nodes=None,
    )
    return replace(prepared, case=case)


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
