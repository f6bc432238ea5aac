"""Run-time prediction from a user's own last jobs.

Source: Tsafrir, Etsion, Feitelson, "Backfilling using system-generated predictions rather than user runtime estimates",
IEEE TPDS 18(6), 2007: the mean of the last two run times of the same user, never above the user's estimate.
"""

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import part


@part
def learn_run_time(recent_s: NDArray[np.int64], user: int, runtime_s: int) -> None:
    """Remember a finished job. `recent_s` holds two run times [s] a user, the latest first, -1 if there is none."""
    recent_s[2 * user + 1] = recent_s[2 * user]
    recent_s[2 * user] = runtime_s


@part
def predict_run_time(recent_s: NDArray[np.int64], user: int, estimate_s: int) -> int:
    """Return the predicted run time [s], from 1 s to the estimate; the estimate itself without a history."""
    latest = recent_s[2 * user]
    earlier = recent_s[2 * user + 1]
    if latest < 0 or earlier < 0:
        return estimate_s
    return int(min(estimate_s, max(1, (latest + earlier) // 2)))
