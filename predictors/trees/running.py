"""Running statistics of categories: what jobs of the same user, or user and size, and so on, did so far.

This is how trees see categories: not as a column for each of thousands of users, but as the latest values and means of
those who are alike (target statistics in time order; Prokhorenkova et al., "CatBoost", NeurIPS 2018, section 3).
"""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from predictors.state import State, check
from predictors.trees.running_kernel import COMMON, OF_A_TARGET, enlarged, look_up, remember

FIRST_CAPACITY = 1024
ROWS_AT_ONCE = 1024
NONE = -1


class RunningStatistics:
    """What was seen under each kind of category; a kind is a tuple of columns of the categories."""

    def __init__(self, kinds: tuple[tuple[int, ...], ...], *, targets: int) -> None:
        most = max(len(kind) for kind in kinds)
        self._kinds: Int64 = np.array([(*kind, *[NONE] * (most - len(kind))) for kind in kinds], np.int64)
        self._slot_key: Int64 = np.zeros(FIRST_CAPACITY, np.int64)
        self._seen: Float64 = np.full((FIRST_CAPACITY, COMMON + OF_A_TARGET * targets), np.nan)
        self._used = 0
        self.columns: int = len(kinds) * self._seen.shape[1]

    def learn(self, category: Int64, target: Float64) -> None:
        """Take in rows one after the other: categories int64[n, c], finite targets float64[n, targets]."""
        for first in range(0, len(category), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            self._make_room(len(category[rows]))
            self._used += remember(self._slot_key, self._seen, category[rows], target[rows], self._kinds)

    def _make_room(self, rows: int) -> None:
        # Half of the slots stay free, so that a key is found after a step or two.
        needed = 2 * (self._used + rows * len(self._kinds))
        if needed > len(self._slot_key):
            capacity = 1 << (needed - 1).bit_length()
            self._slot_key, self._seen = enlarged(self._slot_key, self._seen, capacity)

    def of(self, category: Int64) -> Float64:
        """Return float64[n, kinds x fields], the fields in the order of `running_kernel`; NaN where nothing was."""
        found = np.empty((len(category), self.columns))
        look_up(self._slot_key, self._seen, category, self._kinds, found)
        return found

    def state(self) -> State:
        """Return the table."""
        return {"slot_key": self._slot_key.copy(), "seen": self._seen.copy()}

    def restore(self, state: State) -> None:
        """Take over a table; ValueError unless its width is this one's and a look-up in it ends."""
        slot_key, seen = np.array(state["slot_key"], np.int64), np.array(state["seen"], np.float64, order="C")
        used, capacity = int(np.count_nonzero(slot_key)), len(slot_key)
        fits = seen.shape == (capacity, self._seen.shape[1]) and capacity.bit_count() == 1
        check(is_so=fits and used < capacity, what="a table of another shape")
        self._slot_key, self._seen, self._used = slot_key, seen, used
