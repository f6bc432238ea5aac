"""Every job starts at once: what a scheduler believes that does not think of waits."""

import numpy as np

from predictors.port import Prediction, certain
from predictors.state import NOTHING, State
from predictors.waits.question import WaitOutcomes, WaitQuestions


class NobodyWaits:
    """Learns nothing."""

    name = "nobody waits"

    def learn(self, _outcome: WaitOutcomes, _at_s: int) -> None:
        """Take no notice."""

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return waits of 0 s, as if they were certain."""
        return certain(np.zeros(len(question)), "every job starts at once")

    def state(self) -> State:
        """Return nothing."""
        return NOTHING

    def restore(self, _state: State) -> None:
        """Take no notice."""
