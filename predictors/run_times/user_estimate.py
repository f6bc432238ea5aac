"""The user's estimate as the prediction: what a scheduler goes by that knows nothing else."""

import numpy as np

from offpeak.model.jobs import Jobs
from predictors.port import Prediction, certain
from predictors.state import NOTHING, State


class UserEstimate:
    """Learns nothing."""

    name = "estimate"

    def learn(self, _outcome: Jobs, _at_s: int) -> None:
        """Take no notice."""

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the estimates [s] as if they were certain."""
        return certain(question.estimate_s.astype(np.float64), "the user's estimate")

    def state(self) -> State:
        """Return nothing."""
        return NOTHING

    def restore(self, _state: State) -> None:
        """Take no notice."""
