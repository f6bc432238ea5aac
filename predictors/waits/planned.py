"""The what-if as a predictor of waits: who hands it in can run the scheduler on from the present state."""

from collections.abc import Callable

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import Snapshot
from predictors.port import Prediction
from predictors.state import State
from predictors.waits.question import WaitOutcomes, WaitQuestions
from predictors.waits.spread import Spread
from predictors.waits.state_row import FEATURES

PlanOfWaits = Callable[[Snapshot, Int64, Int64], Float64]
"""Returns the wait [s] of each of n jobs, of a size and an estimate [s], if it alone stood at the queue's end."""

REQUEST = [FEATURES.index("size"), FEATURES.index("estimate_s")]


class PlannedWaits:
    """Predicts what the plan says; every question needs its state. How wrong plans were of late gives the quantiles."""

    name = "what-if"

    def __init__(self, planned_waits_s: PlanOfWaits) -> None:
        self._planned_waits_s = planned_waits_s
        self._spread = Spread()

    def learn(self, outcome: WaitOutcomes, _at_s: int) -> None:
        """Take in how wrong the plans were of jobs that started."""
        self._spread.learn(outcome)

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return the planned waits; a state that several questions share is planned once."""
        wait_s = np.empty(len(question))
        size, estimate_s = question.rows[:, REQUEST].T.astype(np.int64)
        for state in dict.fromkeys(question.state.tolist()):
            asked = np.flatnonzero(question.state == state)
            wait_s[asked] = self._planned_waits_s(question.states[state], size[asked], estimate_s[asked])
        return self._spread.around(question, wait_s, ("a simulation of the known jobs",) * len(question))

    def state(self) -> State:
        """Return how wrong plans were."""
        return self._spread.state()

    def restore(self, state: State) -> None:
        """Take over how wrong plans were."""
        self._spread.restore(state)
