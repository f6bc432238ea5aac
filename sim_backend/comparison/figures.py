"""Makes the arrays that a report's figures are drawn from: exact, and thinned out where a log is long.

The busiest stretch of a log; means by the hour of the local day; bands of node states; the distribution of a measure in
few points that lie exactly on it; the extremes of a step function within stretches of time; the Pareto front; places
of jobs on numbered units. A schedule says when a job runs, not where: a job goes to the lowest free block that is wide
enough, and in pieces to the lowest free ones where none is.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, WEEK_S
from offpeak.model.local_time import local_days, local_edges_s, to_local_s
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, asleep, coming_up, going_down
from offpeak.model.step_integrals import integrals, integrate_known_time, integrate_series
from offpeak.model.step_series import integral_between
from offpeak.sim_backend.case.electricity import AlignedSeries
from offpeak.sim_backend.nodes.node_log import Int32, StateCounts
from offpeak.sim_backend.nodes.power_curve import PowerCurve
from offpeak.sim_backend.replay.schedule import Schedule

SHORTEST_S = 12 * HOUR_S
TRIED_PER_WINDOW = 7
HOURS = 24
RUNNING, IDLE, CHANGING, HUNG, FIRST_DEPTH = range(5)
BANDS = FIRST_DEPTH + len(DEPTHS)
"""Running, idle, on the way into or out of a depth, failed, and asleep in each depth from shallow to deep."""


@dataclass(frozen=True)
class BusiestWindow:
    """From `from_s` to `until_s` [trace seconds]."""

    from_s: int
    until_s: int

    def holds(self, schedule: Schedule) -> NDArray[np.bool_]:
        """Return which jobs run inside for some time."""
        begins_before, ends_after = schedule.start_s < self.until_s, schedule.end_s > self.from_s
        return begins_before & ends_after & (schedule.end_s > schedule.start_s)


def busiest_window(
    curve: PowerCurve, schedules: Sequence[Schedule], *, most_jobs: int, longest_s: int = WEEK_S
) -> BusiestWindow:
    """Return the window of `longest_s` with the most node-hours in `curve`; the whole of a shorter log.

    It is halved until no schedule has more than `most_jobs` jobs in it, but not below half a day.
    """
    length_s = longest_s
    while True:
        window = _busiest(curve, length_s)
        most = max(int(np.count_nonzero(window.holds(schedule))) for schedule in schedules)
        if most <= most_jobs or length_s // 2 < SHORTEST_S:
            return window
        length_s //= 2


def _busiest(curve: PowerCurve, length_s: int) -> BusiestWindow:
    begin_s = int(curve.edges_s[0])
    if curve.until_s - begin_s <= length_s:
        return BusiestWindow(begin_s, curve.until_s)
    # The windows overlap, so that a busy week need not begin on the log's own weekday.
    from_s: Int64 = np.arange(begin_s, curve.until_s - length_s + 1, length_s // TRIED_PER_WINDOW)
    ends_s = np.stack([from_s, from_s + length_s], axis=1).ravel()
    order = np.argsort(ends_s, kind="stable")
    total = np.empty(len(ends_s))
    total[order] = np.cumsum(np.append(0.0, integral_between(curve.edges_s, curve.busy.astype(float), ends_s[order])))
    best = int(from_s[np.argmax(total[1::2] - total[::2])])
    return BusiestWindow(best, best + length_s)


@dataclass(frozen=True)
class HoursOfDay:
    """A period cut at every full hour of the local clock: piece i, of `hour[i]` o'clock, begins at `edges_s[i]`.

    `edges_s` (trace seconds) has one more entry, the end of the period.
    """

    edges_s: Int64
    hour: Int64


def clock_hours(aligned: AlignedSeries, begin_s: int, until_s: int) -> HoursOfDay:
    """Return the hours of the local clock from `begin_s` to `until_s`; a change of the clock cuts, too."""
    begin, until = begin_s + aligned.offset_s, until_s + aligned.offset_s
    days = local_days(begin, until, aligned.zone)
    full_hours = np.arange(int(days[0]) * DAY_S, (int(days[-1]) + 1) * DAY_S, HOUR_S, dtype=np.int64)
    edges = local_edges_s(full_hours, aligned.zone)
    inner = edges[(edges > begin) & (edges < until)]
    start = np.append(np.int64(begin), inner)
    hour = to_local_s(start, aligned.zone) % DAY_S // HOUR_S
    return HoursOfDay(np.append(start, np.int64(until)) - aligned.offset_s, hour)


def mean_by_hour(hours: HoursOfDay, curve: PowerCurve, value: Float64) -> Float64:
    """Return the time-weighted mean of a curve's value: float64[24], NaN for an hour that never comes."""
    return _means(hours, integral_between(curve.edges_s, value, hours.edges_s), np.diff(hours.edges_s))


def mean_price_by_hour(hours: HoursOfDay, aligned: AlignedSeries) -> Float64:
    """Return the time-weighted mean price: float64[24], NaN for an hour whose price is never known."""
    from_s, until_s = hours.edges_s[:-1], hours.edges_s[1:]
    paid = integrals(integrate_series(aligned.series, aligned.offset_s), from_s, until_s)
    return _means(hours, paid, integrals(integrate_known_time(aligned.series, aligned.offset_s), from_s, until_s))


def _means(hours: HoursOfDay, total: Float64, length_s: Float64 | Int64) -> Float64:
    total_by_hour = np.bincount(hours.hour, weights=total, minlength=HOURS)
    length_by_hour = np.bincount(hours.hour, weights=length_s, minlength=HOURS)
    return np.where(length_by_hour > 0, total_by_hour / np.maximum(length_by_hour, 1), np.nan)


@dataclass(frozen=True)
class NodeBands:
    """From `edges_s[i]` to `edges_s[i + 1]` so many allocation units are in each band: `units[band, i]`."""

    edges_s: Int64
    units: Int32


def node_bands(curve: PowerCurve, counts: StateCounts, *, units_per_node: int) -> NodeBands:
    """Return the bands over the curve's pieces; curve and counts are those of one run."""
    piece = np.searchsorted(counts.at_s, curve.at_s, side="right") - 1
    of_state = units_per_node * counts.nodes[piece].T
    units = np.empty((BANDS, len(piece)), dtype=np.int32)
    units[RUNNING] = curve.busy
    units[IDLE] = of_state[ACTIVE] - curve.busy
    units[CHANGING] = sum(of_state[way(depth)] for depth in range(len(DEPTHS)) for way in (going_down, coming_up))
    units[HUNG] = of_state[FAILED]
    for depth in range(len(DEPTHS)):
        units[FIRST_DEPTH + depth] = of_state[asleep(depth)]
    return NodeBands(curve.edges_s, units)


def cumulative_share(value: Int64, *, lowest: int, most_points: int) -> tuple[Int64, Float64]:
    """Return x and the share of `value` that is <= x, from `lowest` to the highest value; at most `most_points` points.

    Each x after the first is one of the values; of many they are even on a logarithmic axis, so `lowest` is above 0.
    """
    ordered = np.sort(value)
    x = np.unique(np.append(ordered[ordered > lowest], lowest))
    if len(x) > most_points:
        wanted = np.geomspace(lowest, x[-1], most_points - 1)
        x = np.unique(np.append(x[np.searchsorted(x, wanted, side="right") - 1], x[-1]))
    return x, np.searchsorted(ordered, x, side="right") / len(ordered)


@kernel
def extreme_pieces(edges_s: Int64, value: Float64, bins_s: Int64) -> Int64:
    """Return for each bin the pieces of its lowest and its highest value, in the order of time: int64[bins, 2].

    `value[i]` holds from `edges_s[i]` to `edges_s[i + 1]`. Neighbours of `bins_s` bound a bin; all lie within the edges
    of the step function. Of equal values the first counts; an unknown value (NaN) counts as the highest.
    """
    pieces = np.empty((len(bins_s) - 1, 2), dtype=np.int64)
    first = 0
    for at in range(len(bins_s) - 1):
        while edges_s[first + 1] <= bins_s[at]:
            first += 1
        low = high = first
        piece = first + 1
        while piece < len(value) and edges_s[piece] < bins_s[at + 1]:
            if value[piece] < value[low] or (np.isnan(value[low]) and not np.isnan(value[piece])):
                low = piece
            if value[piece] > value[high] or (np.isnan(value[piece]) and not np.isnan(value[high])):
                high = piece
            piece += 1
        pieces[at, 0], pieces[at, 1] = min(low, high), max(low, high)
    return pieces


def pareto_front(loss: Float64, gain: Float64) -> Int64:
    """Return the choices to which none is better in one and no worse in the other, least loss first; of equals one."""
    order = np.lexsort((-gain, loss))
    best_before = np.maximum.accumulate(np.append(-np.inf, gain[order][:-1]))
    front: Int64 = order[gain[order] > best_before]
    return front


Block = tuple[int, int]
"""Units from the first number to below the second."""


@dataclass(frozen=True)
class Blocks:
    """Job `job[i]` holds the units from `low[i]` to below `high[i]`; a job may have several blocks."""

    job: Int64
    low: Int64
    high: Int64


def placed(size: Int64, start_s: Int64, end_s: Int64, *, machine_size: int) -> Blocks:
    """Return where each job runs; never more than `machine_size` units are in use. Ends come before starts."""
    free: list[Block] = [(0, machine_size)]
    running: list[tuple[int, int]] = []
    held: dict[int, list[Block]] = {}
    for job in np.argsort(start_s, kind="stable").tolist():
        while running and running[0][0] <= start_s[job]:
            for block in held[heappop(running)[1]]:
                _give_back(free, block)
        left = int(size[job])
        at = next((at for at, (low, high) in enumerate(free) if high - low >= left), 0)
        held[job] = []
        while left > 0:
            low, high = free[at]
            cut = min(low + left, high)
            free[at : at + 1] = [(cut, high)] if cut < high else []
            held[job].append((low, cut))
            left -= cut - low
        heappush(running, (int(end_s[job]), job))
    rows = [(job, *block) for job, blocks in held.items() for block in blocks]
    return Blocks(*np.array(rows, np.int64).reshape(-1, 3).T)


def _give_back(free: list[Block], block: Block) -> None:
    low, high = block
    at = bisect_left(free, block)
    if at < len(free) and free[at][0] == high:
        high = free.pop(at)[1]
    if at and free[at - 1][1] == low:
        free[at - 1] = (free[at - 1][0], high)
    else:
        free.insert(at, (low, high))
