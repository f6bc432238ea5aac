"""The last so many rows that were learned, with the wait that belongs to each."""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from predictors.state import State, check


class Window:
    """Keeps at most `most` rows of `width` numbers, the oldest first."""

    def __init__(self, most: int, width: int) -> None:
        self._most = most
        # Twice the room: rows move to the front only once in `most` additions.
        self._rows = np.empty((2 * most, width))
        self._wait_s = np.empty(2 * most)
        self._end = 0

    def add(self, rows: Float64, wait_s: Int64) -> None:
        """Put rows at the end."""
        for row, wait in zip(rows, wait_s, strict=True):
            if self._end == len(self._rows):
                self._move_to_front()
            self._rows[self._end] = row
            self._wait_s[self._end] = wait
            self._end += 1

    def _move_to_front(self) -> None:
        self._rows[: self._most] = self._rows[self._most :]
        self._wait_s[: self._most] = self._wait_s[self._most :]
        self._end = self._most

    def __len__(self) -> int:
        return min(self._end, self._most)

    def state(self) -> State:
        """Return the rows and their waits."""
        return {"rows": self.rows.copy(), "wait_s": self.wait_s.copy()}

    def restore(self, state: State) -> None:
        """Take over rows and waits."""
        rows, wait_s = state["rows"], state["wait_s"]
        fits = wait_s.shape == (len(rows),) and len(rows) <= self._most and rows.shape[1:] == self._rows.shape[1:]
        check(is_so=fits, what="rows of another shape")
        self._end = len(rows)
        self._rows[: self._end], self._wait_s[: self._end] = rows, wait_s

    @property
    def rows(self) -> Float64:
        """The rows, float64[n, width]."""
        return self._rows[self._end - len(self) : self._end]

    @property
    def wait_s(self) -> Float64:
        """Their waits, float64[n]."""
        return self._wait_s[self._end - len(self) : self._end]
