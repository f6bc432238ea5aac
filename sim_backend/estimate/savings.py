"""Estimates what a cluster used over the time of its own log, and what offpeak would have saved."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from offpeak.errors import BadTrace
from offpeak.model.arrays import Float64
from offpeak.model.job_power import ASSUMED_POWER
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.settings.table import Settings
from sim_backend.case import Prepared, prepare
from sim_backend.compare import Comparison, compare
from sim_backend.estimate.logged_use import Bounds, LoggedUse, logged_use
from sim_backend.estimate.priced import priced
from sim_backend.outcome import Outcome
from sim_backend.policy import Policy
from sim_backend.replays import replay_each
from sim_backend.spread import Spread, spreads_of
from sim_backend.traces.period import known_period_s, last_days

YEAR_S = 365.25 * 86_400
HARDLY_PCT = 0.5
"""Savings that stay below this share of the bill are called hardly worth it."""

MOST_REPLAYS, FIRST_REPLAYS = 20, 4
SETTLED_PCT = 0.05
"""Where the range of the first replays' savings is narrower, more of them would show the same figures."""


@dataclass(frozen=True)
class Saving:
    """What one capability would have saved: share of the bill [%], and money over a year like the log's period.

    Low to high holds 19 of 20 replays and, where the draw of jobs is assumed, jobs that all draw the same: then no
    order is cheaper than another. `is_noise`: the policy may as well have cost more.
    """

    capability: str
    policy: str
    share_pct: Bounds
    a_year: Bounds
    wait_change_s: float
    wait_is_noise: bool
    is_noise: bool


@dataclass(frozen=True)
class Estimate:
    """What was used, what reordering would have saved, and how well the baseline's replay resembles the log.

    `trace` is the log cut to the period. `spreads` holds the replays of all policies, the baseline first; `comparison`
    the replay of the log as it is, of the baseline alone. `are_starts_replayed`: the log has no start of any job, so
    the baseline's stand for them.
    """

    trace: Trace
    prepared: Prepared
    used: LoggedUse
    savings: tuple[Saving, ...]
    spreads: tuple[Spread, ...]
    comparison: Comparison
    are_starts_replayed: bool = False

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
) -> Estimate:
    """Return the estimate of a log's last days, or of all that it knows whole, for the baseline and other policies.

    `replays` is how often to replay; None stands for MOST_REPLAYS, or the first few if they hardly differ. BadTrace or
    BadPrices as `prepare` raises them, or if no job ran in that time or none took any.
    """
    whole = started(trace, settings, policies[0])
    cut = priced(last_days(whole, days), settings.prices)
    period_s = _period_s(cut)
    prepared = prepare(cut, settings, start=None, whole=whole)
    comparison = compare(prepared.case, policies[:1])
    replay = partial(
        replay_each,
        prepared.case,
        policies,
        seed=settings.power.seed,
        draw_power=prepared.power.draw_w if prepared.power.is_drawn else None,
        progress=progress,
    )
    spreads = spreads_of(replay(range(replays)) if replays else _until_settled(replay))
    used = logged_use(comparison.case, _draws_w(prepared), *period_s)
    savings = tuple(saving_of(spread, used, "order", is_assumed=prepared.power.assumed) for spread in spreads[1:])
    are_starts_replayed = not (trace.jobs.logged_start_s >= 0).any()
    return Estimate(cut, prepared, used, savings, spreads, comparison, are_starts_replayed)


def _period_s(trace: Trace) -> tuple[int, int]:
    """Return first submission and end; BadTrace if no time lies between them, which could not be a part of a year."""
    begin_s, until_s = int(trace.jobs.submit_s[0]), known_period_s(trace.jobs)[1]
    if until_s <= begin_s:
        raise BadTrace(f"{trace.name}: its jobs took no time at all", hint="a log of more days is needed")
    return begin_s, until_s


def _until_settled(replay: Callable[[range], list[tuple[Outcome, ...]]]) -> list[tuple[Outcome, ...]]:
    """Return a few replays if their savings hardly differ, as those of many jobs do, else all of them."""
    outcomes = replay(range(FIRST_REPLAYS))
    saved = [spread.figures["saving_pct"] for spread in spreads_of(outcomes)]
    if all(each.high - each.low < SETTLED_PCT for each in saved):
        return outcomes
    return outcomes + replay(range(FIRST_REPLAYS, MOST_REPLAYS))


def started(trace: Trace, settings: Settings, baseline: Policy) -> Trace:
    """Return the log with a start for each job: those logged, or those of the baseline's replay if none was."""
    known = trace.jobs.logged_start_s >= 0
    if len(known) and known.all():
        return trace
    if known.any():
        missing = RejectedJobs("its start is not in the log", tuple(trace.jobs.job_id[~known].tolist()))
        return replace(trace, jobs=trace.jobs.take(known), rejected=(*trace.rejected, missing))
    case = prepare(trace, settings, start=None).case
    schedule = compare(case, (baseline,)).runs[0].schedule
    note = f"the log does not say when jobs started: {baseline.name} does, replayed"
    return replace(trace, jobs=replace(case.jobs, logged_start_s=schedule.start_s), notes=(*trace.notes, note))


def _draws_w(prepared: Prepared) -> tuple[Float64, Float64, Float64]:
    """Return the lowest, likeliest and highest draw of each job: one and the same unless it is assumed."""
    power, likeliest_w = prepared.power, prepared.case.node_power_w
    if not power.assumed:
        return likeliest_w, likeliest_w, likeliest_w
    low_w, high_w = (
        np.full(len(likeliest_w), watts / power.units_per_node) for watts in (ASSUMED_POWER.low_w, ASSUMED_POWER.high_w)
    )
    return low_w, likeliest_w, high_w


def saving_of(spread: Spread, used: LoggedUse, capability: str, *, is_assumed: bool = False) -> Saving:
    """Return what a policy saves by its replays; `is_assumed`: it may as well save nothing, all jobs drawing alike."""
    replayed = spread.figures["saving_pct"]
    share = Bounds(min(replayed.low, 0.0) if is_assumed else replayed.low, replayed.mean, replayed.high)
    return Saving(
        capability=capability,
        policy=spread.policy,
        share_pct=share,
        a_year=_a_year(share, used),
        wait_change_s=spread.differences["mean_wait_s"].mean,
        wait_is_noise=spread.is_noise("mean_wait_s"),
        is_noise=spread.is_noise("saving_pct"),
    )


def _a_year(share: Bounds, used: LoggedUse) -> Bounds:
    """Return these shares of what a year costs: the extremes of the range are those of both together.

    Shares count from the size of the bill, also of one that is paid to the cluster, as negative prices make it.
    """
    years = (used.until_s - used.begin_s) / YEAR_S
    costs = (abs(used.cost.low), abs(used.cost.high))
    low = min(share.low * cost for cost in costs)
    high = max(share.high * cost for cost in costs)
    return Bounds(low / 100 / years, share.middle * abs(used.cost.middle) / 100 / years, high / 100 / years)
