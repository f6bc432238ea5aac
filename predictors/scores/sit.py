"""Takes a predictor through an exam: every outcome is handed over when it became known, and no second before.

So a predictor cannot look ahead, whatever it does. The idea of scoring with delayed labels is that of progressive
validation (Blum, Kalai, Langford, "Beating the hold-out", COLT 1999).
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from offpeak.model.arrays import Int64
from predictors.port import LEVELS, Prediction, Predictor
from predictors.scores.exam import Exam, Rows

Asked = TypeVar("Asked", bound=Rows)
Known = TypeVar("Known", bound=Rows)


class Turn(NamedTuple):
    """What happens next: the rows `first`..`end` - 1 of the outcomes are learned, or of the questions are asked."""

    verb: Literal["learn", "ask"]
    first: int
    end: int


def sit(predictor: Predictor[Asked, Known], exam: Exam[Asked, Known]) -> Prediction:
    """Return the predictor's answer to each question; of every answer only what was known by then had been learned.

    The outcomes of a second come before its questions; those after the last question are learned too. Questions
    without an outcome in between are asked in one call, at the second of the first.
    """
    mean = np.empty(len(exam.questions))
    quantiles = np.empty((len(exam.questions), len(LEVELS)))
    basis: list[str] = []
    for verb, first, end in turns(exam.asked_s, exam.known_s):
        rows = np.arange(first, end)
        if verb == "learn":
            predictor.learn(exam.outcomes.take(rows), int(exam.known_s[first]))
            continue
        answer = predictor.predict(exam.questions.take(rows), int(exam.asked_s[first]))
        mean[first:end], quantiles[first:end] = answer.mean, answer.quantiles
        basis += answer.basis
    return Prediction(mean, quantiles, tuple(basis))


def turns(asked_s: Int64, known_s: Int64) -> Iterator[Turn]:
    """Yield what happens, in time order; one `learn` holds the outcomes of one second."""
    known_before = np.searchsorted(known_s, asked_s, side="right")
    learned = 0
    for first, end in _runs(known_before):
        yield from _lessons(known_s, learned, int(known_before[first]))
        learned = int(known_before[first])
        yield Turn("ask", first, end)
    yield from _lessons(known_s, learned, len(known_s))


def _lessons(known_s: Int64, first: int, end: int) -> Iterator[Turn]:
    for begin, stop in _runs(known_s[first:end]):
        yield Turn("learn", first + begin, first + stop)


def _runs(values: Int64) -> Iterator[tuple[int, int]]:
    """Yield where each run of equal values begins and where it ends."""
    if len(values):
        changes = (np.flatnonzero(np.diff(values)) + 1).tolist()
        yield from zip([0, *changes], [*changes, len(values)], strict=True)
