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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place, index, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.predictors.port import Composite, Prediction, Predictor, Restorable, State, check_state, scalar_array
from offpeak.predictors.recent_errors import WINDOW, OpenQuestions

NAIVE = 0
"""The index of the naive candidate."""


class ChoiceRule(NamedTuple):
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


LENGTH, NEXT, USED, PAYS_BACK = range(4)


class ChoiceMemory(NamedTuple):
    """The absolute errors of the latest outcomes and what follows from them.

    `errors`, float64[window, candidates], is a ring of `counts[LENGTH]` rows, the next of which is `counts[NEXT]`, and
    `sums` are those of its columns.
    `counts[USED]` is the candidate that answers. `overdrawn[0]` is the account; it is paid back if `counts[PAYS_BACK]`.
    """

    errors: Float64
    sums: Float64
    overdrawn: Float64
    counts: Int64


def new_choice(candidates: int, rule: ChoiceRule, *, at_first: int = NAIVE) -> ChoiceMemory:
    """Return the memory of a choice among so many candidates that has learned nothing."""
    counts = np.array([0, 0, at_first, 0], dtype=np.int64)
    return ChoiceMemory(np.zeros((rule.window, candidates)), np.zeros(candidates), np.zeros(1), counts)


@python_first
@in_place
def sum_errors(memory: ChoiceMemory) -> None:
    """Write the sum of the absolute errors of each candidate, the oldest first."""
    errors, sums, window = memory.errors, memory.sums, len(memory.errors)
    sums[:] = 0.0
    row = memory.counts[NEXT] - memory.counts[LENGTH]
    if row < 0:
        row += window
    for _ in range(memory.counts[LENGTH]):
        for candidate in range(len(sums)):
            sums[index(candidate)] += errors[index(row), index(candidate)]
        row += 1
        if row == window:
            row = 0


@part
def next_choice(memory: ChoiceMemory, rule: ChoiceRule) -> int:
    """Return the candidate that answers from now on."""
    used, sums = int(memory.counts[USED]), memory.sums
    if memory.counts[LENGTH] < rule.least:
        return used
    if memory.counts[PAYS_BACK] != 0:
        return NAIVE
    best = 0
    for candidate in range(len(sums)):
        if sums[index(candidate)] < sums[index(best)]:
            best = candidate
    if sums[index(best)] < (1 - rule.margin) * sums[index(used)]:
        return best
    return NAIVE if sums[index(used)] > sums[NAIVE] else used


@python_first
@in_place
def learn_errors(memory: ChoiceMemory, rule: ChoiceRule, error: Float64, used: int) -> None:
    """Learn the errors of all candidates about one outcome, of either sign, for which `used` gave the answer."""
    counts, window = memory.counts, len(memory.errors)
    row = index(counts[NEXT])
    for candidate in range(len(error)):
        memory.errors[row, index(candidate)] = abs(error[index(candidate)])
    counts[NEXT] = (counts[NEXT] + 1) % window
    counts[LENGTH] = min(counts[LENGTH] + 1, window)
    sum_errors(memory)
    naive = memory.sums[NAIVE]
    charge = memory.errors[row, index(used)] - (1 + rule.margin) * memory.errors[row, NAIVE]
    # What was gained more than a window ago is no credit: it was another time.
    overdrawn = max(memory.overdrawn[0] + charge, -naive)
    most = rule.margin * naive
    counts[PAYS_BACK] = 1 if overdrawn > (0.0 if counts[PAYS_BACK] != 0 else most) else 0
    # Each outcome pays back its share of this: without a limit the errors of one bad day would take years.
    memory.overdrawn[0] = min(overdrawn, most)
    counts[USED] = next_choice(memory, rule)


class PredictorChoice:
    """The choice among named `candidates`. `used` is the index of the one that answers, at first `at_first`."""

    def __init__(self, candidates: tuple[str, ...], rule: ChoiceRule | None = None, *, at_first: int = NAIVE) -> None:
        self._rule = rule or ChoiceRule()
        self.candidates = candidates
        self._memory = new_choice(len(candidates), self._rule, at_first=at_first)

    @property
    def used(self) -> int:
        """The index of the candidate that answers."""
        return int(self._memory.counts[USED])

    @property
    def errors(self) -> ChosenErrors:
        """The errors over the latest outcomes."""
        length = int(self._memory.counts[LENGTH])
        mae = (self._memory.sums / length).tolist() if length else [None] * len(self.candidates)
        return ChosenErrors(self.candidates[self.used], mae[self.used], self.candidates[NAIVE], mae[NAIVE], length)

    def learn(self, errors: tuple[float, ...], used: int) -> None:
        """Learn the errors of all candidates about one outcome, of either sign, for which `used` gave the answer."""
        learn_errors(self._memory, self._rule, np.array(errors, np.float64), used)

    def state(self) -> State:
        """Return the errors, the oldest first, the choice and its account."""
        length, following = (int(each) for each in self._memory.counts[[LENGTH, NEXT]])
        return {
            "error": np.roll(self._memory.errors, -following, axis=0)[self._rule.window - length :],
            "used": scalar_array(self.used),
            "overdrawn": scalar_array(float(self._memory.overdrawn[0])),
            "pays_back": scalar_array(bool(self._memory.counts[PAYS_BACK])),
        }

    def restore(self, state: State) -> None:
        """Restore the errors, the choice and its account."""
        errors, used = np.array(state["error"], np.float64), int(state["used"])
        overdrawn, pays_back = float(state["overdrawn"]), bool(state["pays_back"])
        fits = errors.ndim == 2 and errors.shape[1] == len(self.candidates) and 0 <= used < errors.shape[1]
        finite = bool(np.isfinite(errors).all()) and math.isfinite(overdrawn)
        check_state(is_so=fits and finite, what="the errors of other candidates")
        kept = errors[-self._rule.window :]
        self._memory.errors[: len(kept)] = kept
        self._memory.overdrawn[0] = overdrawn
        self._memory.counts[:] = len(kept), len(kept) % self._rule.window, used, pays_back
        sum_errors(self._memory)


class OpenAnswers(NamedTuple):
    """The first answers of all candidates about a job, as the bytes of float64, and which of them was used."""

    predicted: bytes
    used: int


class ChosenPredictor(Composite):
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
                self.choice.learn(tuple((np.frombuffer(given.predicted) - actual).tolist()), given.used)
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
        self._open.remember(question.job_id.tolist(), (OpenAnswers(row.tobytes(), used) for row in points))
        return answers[used]

    def parts(self) -> Mapping[str, Restorable]:
        """Return the choice and the candidates."""
        others = {str(number): other for number, other in enumerate(self._others)}
        return {"choice": self.choice, "naive": self._naive, **others}
