"""The range in which the saving of a further period lies, by the weeks of replays.

A replay says what each week would have cost under two policies. A further period has other jobs and other prices; we
assume that it is one more draw of such weeks. Neighbouring weeks are alike, so whole blocks of them are drawn, each
with its own jobs, prices and season: the circular block bootstrap (Politis and Romano, "A circular block-resampling
procedure for stationary data", 1992). A block has as many weeks as there are blocks, as for batch means (Flegal and
Jones, "Batch means and spectral variance estimators in Markov chain Monte Carlo", Annals of Statistics 38, 2010). The
variance of that bootstrap has a closed form, so nothing is drawn at random.

The range is Student's prediction interval: the saving of the known weeks and that of the further period both vary. It
has a degree of freedom less than blocks, so few weeks give wide ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_MWH, WEEK_S
from offpeak.model.step_integrals import StepIntegral, Usage, charge_by_job, integrals
from offpeak.model.step_series import sorted_once
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.nodes.power_curve import PowerCurve, power_curve

LEAST_WEEKS = 6
"""Fewer weeks have less than three blocks."""

MOST_LOG_HALF = 10.0
"""A range by larger factors, as a logarithm, is none."""

YEAR_WEEKS = 52
"""A further period is as long as the known weeks, and a year at most."""

STUDENT_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Two-sided 95 % quantiles of Student's t by degrees of freedom from 1 on; the last is used beyond."""


@dataclass(frozen=True)
class FurtherPeriod:
    """How far the saving of a further period may be from that of the replays, by their whole `weeks`, 19 times of 20.

    The share of the bill is that of the replays plus or minus `share_half_pct`; the money is that of the replays plus
    or minus `saved_half`, or times or over `saved_factor`, None if the replays do not agree on its sign. Of fewer than
    LEAST_WEEKS nothing is known.
    """

    weeks: int
    share_half_pct: float = 0.0
    saved_half: float = 0.0
    saved_factor: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether there are weeks enough for a range."""
        return self.weeks >= LEAST_WEEKS


NOTHING_KNOWN = FurtherPeriod(0)


@dataclass(frozen=True)
class ReplayedWeeks:
    """What the whole weeks of a replay cost, under a policy and under the baseline."""

    cost: Float64
    baseline: Float64


def costs_of_weeks(usage: Usage, submit_s: Int64, price: StepIntegral, curve: PowerCurve | None = None) -> Float64:
    """Return what each whole week costs, at a price per MWh; `curve` is the power of the machine if nodes can sleep.

    What jobs draw above idle nodes counts for the week of their submission [trace s], in any week in which they run: a
    job that is moved from Sunday to Monday saves by the prices of both days, and not a week's energy.
    """
    ran = usage.start_s != NOT_YET
    columns = {name: getattr(usage, name)[ran] for name in ("size", "start_s", "end_s")}
    runs = replace(usage, node_power_w=usage.node_power_w[ran] - usage.idle_w, idle_w=0.0, **columns)
    weeks = (usage.until_s - usage.begin_s) // WEEK_S
    week = (submit_s[ran] - usage.begin_s) // WEEK_S
    by_submission = np.bincount(week, weights=charge_by_job(price, runs), minlength=weeks)[:weeks]
    edges_s = usage.begin_s + WEEK_S * np.arange(weeks + 1)
    if curve is None:
        without_jobs = usage.idle_w * usage.machine_size * integrals(price, edges_s[:-1], edges_s[1:])
    else:
        without_jobs = _charge_between(curve, edges_s, price) - _charge_between(power_curve(runs), edges_s, price)
    return (without_jobs + by_submission) / J_PER_MWH


def _charge_between(curve: PowerCurve, edges_s: Int64, price: StepIntegral) -> Float64:
    """Return what the power of a curve costs between consecutive edges, in units of the price, watts and seconds."""
    if len(edges_s) < 2:
        return np.zeros(0)
    cut_s = sorted_once(curve.at_s[curve.at_s < edges_s[-1]], edges_s)
    watts = curve.total_w[np.searchsorted(curve.at_s, cut_s[:-1], side="right") - 1]
    return np.add.reduceat(watts * integrals(price, cut_s[:-1], cut_s[1:]), np.searchsorted(cut_s, edges_s[:-1]))


def further_period(replays: Sequence[ReplayedWeeks], share_pct: Float64, saved: Float64) -> FurtherPeriod:
    """Return how far a further period may be from these replays, of which each has saved that share and that money.

    Replays are of the same weeks of jobs: the mean of them says how weeks differ. By how much replays differ, by chance
    and where each has other prices, is added.
    """
    weeks = min((len(each) for replay in replays for each in (replay.cost, replay.baseline)), default=0)
    if weeks < LEAST_WEEKS:
        return FurtherPeriod(weeks)
    paid, kept = np.zeros(weeks), np.zeros(weeks)
    for replay in replays:
        bill = abs(replay.baseline[:weeks].sum()) or 1.0
        paid += replay.baseline[:weeks] / bill / len(replays)
        kept += (replay.baseline - replay.cost)[:weeks] / bill / len(replays)
    bill, total = float(paid.sum()), float(kept.sum())
    of_share = _variance_of_sum(kept - total / bill * paid) / bill**2 if bill else 0.0
    of_money = _variance_of_sum(kept - kept.mean()) / total**2 if total else 0.0
    log_half, factor = np.inf, None
    if (saved > 0).all() or (saved < 0).all():
        log_half = _half_width(of_money, weeks, np.log(np.abs(saved)))
    if log_half < MOST_LOG_HALF:
        factor = float(np.exp(log_half))
    half = _half_width(of_money * float(saved.mean()) ** 2, weeks, saved)
    return FurtherPeriod(weeks, _half_width(100**2 * of_share, weeks, share_pct), half, factor)


def _variance_of_sum(deviation: Float64) -> float:
    """Return the variance of the sum of so many weeks, drawn in blocks from these, whose sum is 0."""
    weeks = len(deviation)
    length, blocks = isqrt(weeks), weeks // isqrt(weeks)
    ring = np.concatenate([[0.0], np.cumsum(np.append(deviation, deviation[: length - 1]))])
    of_block = ring[length:] - ring[:-length]
    # Blocks vary about the mean of the known weeks, not about the true one: hence blocks - 1.
    return float(weeks / length * np.mean(of_block**2) * blocks / (blocks - 1))


def _half_width(variance: float, weeks: int, replays: Float64) -> float:
    """Return half the width of the range: `variance` is that over periods of so many weeks, `replays` has the figure of
    each replay.
    """
    of_weeks = variance * (1 + weeks / min(weeks, YEAR_WEEKS))
    of_replays = float(replays.var(ddof=1)) * (1 + 1 / len(replays)) if len(replays) > 1 else 0.0
    both, blocks = of_weeks + of_replays, weeks // isqrt(weeks)
    if not both:
        return 0.0
    # Degrees of freedom of the sum of two variances by Welch and Satterthwaite (1946).
    freedom = both**2 / (of_weeks**2 / (blocks - 1) + of_replays**2 / max(len(replays) - 1, 1))
    return float(STUDENT_95[min(max(int(freedom), 1), len(STUDENT_95)) - 1] * both**0.5)
