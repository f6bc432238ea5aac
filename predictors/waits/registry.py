"""The predictors of waits, the two simplest (no wait at all, the what-if simulation), the boosted trees, and the
arbiter over them.

`PlannedWaits` runs the scheduler on from the present state; the caller passes the simulation in.

The arbiter takes the weighted median of several answers; smaller recent errors give more weight, separately for jobs
that find room and jobs that do not. This is a vote with weights by past errors (Littlestone and Warmuth, "The weighted
majority algorithm", Information and Computation 108, 1994), here with a discount for old errors. Following only the
best member errs more: the error of a long wait becomes known late; until then one that predicts no waits leads.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import Snapshot
from offpeak.predictors.port import (
    Composite,
    FixedPredictor,
    Prediction,
    Predictor,
    Restorable,
    State,
    certain,
    check_state,
    join_states,
    scalar_array,
    state_part,
)
from offpeak.predictors.recent_errors import OpenQuestions
from offpeak.predictors.trees import forest
from offpeak.predictors.trees.running_statistics import COMMON, RECENT_MEAN, RunningStatistics
from offpeak.predictors.waits.questions import NO_JOB, WaitOutcomes, WaitQuestions, WaitSpread
from offpeak.predictors.waits.similar_jobs import SimilarJobs
from offpeak.predictors.waits.states import FEATURES
from offpeak.text import counted

MOST_ROWS = 200_000
GROWTH = forest.Growth(loss="absolute_error")
SCHEDULE = forest.GrowthSchedule(least=100)
ALL, USER, QUEUE, SIZE, ESTIMATE = range(5)
REQUEST = [FEATURES.index("size"), FEATURES.index("estimate_s")]
KINDS = ((ALL,), (USER,), (QUEUE,), (SIZE,), (SIZE, ESTIMATE), (USER, SIZE))
"""Jobs are similar if these are equal, size and estimate by powers of two."""

MEAN_OF_ALL = len(FEATURES) + COMMON + RECENT_MEAN


class BoostedWaits(Composite):
    """Predicts waits [s]. The features of a job at the first question are kept until it starts."""

    name = "boosted"

    def __init__(self, *, growth: forest.Growth = GROWTH, schedule: forest.GrowthSchedule = SCHEDULE) -> None:
        self._growth = growth
        self._schedule = schedule
        self._running = RunningStatistics(KINDS, targets=1)
        self._history = forest.TrainingHistory(len(FEATURES) + self._running.columns, MOST_ROWS)
        self._open: OpenQuestions[Float64] = OpenQuestions()
        self._spread = WaitSpread()
        self._forest: forest.Forest | None = None
        self._due_at = schedule.least
        self._can_grow, self._no_trees = forest.can_grow(), forest.no_trees()

    def learn(self, outcome: WaitOutcomes, _at_s: int) -> None:
        """Take in jobs that started, one after the other."""
        category, log_wait = categories(outcome.questions), np.log1p(outcome.wait_s)
        self._spread.learn(outcome)
        for row, job_id in enumerate(outcome.questions.job_id.tolist()):
            known = self._open.take_out(job_id)
            if known is None:
                known = self._known(outcome.questions.take(np.array([row])))[0]
            self._history.add(known, log_wait[row])
            self._running.learn(category[row : row + 1], log_wait[row : row + 1, None])
            if self._can_grow and self._history.count >= self._due_at:
                self._forest = forest.grow(self._history.lessons(), self._growth)
                self._due_at = self._schedule.next_after(self._history.count)

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return the expected waits; until enough jobs have started, the mean of those so far."""
        known = self._known(question)
        real = question.job_id != NO_JOB
        self._open.remember(question.job_id[real].tolist(), known[real])
        log_wait = self._forest.answer(known) if self._forest else np.nan_to_num(known[:, MEAN_OF_ALL])
        trees = f"trees grown from {counted(self._history.count, 'job')}"
        basis = trees if self._forest else f"the mean so far, {self._no_trees}"
        return self._spread.around(question, np.maximum(np.expm1(log_wait), 0.0), (basis,) * len(question))

    def parts(self) -> Mapping[str, Restorable]:
        """Return what is learned beside the forest."""
        return {"running": self._running, "history": self._history, "spread": self._spread}

    def state(self) -> State:
        """Return all that was learned, the forest too."""
        trees = join_states({"forest": forest.forest_state(self._forest)})
        return {"due_at": scalar_array(self._due_at), **super().state(), **trees}

    def restore(self, state: State) -> None:
        """Restore all of it."""
        super().restore(state)
        self._forest = forest.restore_forest(state_part(state, "forest"), len(FEATURES) + self._running.columns)
        self._due_at = int(state["due_at"])

    def _known(self, question: WaitQuestions) -> Float64:
        return np.hstack([question.rows, self._running.of(categories(question))])


def categories(question: WaitQuestions) -> Int64:
    """Return the columns of which KINDS are made, int64[n, 5]."""
    request = np.log2(np.maximum(question.rows[:, REQUEST], 1.0)).astype(np.int64)
    return np.stack([np.zeros_like(question.user), question.user, question.queue, *request.T], axis=1)


MISSING, QUEUED = FEATURES.index("missing_units"), FEATURES.index("queued_jobs")
KEPT_SHARE = 0.998
"""How much of its weight an error keeps with each further job of its class: after 346 jobs it weighs half."""

LEAST_ERROR_S = 1.0

NOBODY_WAITS, ROOM, NO_ROOM = range(3)
"""The classes: there is room and nobody is ahead, there is room but others wait for more, there is no room."""

WaitPredictor = Predictor[WaitQuestions, WaitOutcomes]


class MemberAnswers(NamedTuple):
    """The answers of the members about a job of a class."""

    wait_s: Float64
    case: int


class Arbiter(Composite):
    """Queries its `members`, which have equal weights until errors are known; the basis names the member."""

    def __init__(self, members: tuple[WaitPredictor, ...], name: str = "arbiter") -> None:
        self.name, self.members = name, members
        self._open: OpenQuestions[MemberAnswers] = OpenQuestions()
        self._error_s = np.zeros((NO_ROOM + 1, len(members)))

    def learn(self, outcome: WaitOutcomes, at_s: int) -> None:
        """Learn jobs that have started, and the error of each member's first answer about them."""
        for job_id, wait_s in zip(outcome.questions.job_id.tolist(), outcome.wait_s.tolist(), strict=True):
            given = self._open.take_out(job_id)
            if given is not None:
                error_s = self._error_s[given.case]
                error_s += (1 - KEPT_SHARE) * (np.abs(given.wait_s - wait_s) - error_s)
        for member in self.members:
            member.learn(outcome, at_s)

    def predict(self, question: WaitQuestions, at_s: int) -> Prediction:
        """Return for each job the answer of the member that is in the middle."""
        answers = [member.predict(question, at_s) for member in self.members]
        predicted_s, case = np.stack([answer.point for answer in answers], axis=1), _case(question)
        real = question.job_id != NO_JOB
        self._open.remember(question.job_id[real].tolist(), map(MemberAnswers, predicted_s[real], case[real].tolist()))
        chosen = _middle(predicted_s, 1 / (self._error_s[case] + LEAST_ERROR_S) ** 2)
        rows = np.arange(len(chosen))
        return Prediction(
            np.stack([answer.mean for answer in answers])[chosen, rows],
            np.stack([answer.quantiles for answer in answers])[chosen, rows],
            tuple(f"{self.members[one].name}: {answers[one].basis[row]}" for row, one in enumerate(chosen.tolist())),
        )

    def parts(self) -> Mapping[str, Restorable]:
        """Return the members."""
        return {str(number): member for number, member in enumerate(self.members)}

    def state(self) -> State:
        """Return the errors and the state of each member."""
        return {"error_s": self._error_s.copy(), **super().state()}

    def restore(self, state: State) -> None:
        """Restore both."""
        check_state(is_so=state["error_s"].shape == self._error_s.shape, what="errors of other members")
        self._error_s = np.array(state["error_s"], np.float64)
        super().restore(state)


def _case(question: WaitQuestions) -> Int64:
    rows = question.rows
    return np.where(rows[:, MISSING] > 0, NO_ROOM, np.where(rows[:, QUEUED] > 0, ROOM, NOBODY_WAITS))


def _middle(predicted_s: Float64, weight: Float64) -> Int64:
    """Return the index of the member with the weighted median of each row; both float64[n, members]."""
    rising = np.argsort(predicted_s, axis=1, kind="stable")
    so_far = np.cumsum(np.take_along_axis(weight, rising, axis=1), axis=1)
    middle = (so_far >= so_far[:, -1:] / 2).argmax(axis=1)
    chosen: Int64 = rising[np.arange(len(middle)), middle]
    return chosen


class NoWaitPredictor(FixedPredictor):
    """Predicts that nobody waits."""

    name = "nobody waits"

    def predict(self, question: WaitQuestions, _at_s: int) -> Prediction:
        """Return waits of 0 s, as if they were certain."""
        return certain(np.zeros(len(question)), "every job starts at once")


PlanOfWaits = Callable[[Snapshot, Int64, Int64], Float64]
"""Returns the wait [s] of each of n jobs, of a size and an estimate [s], if it alone were at the queue's end."""


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


def arbiter(plan: PlanOfWaits, schedule: forest.GrowthSchedule = SCHEDULE) -> Arbiter:
    """Return the default predictor: an arbiter over the published predictor, boosted trees and the what-if.

    Without scikit-learn it has no trees, and another name: it gives other answers.
    """
    if not forest.can_grow():
        return Arbiter((SimilarJobs(), PlannedWaits(plan)), ARBITER_WITHOUT_TREES)
    return Arbiter((SimilarJobs(), BoostedWaits(schedule=schedule), PlannedWaits(plan)))


def wait_predictors(plan: PlanOfWaits) -> tuple[WaitPredictor, ...]:
    """Return one untrained predictor of each kind; `plan` runs the scheduler on from a state."""
    trees = (BoostedWaits(),) if forest.can_grow() else ()
    return (NoWaitPredictor(), SimilarJobs(), *trees, PlannedWaits(plan), arbiter(plan))
