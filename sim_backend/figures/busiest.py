"""The busiest stretch of a log that still has few enough jobs to be drawn one by one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.local_time import WEEK_S
from sim_backend.figures.power_curve import PowerCurve, integral_between
from sim_backend.replay import Schedule

SHORTEST_S = 12 * 3600
TRIED_PER_WINDOW = 7


@dataclass(frozen=True)
class Window:
    """From `from_s` to `until_s` [trace seconds]."""

    from_s: int
    until_s: int

    def holds(self, schedule: Schedule) -> NDArray[np.bool_]:
        """Return which jobs run inside for some time."""
        begins_before, ends_after = schedule.start_s < self.until_s, schedule.end_s > self.from_s
        return begins_before & ends_after & (schedule.end_s > schedule.start_s)


def busiest_window(
    curve: PowerCurve, schedules: Sequence[Schedule], *, most_jobs: int, longest_s: int = WEEK_S
) -> Window:
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


def _busiest(curve: PowerCurve, length_s: int) -> Window:
    begin_s = int(curve.edges_s[0])
    if curve.until_s - begin_s <= length_s:
        return Window(begin_s, curve.until_s)
    # The windows overlap, so that a busy week need not begin on the log's own weekday.
    from_s: Int64 = np.arange(begin_s, curve.until_s - length_s + 1, length_s // TRIED_PER_WINDOW)
    ends_s = np.stack([from_s, from_s + length_s], axis=1).ravel()
    order = np.argsort(ends_s, kind="stable")
    total = np.empty(len(ends_s))
    total[order] = np.cumsum(np.append(0.0, integral_between(curve.edges_s, curve.busy.astype(float), ends_s[order])))
    best = int(from_s[np.argmax(total[1::2] - total[::2])])
    return Window(best, best + length_s)
