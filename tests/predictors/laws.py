"""The laws of all predictors, whatever they predict: each takes a subject and an exam that hypothesis drew."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis.strategies import SearchStrategy

from offpeak.errors import OffpeakError
from offpeak.predictors.port import LEVELS, ModelOrigin, Prediction, load_model, save_model
from offpeak.predictors.scores import Exam, take_exam

ORIGIN = ModelOrigin(outcomes=3, first_s=10, last_s=20, mae=1.5)


@dataclass(frozen=True)
class Subject:
    """A predictor under test: how one is made that has learned nothing, and exams for it.

    `lowest` is the least that its quantity can be. `same_in_blocks` states that what it learns does not depend on how
    outcomes of a second are handed over. One that must learn something first raises `refuses` until then, and its
    exams ask nothing so early.
    """

    name: str
    make: Callable[[], Any]
    exams: SearchStrategy[Exam[Any, Any]]
    lowest: float = 0.0
    same_in_blocks: bool = True
    refuses: type[OffpeakError] | None = None


def inputs_are_not_changed(subject: Subject, exam: Exam) -> None:
    predictor, at_s = subject.make(), latest_s(exam)
    before = pickle.dumps((exam.questions, exam.outcomes))
    unlearned(subject, predictor, exam)
    predictor.learn(exam.outcomes, at_s)
    predictor.predict(exam.questions, at_s)
    assert pickle.dumps((exam.questions, exam.outcomes)) == before


def answers_are_possible_and_the_same_twice(subject: Subject, exam: Exam) -> None:
    given = take_exam(subject.make(), exam)
    possible(given, len(exam.questions), subject.lowest)
    assert (given.quantiles[:, 0] <= given.point).all()
    assert (given.point <= given.quantiles[:, -1]).all()
    assert_same(given, take_exam(subject.make(), exam))


def nothing_need_be_learned(subject: Subject, exam: Exam) -> None:
    given = unlearned(subject, subject.make(), exam)
    if given is not None:
        possible(given, len(exam.questions), subject.lowest)


def a_copy_goes_on_as_before(subject: Subject, exam: Exam) -> None:
    """One that was pickled, one that was kept in a file, and itself when it is asked again."""
    predictor, restored = subject.make(), subject.make()
    take_exam(predictor, exam)
    pickled = pickle.loads(pickle.dumps(predictor))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        save_model(path, predictor, ORIGIN)
        assert load_model(path, restored) == ORIGIN
    first, *others = predict_again([predictor, pickled, restored, predictor], exam)
    for other in others:
        assert_same(first, other)
    for each in (predictor, restored):
        each.learn(exam.outcomes, latest_s(exam))
    possible(restored.predict(exam.questions, latest_s(exam)), len(exam.questions), subject.lowest)


def predicted_together_as_one_by_one(subject: Subject, exam: Exam) -> None:
    predictor, at_s = subject.make(), latest_s(exam)
    predictor.learn(exam.outcomes, at_s)
    together = predictor.predict(exam.questions, at_s)
    for row in range(len(exam.questions)):
        alone = predictor.predict(exam.questions.take(np.array([row])), at_s)
        assert_same(alone, Prediction(together.mean[[row]], together.quantiles[[row]], (together.basis[row],)))


def learned_in_a_block_as_one_by_one(subject: Subject, exam: Exam) -> None:
    if not subject.same_in_blocks:
        return
    block, single, at_s = subject.make(), subject.make(), latest_s(exam)
    for predictor in (block, single):
        unlearned(subject, predictor, exam)
    block.learn(exam.outcomes, at_s)
    for row in range(len(exam.outcomes)):
        single.learn(exam.outcomes.take(np.array([row])), at_s)
    assert_same(*predict_again([block, single], exam))


LAWS = (
    inputs_are_not_changed,
    answers_are_possible_and_the_same_twice,
    nothing_need_be_learned,
    a_copy_goes_on_as_before,
    predicted_together_as_one_by_one,
    learned_in_a_block_as_one_by_one,
)


def latest_s(exam: Exam) -> int:
    """Return a second at which all that becomes known is known."""
    return int(max([0, *exam.known_s, *exam.question_s]))


def unlearned(subject: Subject, predictor: Any, exam: Exam) -> Prediction | None:
    """Return what one that has learned nothing says to all questions; None after a subject refused as it is to."""
    if subject.refuses is None:
        return predictor.predict(exam.questions, latest_s(exam))
    with pytest.raises(subject.refuses):
        predictor.predict(exam.questions, latest_s(exam))
    return None


def predict_again(predictors: list, exam: Exam) -> list[Prediction]:
    """Return what each says to all questions."""
    return [predictor.predict(exam.questions, latest_s(exam)) for predictor in predictors]


def possible(given: Prediction, count: int, lowest: float) -> None:
    """Fail unless there are `count` answers that are finite, not too low, with rising quantiles and a basis."""
    assert given.mean.shape == (count,)
    assert given.quantiles.shape == (count, len(LEVELS))
    assert np.isfinite(given.mean).all()
    assert np.isfinite(given.quantiles).all()
    assert (given.mean >= lowest).all()
    assert (given.quantiles >= lowest).all()
    assert (np.diff(given.quantiles, axis=1) >= 0).all()
    assert len(given.basis) == count
    assert all(given.basis)


def assert_same(one: Prediction, other: Prediction) -> None:
    """Fail unless both say the same, to the last bit."""
    assert one.mean.tolist() == other.mean.tolist()
    assert one.quantiles.tolist() == other.quantiles.tolist()
    assert one.basis == other.basis
