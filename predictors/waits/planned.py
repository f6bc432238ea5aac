"""The what-if as a predictor of waits: who hands it in can run the scheduler on from the present state."""

from collections.abc import Callable

import numpy as np

from offpeak.jobs import Float64
from offpeak.snapshot import Snapshot
from predictors.port import Prediction
from predictors.state import State
from predictors.waits.question import WaitOutcomes, WaitQuestions
from predictors.waits.spread import Spread
from predictors.waits.state_row import FEATURES

PlannedWait = Callable[[Snapshot, int, int], float]
"""Returns the wait [s] of one more job, of a size and an estimate [s], at the end of the snapshot's queue."""

REQUEST = [FEATURES.index("size"), FEATURES.index("estimate_s")]


class PlannedWaits:
    """Predicts what the plan says; every question needs its state. How wrong plans were of late gives the quantiles."""

    name = "what-if"

    def __init__(self, planned_wait_s: PlannedWait) -> None:
        self._planned_wait_s = planned_wait_s
        self._spread = Spread()

    def learn(self, outcome: WaitOutcomes, _at_s: int) -> None:
        """Take in how wrong the plans were of jobs that started."""
        self._spread.learn(outcome)

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return the planned waits."""
        wait_s = self._planned(question)
        return self._spread.around(question, wait_s, ("a simulation of the known jobs",) * len(question))

    def state(self) -> State:
        """Return how wrong plans were."""
        return self._spread.state()

    def restore(self, state: State) -> None:
        """Take over how wrong plans were."""
        self._spread.restore(state)

    def _planned(self, question: WaitQuestions) -> Float64:
        jobs = question.rows[:, REQUEST].astype(np.int64).tolist()
        states = [question.states[state] for state in question.state.tolist()]
        planned_s = [self._planned_wait_s(state, *job) for state, job in zip(states, jobs, strict=True)]
        return np.array(planned_s, dtype=np.float64)
