"""Takes a predictor through an exam in time order and scores its answers.

An exam has the questions and the outcomes with their times, and the correct answers. Every outcome is learned at the
second at which it became known, so a predictor cannot look ahead. The idea of scoring with delayed labels is that of
progressive validation (Blum, Kalai, Langford, "Beating the hold-out", COLT 1999). `teach` does the same with outcomes
since a predictor was saved.

Each job is predicted at its submission; its wait becomes known at its start, its run time and power at its end. Prices
are predicted at each midnight, for all steps of the day that starts, from the days that have ended.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.local_time import to_local_s, to_unix_s
from offpeak.predictors.job_history import jobs_at_submission
from offpeak.predictors.port import LEVELS, MEDIAN, ModelOrigin, Prediction, Predictor
from offpeak.predictors.prices.history import HIGHEST, PriceHistory, PriceSteps
from offpeak.predictors.waits.questions import WaitOutcomes, WaitQuestions
from offpeak.predictors.waits.states import LogStates, log_rows

Mask = NDArray[np.bool_]


class Rows(Protocol):
    """Rows that support selection, such as `Jobs`."""

    def __len__(self) -> int: ...

    def take(self, which: NDArray[np.bool_] | Int64, /) -> Self:
        """Return copies of the rows that the indices select."""
        ...


QuestionRows = TypeVar("QuestionRows", bound=Rows)
OutcomeRows = TypeVar("OutcomeRows", bound=Rows)


@dataclass(frozen=True, eq=False)
class Exam(Generic[QuestionRows, OutcomeRows]):
    """`questions` are asked at `question_s` int64[n], `outcomes` become known at `known_s` int64[m]; both rise.

    `actual` float64[n] is the correct answer to each question, NaN if unknown.
    """

    questions: QuestionRows
    question_s: Int64
    actual: Float64
    outcomes: OutcomeRows
    known_s: Int64

    def without(self, unanswered: Mask, dropped: Mask) -> "Exam[QuestionRows, OutcomeRows]":
        """Return the exam without right answers for the questions `unanswered` and without the outcomes `dropped`."""
        kept = np.flatnonzero(~dropped)
        actual = np.where(unanswered, np.nan, self.actual)
        return replace(self, actual=actual, outcomes=self.outcomes.take(kept), known_s=self.known_s[kept])


class ExamStep(NamedTuple):
    """The next step: learn the outcomes `first`..`end` - 1, or predict the questions `first`..`end` - 1."""

    verb: Literal["learn", "ask"]
    first: int
    end: int


def take_exam(
    predictor: Predictor[QuestionRows, OutcomeRows],
    exam: Exam[QuestionRows, OutcomeRows],
    progress: Callable[[float], None] = lambda _: None,
) -> Prediction:
    """Return the prediction for each question, from the outcomes that were known at its time.

    The outcomes of a second precede its questions; those after the last question are learned, too. Questions without an
    outcome in between are asked in one call, at the second of the first one. `progress` is called with the share of the
    questions that are answered.
    """
    mean = np.empty(len(exam.questions))
    quantiles = np.empty((len(exam.questions), len(LEVELS)))
    basis: list[str] = []
    for verb, first, end in exam_steps(exam.question_s, exam.known_s):
        rows = np.arange(first, end)
        if verb == "learn":
            predictor.learn(exam.outcomes.take(rows), int(exam.known_s[first]))
            continue
        answer = predictor.predict(exam.questions.take(rows), int(exam.question_s[first]))
        mean[first:end], quantiles[first:end] = answer.mean, answer.quantiles
        basis += answer.basis
        progress(end / len(exam.questions))
    return Prediction(mean, quantiles, tuple(basis))


def exam_steps(question_s: Int64, known_s: Int64) -> Iterator[ExamStep]:
    """Yield the steps in time order; one `learn` holds the outcomes of one second."""
    known_before = np.searchsorted(known_s, question_s, side="right")
    learned = 0
    for first, end in _runs(known_before):
        yield from _lessons(known_s, learned, int(known_before[first]))
        learned = int(known_before[first])
        yield ExamStep("ask", first, end)
    yield from _lessons(known_s, learned, len(known_s))


def _lessons(known_s: Int64, first: int, end: int) -> Iterator[ExamStep]:
    for begin, stop in _runs(known_s[first:end]):
        yield ExamStep("learn", first + begin, first + stop)


def _runs(values: Int64) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each run of equal values."""
    if len(values):
        changes = (np.flatnonzero(np.diff(values)) + 1).tolist()
        yield from zip([0, *changes], [*changes, len(values)], strict=True)


def teach(
    predictor: Predictor[QuestionRows, OutcomeRows],
    exam: Exam[QuestionRows, OutcomeRows],
    answered_s: Int64,
    before: ModelOrigin | None,
) -> ModelOrigin:
    """Teach the predictor the outcomes after `before`, and return the origin of all that it has learned.

    `answered_s` int64[n] is when the outcome of each question is known.
    """
    last_s = before.last_s if before else -1
    open_questions, news = np.flatnonzero(answered_s > last_s), np.flatnonzero(exam.known_s > last_s)
    new = Exam(
        exam.questions.take(open_questions),
        exam.question_s[open_questions],
        exam.actual[open_questions],
        exam.outcomes.take(news),
        exam.known_s[news],
    )
    if len(new.outcomes) == 0:
        return before or ModelOrigin(0, 0, 0, float("nan"))
    error = np.abs(new.actual - take_exam(predictor, new).point)
    known = error[np.isfinite(error)]
    first_s = before.first_s if before else int(new.known_s[0])
    outcomes = (before.outcomes if before else 0) + len(known)
    total = float(known.sum()) + (before.mae * before.outcomes if before and before.outcomes else 0.0)
    return ModelOrigin(outcomes, first_s, int(new.known_s[-1]), total / outcomes if outcomes else float("nan"))


@dataclass(frozen=True)
class Score:
    """The measures of `count` predictions against the outcomes y. NaN is a measure without data.

    The median m is judged by absolute error and the mean f by squared error, because these are what each minimises
    (Gneiting, "Making and evaluating point forecasts", JASA 106, 2011). A point prediction has m = f.

    * `mae`: mean |y - m|; the papers on waits call it average absolute error.
    * `rmse`: square root of the mean of (y - f)^2.
    * `percentage_error`: 100 x mean |y - m| / y over y > 0 (PPE of Murali and Vadhiyar, 2018).
    * `pinball`: for each level q of LEVELS and its quantile x the mean of max(q (y - x), (q - 1) (y - x))
      (Koenker and Bassett, "Regression quantiles", Econometrica 46, 1978).
    * `coverage`: share of y from the lowest to the highest quantile, both included; 0.8 is right. * `close_share`:
    share of |y - m| up to an hour, or to the distance given to `score_of`. * `relative_mae`: mae / mae of the naive
    predictor on the same questions (Hyndman and Koehler, "Another look at
      measures of forecast accuracy", Int. J. Forecasting 22, 2006).
    """

    count: int
    mae: float
    rmse: float
    percentage_error: float
    pinball: tuple[float, ...]
    coverage: float
    close_share: float
    relative_mae: float


def compute_score(
    actual: Float64, given: Prediction, *, naive: Prediction | None = None, close: float = HOUR_S
) -> Score:
    """Return the score of `given` where `actual` float64[n] is known; without `naive` the relative error is NaN."""
    known = np.isfinite(actual)
    y, quantiles = actual[known], given.quantiles[known]
    error = np.abs(y - quantiles[:, MEDIAN])
    naive_mae = _mean(np.abs(y - naive.quantiles[known, MEDIAN])) if naive else float("nan")
    return Score(
        count=len(y),
        mae=_mean(error),
        rmse=float(np.sqrt(_mean((y - given.mean[known]) ** 2))),
        percentage_error=100 * _mean(error[y > 0] / y[y > 0]),
        pinball=tuple(pinball(y, x, level) for x, level in zip(quantiles.T, LEVELS, strict=True)),
        coverage=_mean((quantiles[:, 0] <= y) & (y <= quantiles[:, -1])),
        close_share=_mean(error <= close),
        relative_mae=(_mean(error) / naive_mae if naive_mae > 0 else float("nan")),
    )


def pinball(actual: Float64, quantile: Float64, level: float) -> float:
    """Return the mean pinball loss of a quantile, both float64[n]."""
    above = actual - quantile
    return _mean(np.maximum(level * above, (level - 1) * above))


def _mean(values: Float64 | NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


JobExam = Exam[Jobs, Jobs]


def run_time_exam(jobs: Jobs, start_s: Int64) -> JobExam:
    """Ask at its submission how long [s] each job will run; that is known once it has ended.

    `start_s` int64[n] is the start of each job: `jobs.logged_start_s`, or of a simulation if the log has no starts.
    """
    return _exam(jobs, start_s, jobs.runtime_s.astype(np.float64))


def power_exam(jobs: Jobs, start_s: Int64) -> JobExam:
    """Ask at its submission what [W per allocated unit] each job will draw; that is known once it has ended."""
    return _exam(jobs, start_s, jobs.node_power_w)


def _exam(jobs: Jobs, start_s: Int64, actual: Float64) -> JobExam:
    early = np.flatnonzero(start_s < jobs.submit_s)
    if len(early):
        message = f"job {jobs.job_id[early[0]]} has no start at or after its submission"
        raise BadInput(message, hint="replay the log to know when its jobs could have started")
    end_s = start_s + jobs.runtime_s
    by_end = np.argsort(end_s, kind="stable")
    return Exam(jobs_at_submission(jobs), jobs.submit_s, actual, jobs.take(by_end), end_s[by_end])


PriceExam = Exam[PriceSteps, PriceHistory]


def price_exam(history: PriceHistory, zone: tzinfo, *, after_days: int = 1, days_ahead: int = 1) -> PriceExam:
    """Ask at midnights of the zone's clock what every step [currency per MWh] of a day will cost, which ends
    `days_ahead` days later.

    Prices become known at the end of their day, so forecasts are scored, not prices that a market published the day
    before. The first `after_days` days have no questions. A gap is NaN in `actual`.
    """
    start_s = history.start_s + history.step_s * np.arange(len(history), dtype=np.int64)
    # If the clock goes back over midnight, the new day continues.
    day = np.maximum.accumulate(to_local_s(start_s, zone) // DAY_S)
    question_s, _ = to_unix_s((day - days_ahead + 1) * DAY_S, zone)
    end_s, _ = to_unix_s((day + 1) * DAY_S, zone)
    chosen = day >= day[:1] + after_days
    actual = np.where(np.abs(history.price) <= HIGHEST, history.price, np.nan)
    return Exam(history.steps.take(chosen), question_s[chosen], actual[chosen], history, end_s)


WaitExam = Exam[WaitQuestions, WaitOutcomes]


def wait_exam(jobs: Jobs, start_s: Int64, end_s: Int64, *, units: int, expected_s: Int64 | None = None) -> WaitExam:
    """Return the exam of jobs that started and ended so, no job before its submission, on a machine of `units`.

    In the states, for predictors that plan, jobs run for `expected_s`, the prediction at their submission, by default
    their estimates. The rows have the estimates.
    """
    rows = log_rows(jobs, start_s, end_s, units=units)
    states = LogStates(jobs, start_s, end_s, jobs.estimate_s if expected_s is None else expected_s, units)
    questions = WaitQuestions(jobs.job_id, jobs.user, jobs.queue, rows, np.arange(len(jobs)), states)
    wait_s = start_s - jobs.submit_s
    by_start = np.argsort(start_s, kind="stable")
    outcomes = WaitOutcomes(questions, wait_s).take(by_start)
    return Exam(questions, jobs.submit_s, wait_s.astype(np.float64), outcomes, start_s[by_start])
