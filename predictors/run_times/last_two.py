"""Run-time prediction from a user's own last jobs, by the kernel that the engine inlines.

Source: Tsafrir, Etsion, Feitelson, "Backfilling using system-generated predictions rather than user runtime estimates",
IEEE TPDS 18(6), 2007: the mean of the last two run times of the same user, never above the user's estimate.
"""

from dataclasses import replace

import numpy as np

from offpeak.compiled import in_place, part
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from predictors.port import Prediction, State, certain, check_state


@part
def learn_run_time(recent_s: Int64, user: int, runtime_s: int) -> None:
    """Remember a finished job. `recent_s` holds two run times [s] a user, the latest first, -1 if there is none."""
    recent_s[2 * user + 1] = recent_s[2 * user]
    recent_s[2 * user] = runtime_s


@part
def predict_run_time(recent_s: Int64, user: int, estimate_s: int) -> int:
    """Return the predicted run time [s], from 1 s to the estimate; the estimate itself without a history."""
    latest = recent_s[2 * user]
    earlier = recent_s[2 * user + 1]
    if latest < 0 or earlier < 0:
        return estimate_s
    return int(min(estimate_s, max(1, (latest + earlier) // 2)))


FIRST_USERS = 256
LAST_TWO, ESTIMATE = "the user's last two jobs", "the user's estimate"


class LastTwo:
    """Remembers two run times a user. A user without two ended jobs is taken at their estimate."""

    name = "last two"

    def __init__(self) -> None:
        self._number: dict[int, int] = {}
        self._recent_s = np.full(2 * FIRST_USERS, -1, np.int64)

    def learn(self, outcome: Jobs, _at_s: int) -> None:
        """Take in the run times of jobs that ended, one after the other."""
        ended = outcome.take(outcome.runtime_s >= 0)
        number = np.array([self._numbered(user) for user in ended.user.tolist()], np.int64)
        learn_all(self._recent_s, number, ended.runtime_s)

    def predict(self, question: Jobs, _at_s: int) -> Prediction:
        """Return the predicted run times [s], as if they were certain."""
        number = np.array([self._number.get(user, -1) for user in question.user.tolist()], np.int64)
        found_s = question.estimate_s.copy()
        predict_all(self._recent_s, number, found_s)
        known = self._recent_s[2 * np.maximum(number, 0) + 1] >= 0
        basis = tuple(LAST_TWO if each else ESTIMATE for each in (known & (number >= 0)).tolist())
        return replace(certain(found_s.astype(np.float64), ""), basis=basis)

    def state(self) -> State:
        """Return the users and two run times of each."""
        users = np.fromiter(self._number, np.int64, len(self._number))
        return {"users": users, "recent_s": self._recent_s.copy()}

    def restore(self, state: State) -> None:
        """Take over users and run times."""
        recent_s = np.array(state["recent_s"], np.int64)
        users = state["users"].tolist()
        in_pairs = recent_s.ndim == 1 and len(recent_s) % 2 == 0
        check_state(is_so=in_pairs and len(recent_s) >= max(2, 2 * len(users)), what="fewer run times than users")
        self._number = {user: number for number, user in enumerate(users)}
        self._recent_s = recent_s

    def _numbered(self, user: int) -> int:
        number = self._number.setdefault(user, len(self._number))
        if 2 * number == len(self._recent_s):
            self._recent_s = np.concatenate([self._recent_s, np.full(len(self._recent_s), -1, np.int64)])
        return number


@in_place
def learn_all(recent_s: Int64, number: Int64, runtime_s: Int64) -> None:
    """Remember jobs that ended, of users numbered from 0."""
    for job in range(len(number)):
        learn_run_time(recent_s, number[job], runtime_s[job])


@in_place
def predict_all(recent_s: Int64, number: Int64, found_s: Int64) -> None:
    """Turn estimates [s] into predictions where the user is known (-1 is not)."""
    for job in range(len(number)):
        if number[job] >= 0:
            found_s[job] = predict_run_time(recent_s, number[job], found_s[job])
