"""Peak shaving: the highest quarter-hour that is paid already is a soft cap on power.

A job that would draw more waits, at most `longest_s`. The engine's replay asks `soft_cap` at each start. The agent
makes the same cap a `PowerCap`, which queue and nodes obey as any other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

QUARTER_S = 900
NO_CAP = np.iinfo(np.int64).max


class PeakRules(NamedTuple):
    """From `at_s[i]` on, quarter-hours up to `target_mw[i]` [mW] cost nothing more; NO_CAP: they do not count.

    `is_new[i]`: a period of the charge begins. `longest_s` is the longest wait of a job for a lower peak, 0 without
    peak shaving. `idle_mw` is the draw of an idle unit, `state_mw` of a node in each state that is not active.
    Quarter-hours are counted from `at_s[0]`.
    """

    at_s: NDArray[np.int64]
    target_mw: NDArray[np.int64]
    is_new: NDArray[np.bool_]
    longest_s: int
    idle_mw: int
    state_mw: NDArray[np.int64]


NO_SHAVING = PeakRules(np.zeros(1, np.int64), np.full(1, NO_CAP), np.zeros(1, np.bool_), 0, 0, np.zeros(1, np.int64))


def soft_cap(target: int, peak: int, waited_s: int, longest_s: int) -> int:
    """Return the power that the start of a job may reach: the target or the highest quarter-hour so far, without bound
    once the job has waited for the longest time.
    """
    return NO_CAP if waited_s >= longest_s else max(target, peak)
