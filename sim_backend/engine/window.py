"""The window: the first queued jobs that a policy may reorder in this pass, and their order."""

from typing import Any, NamedTuple

import numpy as np

from offpeak.compiled import index, part
from offpeak.model.arrays import Float64, Int64
from offpeak.plugin.window_order import (
    Fillings,
    choose_order,
    count_kept,
    count_kept_part,
    free_behind,
    order_view,
    scratch,
)
from offpeak.plugin.window_policy import KNAPSACK_SLIDE, WindowPolicy, WindowView
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.rules import EngineRules, PeakTimes

OFF_PEAK, UNKNOWN = int(Peak.OFF_PEAK), int(Peak.UNKNOWN)


class QueueWindow(NamedTuple):
    """The window of this pass by rank of submission, the order that a policy gives to these ranks, and its scratch."""

    position: Int64
    size: Int64
    node_power_w: Float64
    order: Int64
    fillings: Fillings


def new_window(most_jobs: int, units: int) -> QueueWindow:
    """Return a window of at most so many jobs on a machine of so many units."""
    position, size, order = np.empty((3, most_jobs), dtype=np.int64)
    return QueueWindow(position, size, np.empty(most_jobs), order, fillings=scratch(units))


def find_peak(peaks: PeakTimes, following: int) -> int:
    """Return the state of the price before its change number `following`."""
    return int(peaks.peak[following - 1]) if following > 0 else UNKNOWN


find_peak_part = part(find_peak)


@part
def entry(state: Any, rank: int) -> int:
    """Return the queue position at `rank` of this pass: the window in its order, then the positions behind it."""
    now = state.scalars[0]
    if rank < now.window:
        return int(state.window.position[index(state.window.order[index(rank)])])
    return int(now.behind_window + rank - now.window)


@part
def order_window(
    now: Any, window: QueueWindow, passed_over_s: Int64, peaks: PeakTimes, rules: EngineRules, free: int
) -> None:
    """Order the window by a built-in policy, and set how many jobs are considered. An unknown price changes nothing.

    `now` are the scalars of the state, `passed_over_s` is by position of the queue.
    """
    peak = find_peak_part(peaks, now.next_peak)
    if peak == UNKNOWN:
        return
    jobs = now.window
    may_start = choose_order(
        window.fillings,
        window.order,
        window.size[:jobs],
        window.node_power_w[:jobs],
        policy=rules.policy,
        off_peak=peak == OFF_PEAK,
        kept=count_kept_part(passed_over_s, window.position, jobs, now.now_s, rules.max_postponement_s),
        free=free,
    )
    if rules.policy == KNAPSACK_SLIDE:
        now.considered = may_start


class WindowJobs(NamedTuple):
    """What only a policy in Python sees of the jobs in the window: number, submission and estimate, by rank."""

    job_id: Int64
    submit_s: Int64
    estimate_s: Int64


def decide_order(
    policy: WindowPolicy,
    now: Any,
    window: QueueWindow,
    jobs: WindowJobs,
    *,
    passed_over_s: Int64,
    peaks: PeakTimes,
    rules: EngineRules,
    free: int,
) -> None:
    """Write the order of a policy from outside; jobs that were passed over for too long keep their place, unseen."""
    length, now_s = int(now["window"]), int(now["now_s"])
    kept = count_kept(passed_over_s, window.position, length, now_s, rules.max_postponement_s)
    if kept == length:
        return
    view = WindowView(
        now_s=now_s,
        peak=Peak(find_peak(peaks, now["next_peak"])),
        free=int(free_behind(free, window.size, kept)),
        job_id=jobs.job_id[kept:].copy(),
        size=window.size[kept:length].copy(),
        estimate_s=jobs.estimate_s[kept:].copy(),
        waited_s=now_s - jobs.submit_s[kept:],
        node_power_w=window.node_power_w[kept:length].copy(),
    )
    window.order[kept:length] = kept + np.array(order_view(policy, view))
