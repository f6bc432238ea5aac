"""Boosted trees learn what jobs' habits are."""

import numpy as np
import pytest
from random_jobs import user_habits

from offpeak.predictors.run_times import RunTimeQuantity
from offpeak.predictors.scores import compute_score, run_time_exam, take_exam
from offpeak.predictors.trees.boosted import BoostedTrees
from offpeak.predictors.trees.forest import Growth, GrowthSchedule

GROWTH, SCHEDULE = Growth(trees=20, least_rows=20), GrowthSchedule(least=300)
JOBS = user_habits(1500, 1)


def test_habits_are_learned_and_four_fifths_lie_in_the_interval():
    exam = run_time_exam(JOBS, JOBS.logged_start_s)
    given = take_exam(BoostedTrees("boosted", RunTimeQuantity(), growth=GROWTH, schedule=SCHEDULE), exam)
    estimate = take_exam(BoostedTrees("never", RunTimeQuantity(), schedule=GrowthSchedule(least=10**9)), exam)
    late = exam.question_s > exam.question_s[800]
    score = compute_score(np.where(late, exam.actual, np.nan), given, naive=estimate)
    assert score.relative_mae < 0.25
    assert score.coverage == pytest.approx(0.8, abs=0.06)
