"""Chooses among the predictors of one quantity by their errors over the latest outcomes.

The first candidate is the naive one, such as the user's time limit or the prices of the week before. The rule follows
the candidate with the lowest mean absolute error over the latest outcomes, with a margin, so that the choice does not
change with each job: this is "follow the leader" on a sliding window with full information (Cesa-Bianchi and Lugosi,
"Prediction, Learning, and Games", Cambridge 2006, chapters 3 and 4). A leader can lose on a stream on which the best
candidate keeps changing. Therefore the given answers have an account: it is charged what they err beyond the naive
error and the margin. Once it is overdrawn by the margin of a window, the naive candidate answers until the account is
balanced. It is never overdrawn further, so that a candidate that is better again is used after about two windows. Thus
on any stream the sum of the errors of the given answers is at most (1 + margin) times the naive sum, plus a constant,
which counts once more for each time at which the naive candidate takes over: the margin of the largest window, and the
errors of the answers that were open at that moment.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from predictors.port import Prediction, Predictor, State, check_state, join_states, scalar_array, state_part
from predictors.recent_errors import WINDOW, OpenQuestions

NAIVE = 0
"""The index of the naive candidate."""


@dataclass(frozen=True)
class ChoiceRule:
    """How many of the latest outcomes count, how many must be known, and how much better another candidate must be.

    The mean error of 500 jobs is known to about a twentieth where the errors of jobs vary as much as their mean, which
    is the margin; a site of average size ends 500 jobs in some days. Below 50 the mean is that of a few long jobs.
    """

    window: int = WINDOW
    least: int = 50
    margin: float = 0.05


@dataclass(frozen=True)
class ChosenErrors:
    """The mean absolute errors of the predictor in use and of the naive one over the same outcomes, None for none."""

    used: str
    mae: float | None
    naive: str
    naive_mae: float | None
    outcomes: int


class PredictorChoice:
    """The choice among named `candidates`. `used` is the index of the one that answers, at first `at_first`."""

    def __init__(self, candidates: tuple[str, ...], rule: ChoiceRule | None = None, *, at_first: int = NAIVE) -> None:
        self._rule = rule or ChoiceRule()
        self.candidates = candidates
        self._errors: Float64 = np.empty((0, len(candidates)))
        self._overdrawn, self._pays_back = 0.0, False
        self.used = at_first

    @property
    def errors(self) -> ChosenErrors:
        """The errors over the latest outcomes."""
        mae = self._errors.mean(axis=0).tolist() if len(self._errors) else [None] * len(self.candidates)
        return ChosenErrors(
            self.candidates[self.used], mae[self.used], self.candidates[NAIVE], mae[NAIVE], len(self._errors)
        )

    def learn(self, errors: tuple[float, ...], used: int) -> None:
        """Learn the errors of all candidates about one outcome, of either sign, for which `used` gave the answer."""
        row = np.abs(errors)
        self._errors = np.vstack([self._errors, row])[-self._rule.window :]
        naive = float(self._errors[:, NAIVE].sum())
        overdrawn = self._overdrawn + float(row[used] - (1 + self._rule.margin) * row[NAIVE])
        # What was gained more than a window ago is no credit: it was another time.
        self._overdrawn = max(overdrawn, -naive)
        most = self._rule.margin * naive
        self._pays_back = self._overdrawn > (0.0 if self._pays_back else most)
        # Each outcome pays back its share of this: without a limit the errors of one bad day would take years.
        self._overdrawn = min(self._overdrawn, most)
        self.used = self._next()

    def state(self) -> State:
        """Return the errors, the choice and its account."""
        return {
            "error": self._errors.copy(),
            "used": scalar_array(self.used),
            "overdrawn": scalar_array(self._overdrawn),
            "pays_back": scalar_array(self._pays_back),
        }

    def restore(self, state: State) -> None:
        """Restore the errors, the choice and its account."""
        errors, used = np.array(state["error"], np.float64), int(state["used"])
        overdrawn, pays_back = float(state["overdrawn"]), bool(state["pays_back"])
        fits = errors.ndim == 2 and errors.shape[1:] == self._errors.shape[1:] and 0 <= used < errors.shape[1]
        finite = bool(np.isfinite(errors).all()) and math.isfinite(overdrawn)
        check_state(is_so=fits and finite, what="the errors of other candidates")
        self._errors, self.used = errors[-self._rule.window :], used
        self._overdrawn, self._pays_back = overdrawn, pays_back

    def _next(self) -> int:
        if len(self._errors) < self._rule.least:
            return self.used
        if self._pays_back:
            return NAIVE
        mae = self._errors.mean(axis=0)
        best, present = int(mae.argmin()), float(mae[self.used])
        if mae[best] < (1 - self._rule.margin) * present:
            return best
        return NAIVE if present > mae[NAIVE] else self.used


class OpenAnswers(NamedTuple):
    """The first answers of all candidates about a job, and which of them was used."""

    predicted: tuple[float, ...]
    used: int


class ChosenPredictor:
    """Predicts a quantity of jobs by the naive predictor or one of the `others`, whichever the rule chooses.

    `actual` returns the quantity of jobs that have ended, NaN if unknown; `naive_name` is for the operator. The first
    prediction of each job is judged.
    """

    def __init__(
        self,
        name: str,
        naive: Predictor[Jobs, Jobs],
        others: tuple[Predictor[Jobs, Jobs], ...],
        actual: Callable[[Jobs], Float64],
        *,
        naive_name: str,
    ) -> None:
        self.name, self._naive, self._others, self._actual = name, naive, others, actual
        self.choice = PredictorChoice((naive_name, *(other.name for other in others)))
        self._open: OpenQuestions[OpenAnswers] = OpenQuestions()

    def learn(self, outcome: Jobs, at_s: int) -> None:
        """Learn jobs that have ended, and the errors of the first predictions of each."""
        for job_id, actual in zip(outcome.job_id.tolist(), self._actual(outcome).tolist(), strict=True):
            given = self._open.take_out(job_id)
            if given is not None and math.isfinite(actual):
                self.choice.learn(tuple(each - actual for each in given.predicted), given.used)
        for predictor in (self._naive, *self._others):
            predictor.learn(outcome, at_s)

    def predict(self, question: Jobs, at_s: int) -> Prediction:
        """Return the predictions of the predictor in use."""
        return self.predict_beside(self._naive.predict(question, at_s), question, at_s)

    def predict_beside(self, naive: Prediction, question: Jobs, at_s: int) -> Prediction:
        """Return the predictions of the predictor in use, where the caller has the `naive` ones."""
        answers = [naive, *(other.predict(question, at_s) for other in self._others)]
        points = np.column_stack([answer.point for answer in answers])
        used = self.choice.used
        self._open.remember(question.job_id.tolist(), (OpenAnswers(tuple(row), used) for row in points.tolist()))
        return answers[used]

    def state(self) -> State:
        """Return the choice, and the state of each candidate."""
        parts = {"choice": self.choice.state(), "naive": self._naive.state()}
        return join_states(parts | {str(number): other.state() for number, other in enumerate(self._others)})

    def restore(self, state: State) -> None:
        """Restore the choice and the candidates."""
        self.choice.restore(state_part(state, "choice"))
        self._naive.restore(state_part(state, "naive"))
        for number, other in enumerate(self._others):
            other.restore(state_part(state, str(number)))
