"""Draws that a site declares: one for all jobs, or one for each queue, whose nodes are often of one class."""

from collections.abc import Mapping

import numpy as np

from offpeak.model.jobs import Jobs
from predictors.port import Prediction, certain
from predictors.state import NOTHING, State


class Flat:
    """Every job draws `power_w` [W per allocated unit], but those of a queue in `by_queue_w` what stands there."""

    def __init__(self, power_w: float, by_queue_w: Mapping[int, float] | None = None) -> None:
        self.name = "by class" if by_queue_w else "constant"
        self._power_w = power_w
        self._by_queue_w = dict(by_queue_w or {})

    def learn(self, _outcome: Jobs, _at_s: int) -> None:
        """Take no notice."""

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the declared draw of each job, as if it were certain."""
        drawn_w = [self._by_queue_w.get(queue, self._power_w) for queue in question.queue.tolist()]
        return certain(np.array(drawn_w, np.float64), "what the site declared")

    def state(self) -> State:
        """Return nothing."""
        return NOTHING

    def restore(self, _state: State) -> None:
        """Take no notice."""
