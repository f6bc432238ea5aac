"""Takes a predictor through what happened since it was kept, and says how well it did on the way."""

from typing import TypeVar

import numpy as np

from offpeak.model.arrays import Int64
from predictors.model_file import Origin
from predictors.port import Predictor
from predictors.scores.exam import Exam, Rows
from predictors.scores.sit import sit

Asked = TypeVar("Asked", bound=Rows)
Known = TypeVar("Known", bound=Rows)


def teach(
    predictor: Predictor[Asked, Known], exam: Exam[Asked, Known], answered_s: Int64, before: Origin | None
) -> Origin:
    """Let the predictor sit what became known after `before`, and return what it has learned from by then.

    `answered_s` int64[n] is when the outcome of each question is known.
    """
    last_s = before.last_s if before else -1
    new = _since(exam, answered_s, last_s)
    if len(new.outcomes) == 0:
        return before or Origin(0, 0, 0, float("nan"))
    error = np.abs(new.actual - sit(predictor, new).point)
    known = error[np.isfinite(error)]
    first_s = before.first_s if before else int(new.known_s[0])
    outcomes = (before.outcomes if before else 0) + len(known)
    total = float(known.sum()) + (before.mae * before.outcomes if before and before.outcomes else 0.0)
    return Origin(outcomes, first_s, int(new.known_s[-1]), total / outcomes if outcomes else float("nan"))


def _since(exam: Exam[Asked, Known], answered_s: Int64, last_s: int) -> Exam[Asked, Known]:
    open_questions, news = np.flatnonzero(answered_s > last_s), np.flatnonzero(exam.known_s > last_s)
    return Exam(
        exam.questions.take(open_questions),
        exam.asked_s[open_questions],
        exam.actual[open_questions],
        exam.outcomes.take(news),
        exam.known_s[news],
    )
