"""The questions and outcomes of queue-wait predictors, and the quantiles of a wait from recent errors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import MINUTE_S
from offpeak.model.snapshot import Snapshot
from offpeak.predictors.port import LEVELS, Prediction, State
from offpeak.predictors.recent_errors import ErrorsBySize, OpenQuestions

NO_JOB = -1


@dataclass(frozen=True, eq=False)
class WaitQuestions:
    """How long will each of n jobs wait that is, or would be, submitted now?

    `rows` float64[n, len(FEATURES)], as offpeak.predictors.waits.states makes them, is the job and the state that it is
    submitted into; that state itself is `states[state[i]]`, for predictors that plan with it. `job_id` is NO_JOB of a
    job that does not exist yet; `user` and `queue` are -1 where unknown. All are int64[n].
    """

    job_id: Int64
    user: Int64
    queue: Int64
    rows: Float64
    state: Int64
    states: Sequence[Snapshot]

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, which: NDArray[np.bool_] | Int64, /) -> "WaitQuestions":
        """Return the questions that the mask or the indices select."""
        return WaitQuestions(
            self.job_id[which], self.user[which], self.queue[which], self.rows[which], self.state[which], self.states
        )


@dataclass(frozen=True, eq=False)
class WaitOutcomes:
    """How long jobs waited that have started: `wait_s` int64[n], and each as it was at its submission."""

    questions: WaitQuestions
    wait_s: Int64

    def __len__(self) -> int:
        return len(self.wait_s)

    def take(self, which: NDArray[np.bool_] | Int64, /) -> "WaitOutcomes":
        """Return the outcomes that the mask or the indices select."""
        return WaitOutcomes(self.questions.take(which), self.wait_s[which])


EDGES_S = (60.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)


def wait_errors() -> ErrorsBySize:
    """Return no errors of predicted waits [s] yet. A minute is added to each side: a wait of ten seconds is none."""
    return ErrorsBySize(EDGES_S, added=MINUTE_S)


class WaitSpread:
    """Stores the answer for each job until it starts, and keeps the errors of short and long waits apart."""

    def __init__(self) -> None:
        self._open: OpenQuestions[float] = OpenQuestions()
        self._errors = wait_errors()

    def learn(self, outcome: WaitOutcomes) -> None:
        """Learn how long queried jobs waited."""
        for job_id, wait_s in zip(outcome.questions.job_id.tolist(), outcome.wait_s.tolist(), strict=True):
            predicted_s = self._open.take_out(job_id)
            if predicted_s is not None:
                self._errors.add(predicted_s, wait_s)

    def around(self, question: WaitQuestions, predicted_s: Float64, basis: tuple[str, ...]) -> Prediction:
        """Return the prediction around the predicted waits, float64[n] [s], which are its medians."""
        real = question.job_id != NO_JOB
        self._open.remember(question.job_id[real].tolist(), predicted_s[real].tolist())
        corrected_s = np.array([self._errors.corrected(each) for each in predicted_s.tolist()])
        mean_s, *levels_s = np.maximum(corrected_s.reshape(-1, 1 + len(LEVELS)), 0.0).T
        low_s, high_s = np.minimum(levels_s[0], predicted_s), np.maximum(levels_s[-1], predicted_s)
        return Prediction(mean_s, np.stack([low_s, predicted_s, high_s], axis=1), basis)

    def state(self) -> State:
        """Return the errors."""
        return self._errors.state()

    def restore(self, state: State) -> None:
        """Restore the errors."""
        self._errors.restore(state)
