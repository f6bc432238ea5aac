"""The window: the first queued jobs that a policy may reorder in this pass, and their order."""

from offpeak.compiled import index, part
from offpeak.prices.peak import Peak
from plugin.window_order import count_kept, fill_nodes, fill_value, free_behind, put_first, sort_by_power
from plugin.window_policy import GREEDY, GREEDY_SLIDE, KNAPSACK
from sim_backend.engine.state import NEVER, PeakTimes, SchedulingRules, State

# The engine and the live path share these functions; the kernels inline them.
count_kept_part, free_behind_part = part(count_kept), part(free_behind)
OFF_PEAK, ON_PEAK, UNKNOWN = int(Peak.OFF_PEAK), int(Peak.ON_PEAK), int(Peak.UNKNOWN)


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
def current_peak(state: State, peaks: PeakTimes) -> int:
    """Return the current state of the price."""
    following = state.scalars[0].next_peak
    return int(peaks.peak[following - 1]) if following > 0 else UNKNOWN


@part
def order_window(state: State, peaks: PeakTimes, rules: SchedulingRules) -> None:
    """Order the window by the policy, and set how many jobs are considered. An unknown price changes nothing."""
    now = state.scalars[0]
    peak = current_peak(state, peaks)
    if peak == UNKNOWN:
        return
    kept = count_kept_part(
        state.queue.passed_over_s, state.window.position, now.window, now.now_s, rules.max_postponement_s
    )
    order = state.window.order
    size = state.window.size[: now.window]
    power = state.window.node_power_w[: now.window]
    if rules.policy <= GREEDY_SLIDE:
        sort_by_power(order, kept, power, (peak == OFF_PEAK) == (rules.policy == GREEDY))
        return
    free = free_behind_part(now.free, size, kept)
    if rules.policy == KNAPSACK:
        put_first(order, kept, fill_nodes(state.fillings, kept, size, power, free, peak == OFF_PEAK), now.window)
    elif peak == OFF_PEAK:
        now.considered = put_first(order, kept, fill_value(state.fillings, kept, size, power, free), now.window)
    else:
        now.considered = kept
