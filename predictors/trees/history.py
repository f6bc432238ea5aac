"""The latest outcomes that trees are grown from, and the schedule by which they are grown anew."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from predictors.state import State, check, number
from predictors.trees.grow import Lessons

FIRST_ROWS = 1024


@dataclass(frozen=True)
class Schedule:
    """Grown from `least` outcomes on, and anew when they grew by the share `growth`: by `least` to `most` of them."""

    least: int = 500
    growth: float = 0.2
    most: int = 50_000

    def next_after(self, outcomes: int) -> int:
        """Return at how many outcomes the next forest is due, if one was grown at `outcomes`."""
        return outcomes + min(self.most, max(self.least, int(self.growth * outcomes)))


SELDOM = Schedule(growth=1.0)
"""For who learns a whole log to answer once: most forests on the way would never be asked."""


class History:
    """A ring of the `most` latest rows of features and targets."""

    def __init__(self, columns: int, most: int) -> None:
        self._features = np.empty((min(FIRST_ROWS, most), columns))
        self._target = np.empty(len(self._features))
        self._most = most
        self.count = 0

    def add(self, features: Float64, target: float) -> None:
        """Take in one row, float64[columns]."""
        if self.count == len(self._target) < self._most:
            self._widen(min(2 * self.count, self._most))
        at = self.count % len(self._target)
        self._features[at] = features
        self._target[at] = target
        self.count += 1

    def lessons(self) -> Lessons:
        """Return a copy of what is held, to grow a forest from at leisure."""
        held = min(self.count, len(self._target))
        return Lessons(self._features[:held].copy(), self._target[:held].copy())

    def state(self) -> State:
        """Return the rows that are held and how many there were."""
        lessons = self.lessons()
        return {"features": lessons.features, "target": lessons.target, "count": number(self.count)}

    def restore(self, state: State) -> None:
        """Take over rows."""
        features, target, count = state["features"], state["target"], int(state["count"])
        held, columns = min(count, self._most), self._features.shape[1]
        check(is_so=features.shape == (held, columns) and target.shape == (held,), what="rows of another shape")
        self._features, self._target = np.empty((0, columns)), np.empty(0)
        self._widen(max(held, min(FIRST_ROWS, self._most)))
        self._features[:held], self._target[:held] = features, target
        self.count = count

    def _widen(self, rows: int) -> None:
        more = rows - len(self._target)
        self._features = np.concatenate([self._features, np.empty((more, self._features.shape[1]))])
        self._target = np.concatenate([self._target, np.empty(more)])
