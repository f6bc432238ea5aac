"""The window: the first queued jobs that a policy may reorder in this pass, and their order."""

from offpeak.compiled import index, part
from offpeak.model.arrays import Float64, Int64
from offpeak.prices.peak import Peak
from plugin.window_order import Fillings, count_kept, fill_nodes, fill_value, free_behind, put_first, sort_by_power
from plugin.window_policy import GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE
from sim_backend.engine.state import NEVER, PeakTimes, SchedulingRules, State

OFF_PEAK, UNKNOWN = int(Peak.OFF_PEAK), int(Peak.UNKNOWN)


def find_peak(peaks: PeakTimes, following: int) -> int:
    """Return the state of the price before its change number `following`."""
    return int(peaks.peak[following - 1]) if following > 0 else UNKNOWN


# The engine and the path of Python policies share these functions; the kernels inline them.
count_kept_part, free_behind_part, find_peak_part = part(count_kept), part(free_behind), part(find_peak)


@part
def choose_order(
    fillings: Fillings,
    order: Int64,
    size: Int64,
    node_power_w: Float64,
    policy: int,
    off_peak: bool,
    kept: int,
    free: int,
) -> int:
    """Order the jobs from window position `kept` on by a built-in policy; return how many of the window may start now.

    `free` are the free units before the kept jobs start.
    """
    if policy <= GREEDY_SLIDE:
        sort_by_power(order, kept, node_power_w, off_peak == (policy == GREEDY))
        return len(size)
    left = free_behind_part(free, size, kept)
    if policy == KNAPSACK:
        put_first(order, kept, fill_nodes(fillings, kept, size, node_power_w, left, off_peak), len(size))
        return len(size)
    if off_peak:
        return put_first(order, kept, fill_value(fillings, kept, size, node_power_w, left), len(size))
    return kept


@part
def open_window(state: State, most: int) -> None:
    """Collect the first `most` waiting jobs, in submission order; all jobs are considered."""
    now = state.scalars[0]
    queue = state.queue
    window = state.window
    position = now.head
    last = now.tail
    gathered = 0
    while gathered < most and position < last:
        size = queue.size[index(position)]
        if size != NEVER:
            at = index(gathered)
            window.position[at] = position
            window.size[at] = size
            window.node_power_w[at] = queue.node_power_w[index(position)]
            window.order[at] = gathered
            gathered += 1
        position += 1
    now.window = gathered
    now.behind_window = position
    now.considered = gathered + last - position


@part
def order_window(state: State, peaks: PeakTimes, rules: SchedulingRules) -> None:
    """Order the window by the policy, and set how many jobs are considered. An unknown price changes nothing."""
    now = state.scalars[0]
    peak = find_peak_part(peaks, now.next_peak)
    if peak == UNKNOWN:
        return
    window = now.window
    may_start = choose_order(
        state.fillings,
        state.window.order,
        state.window.size[:window],
        state.window.node_power_w[:window],
        policy=rules.policy,
        off_peak=peak == OFF_PEAK,
        kept=count_kept_part(
            state.queue.passed_over_s, state.window.position, window, now.now_s, rules.max_postponement_s
        ),
        free=now.free,
    )
    if rules.policy == KNAPSACK_SLIDE:
        now.considered = may_start
