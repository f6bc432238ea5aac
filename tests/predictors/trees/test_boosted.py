"""Boosted trees learn what jobs' habits are."""

import numpy as np
import pytest
from random_jobs import user_habits

from predictors.run_times.registry import RunTimeQuantity
from predictors.scores.evaluation import compute_score, take_exam
from predictors.scores.exams import run_time_exam
from predictors.submitted_jobs import jobs_at_submission
from predictors.trees.boosted import BoostedTrees
from predictors.trees.grow import Growth, GrowthSchedule, grow

GROWTH, SCHEDULE = Growth(trees=20, least_rows=20), GrowthSchedule(least=300)
JOBS = user_habits(1500, 1)


def test_the_caller_may_grow_the_forest_elsewhere():
    itself = BoostedTrees("itself", RunTimeQuantity(), growth=GROWTH, schedule=SCHEDULE)
    helped = BoostedTrees("helped", RunTimeQuantity(), growth=GROWTH, schedule=SCHEDULE, grows_itself=False)
    first, later = JOBS.take(np.arange(300)), jobs_at_submission(JOBS.take(np.arange(300, 310)))
    for predictor in (itself, helped):
        predictor.learn(first, 10**6)
    assert helped.is_due
    assert not itself.is_due
    assert helped.predict(later, 10**6).basis[0] == "no trees yet"
    helped.adopt(grow(helped.lessons(), helped.growth))
    assert not helped.is_due
    assert helped.predict(later, 10**6).mean.tolist() == itself.predict(later, 10**6).mean.tolist()
    assert helped.predict(later, 10**6).basis[0] == "trees grown from 300 jobs"


def test_habits_are_learned_and_four_fifths_lie_in_the_interval():
    exam = run_time_exam(JOBS, JOBS.logged_start_s)
    given = take_exam(BoostedTrees("boosted", RunTimeQuantity(), growth=GROWTH, schedule=SCHEDULE), exam)
    estimate = take_exam(BoostedTrees("never", RunTimeQuantity(), schedule=GrowthSchedule(least=10**9)), exam)
    late = exam.question_s > exam.question_s[800]
    score = compute_score(np.where(late, exam.actual, np.nan), given, naive=estimate)
    assert score.relative_mae < 0.25
    assert score.coverage == pytest.approx(0.8, abs=0.06)
