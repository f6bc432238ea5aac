"""How far off a predictor of waits was of late, and what mean and quantiles follow for what it says next."""

import numpy as np

from offpeak.model.arrays import Float64
from predictors.asked import AskedJobs
from predictors.port import LEVELS, Prediction
from predictors.recent_errors import ErrorsBySize
from predictors.state import State
from predictors.waits.question import NO_JOB, WaitOutcomes, WaitQuestions

MINUTE_S = 60.0
"""Added to both sides of a ratio: whether a job starts at once or in ten seconds makes no difference to anyone."""
EDGES_S = (60.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)


class Spread:
    """Remembers what was said of each job until it starts; short and long answers are judged apart."""

    def __init__(self) -> None:
        self._said: AskedJobs[float] = AskedJobs()
        self._errors = ErrorsBySize(tuple(edge_s + MINUTE_S for edge_s in EDGES_S))

    def learn(self, outcome: WaitOutcomes) -> None:
        """Take in how long jobs waited that had been asked about."""
        for job_id, wait_s in zip(outcome.asked.job_id.tolist(), outcome.wait_s.tolist(), strict=True):
            said_s = self._said.take_out(job_id)
            if said_s is not None:
                self._errors.add(said_s + MINUTE_S, wait_s + MINUTE_S)

    def around(self, question: WaitQuestions, said_s: Float64, basis: tuple[str, ...]) -> Prediction:
        """Return the prediction that what was said, float64[n] [s], stands for; the median is what was said itself."""
        real = question.job_id != NO_JOB
        self._said.remember(question.job_id[real].tolist(), said_s[real].tolist())
        corrected = np.array([self._errors.corrected(each + MINUTE_S) for each in said_s.tolist()])
        mean_s, *levels_s = np.maximum(corrected.reshape(-1, 1 + len(LEVELS)) - MINUTE_S, 0.0).T
        low_s, high_s = np.minimum(levels_s[0], said_s), np.maximum(levels_s[-1], said_s)
        return Prediction(mean_s, np.stack([low_s, said_s, high_s], axis=1), basis)

    def state(self) -> State:
        """Return the errors."""
        return self._errors.state()

    def restore(self, state: State) -> None:
        """Take over errors."""
        self._errors.restore(state)
