"""The predictors of waits, and the two simplest: no wait at all, and the what-if simulation.

`PlannedWaits` runs the scheduler on from the present state; the caller passes the simulation in.
"""

from collections.abc import Callable

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import Snapshot
from predictors.port import EMPTY_STATE, Prediction, State, certain
from predictors.trees.grow import GrowthSchedule, can_grow
from predictors.waits.arbiter import Arbiter, WaitPredictor
from predictors.waits.boosted import SCHEDULE, BoostedWaits
from predictors.waits.questions import WaitOutcomes, WaitQuestions, WaitSpread
from predictors.waits.similar_jobs import SimilarJobs
from predictors.waits.state_row import FEATURES


class NoWaitPredictor:
    """Learns nothing."""

    name = "nobody waits"

    def learn(self, _outcome: WaitOutcomes, _at_s: int) -> None:
        """Take no notice."""

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return waits of 0 s, as if they were certain."""
        return certain(np.zeros(len(question)), "every job starts at once")

    def state(self) -> State:
        """Return nothing."""
        return EMPTY_STATE

    def restore(self, _state: State) -> None:
        """Take no notice."""


PlanOfWaits = Callable[[Snapshot, Int64, Int64], Float64]
"""Returns the wait [s] of each of n jobs, of a size and an estimate [s], if it alone were at the queue's end."""

REQUEST = [FEATURES.index("size"), FEATURES.index("estimate_s")]


class PlannedWaits:
    """Predicts the waits of the plan; every question needs its state. Recent errors of plans give the quantiles."""

    name = "what-if"

    def __init__(self, planned_waits_s: PlanOfWaits) -> None:
        self._planned_waits_s = planned_waits_s
        self._spread = WaitSpread()

    def learn(self, outcome: WaitOutcomes, _at_s: int) -> None:
        """Take in how wrong the plans were of jobs that started."""
        self._spread.learn(outcome)

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return the planned waits; a state that several questions share is planned once."""
        wait_s = np.empty(len(question))
        size, estimate_s = question.rows[:, REQUEST].T.astype(np.int64)
        for state in dict.fromkeys(question.state.tolist()):
            chosen = np.flatnonzero(question.state == state)
            wait_s[chosen] = self._planned_waits_s(question.states[state], size[chosen], estimate_s[chosen])
        return self._spread.around(question, wait_s, ("a simulation of the known jobs",) * len(question))

    def state(self) -> State:
        """Return how wrong plans were."""
        return self._spread.state()

    def restore(self, state: State) -> None:
        """Take over how wrong plans were."""
        self._spread.restore(state)


ARBITER_WITHOUT_TREES = "arbiter without trees"


def arbiter(plan: PlanOfWaits, schedule: GrowthSchedule = SCHEDULE) -> Arbiter:
    """Return the default predictor: an arbiter over the published predictor, boosted trees and the what-if.

    Without scikit-learn it has no trees, and another name: it gives other answers.
    """
    if not can_grow():
        return Arbiter((SimilarJobs(), PlannedWaits(plan)), ARBITER_WITHOUT_TREES)
    return Arbiter((SimilarJobs(), BoostedWaits(schedule=schedule), PlannedWaits(plan)))


def wait_predictors(plan: PlanOfWaits) -> tuple[WaitPredictor, ...]:
    """Return one untrained predictor of each kind; `plan` runs the scheduler on from a state."""
    trees = (BoostedWaits(),) if can_grow() else ()
    return (NoWaitPredictor(), SimilarJobs(), *trees, PlannedWaits(plan), arbiter(plan))
