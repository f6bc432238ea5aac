"""What a queue-wait predictor is asked, and what it learns when a job has started."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import Snapshot

NO_JOB = -1


@dataclass(frozen=True, eq=False)
class WaitQuestions:
    """How long will each of n jobs wait that is, or would be, submitted now?

    `rows` float64[n, len(FEATURES)], as predictors.waits.features makes them, is the job and the state that it is
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

    asked: WaitQuestions
    wait_s: Int64

    def __len__(self) -> int:
        return len(self.wait_s)

    def take(self, which: NDArray[np.bool_] | Int64, /) -> "WaitOutcomes":
        """Return the outcomes that the mask or the indices select."""
        return WaitOutcomes(self.asked.take(which), self.wait_s[which])
