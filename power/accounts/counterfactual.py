"""What the site's own order of the queue would have cost: the same jobs replayed, set right by each day's own error.

The engine replays the jobs twice: under the site's own scheduling, and with the queue put in order on those days on
which it was. The second replay is of what happened, so it says how far the engine is off. That error is taken off the
first one, day by day.
"""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadTrace
from offpeak.model.arrays import Float64
from offpeak.model.jobs import Trace
from offpeak.model.step_series import Series, fill_gaps
from offpeak.settings.replay import CarbonSettings, PriceSettings
from offpeak.settings.table import Settings
from power.accounts.ordered_days import Told, ordered_peaks, with_draws
from power.accounts.replayed_days import BilledDays, billed_days
from sim_backend.case import PreparedCase, prepare
from sim_backend.compare import ReplayCase
from sim_backend.electricity import LaidSeries, ReplayPrices
from sim_backend.policy import Policy
from sim_backend.replications import WITHIN_PERCENTILES, ReplicationInterval
from sim_backend.traces.filters import between


@dataclass(frozen=True)
class Counterfactual:
    """Bills by when jobs ran, float64[periods], every node on; the last period is what lies behind the time.

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
        """Whether chance alone could have saved that."""
        return self.saved.low <= 0 <= self.saved.high


def counterfactual(trace: Trace, told: Told, settings: Settings, site: Policy, ordering: Policy) -> Counterfactual:
    """Return it for the jobs of a log that ran in the time; `ordering` put the queue in order where `told` says so.

    BadTrace for a log without dates or starts, or where no job ran.
    """
    if trace.unix_start_s is None:
        raise BadTrace(f"{trace.name}: has no date", hint="the accounting of the cluster has")
    drawing, drawn = with_draws(_started(trace), told.energies_j)
    edges_s = told.edges_unix_s - trace.unix_start_s
    cut = between(drawing, int(edges_s[0]), int(edges_s[-1]))
    prepared = _prepared(cut, drawing, settings, told)
    peaks = ordered_peaks(told, prepared.case.prices.laid)
    billed = billed_days(prepared.case, (site, ordering), peaks, edges_s, seed=settings.power.seed)
    case = prepared.case
    known = int(np.isin(case.jobs.job_id, drawn).sum())
    counts = (len(case.jobs), known, case.machine.size // prepared.units_per_node)
    return _judged(billed, (site.name, ordering.name), counts, case.prices.laid.series.currency)


def _started(trace: Trace) -> Trace:
    started = trace.jobs.logged_start_s >= 0
    if not started.any():
        raise BadTrace(f"{trace.name}: does not say when jobs started", hint="the accounting of the cluster does")
    return replace(trace, jobs=trace.jobs.take(started))


def _prepared(cut: Trace, whole: Trace, settings: Settings, told: Told) -> PreparedCase:
    """Return the case of the log; what it is paid by are the prices of the ledger, not those of the settings."""
    prepared = prepare(cut, replace(settings, prices=PriceSettings(), carbon=CarbonSettings()), start=None, whole=whole)
    price, carbon = told.prices.price, told.prices.carbon
    laid = _laid(price, cut, told)
    case: ReplayCase = replace(
        prepared.case,
        prices=ReplayPrices(laid, told.peak_rule),
        carbon=_laid(carbon, cut, told) if carbon else None,
        nodes=None,
    )
    return replace(prepared, case=case)


def _laid(series: Series, trace: Trace, told: Told) -> LaidSeries:
    """Return the series on the log's clock without gaps: an hour that cost nothing would draw all savings to it."""
    filled = fill_gaps(series)
    mean = float(np.average(series.value[series.known], weights=series.length_s[series.known]))
    whole = replace(filled, value=np.where(filled.known, filled.value, mean))
    return LaidSeries(whole, trace.unix_start_s or 0, told.zone, ())


def _judged(billed: BilledDays, names: tuple[str, str], counts: tuple[int, int, int], currency: str) -> Counterfactual:
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
        saved=_interval(saved.sum(axis=1)),
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
    return _interval(np.array(sums)) if sums else None


def _interval(values: Float64) -> ReplicationInterval:
    low, high = np.percentile(values, WITHIN_PERCENTILES)
    return ReplicationInterval(float(values.mean()), float(low), float(high))
