"""Forests say what scikit-learn's own predict says."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from offpeak.predictors.trees.forest import LEAF, Growth, TrainingData, extract_forest, grow


def lessons(rows: int, seed: int) -> TrainingData:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 6)).round(1)
    features[rng.random(features.shape) < 0.2] = np.nan
    target = 3 * np.nan_to_num(features[:, 0]) + np.isnan(features[:, 1]) + rng.normal(size=rows)
    return TrainingData(features, target)


@given(st.integers(40, 400), st.integers(0, 99), st.sampled_from(["squared_error", "absolute_error"]))
def test_a_forest_is_equal_to_what_it_was_made_from(rows, seed, loss):
    known, requests = lessons(rows, seed), lessons(200, seed + 1).features
    requests[0] = np.nan
    requests[1], requests[2] = np.inf, -np.inf
    model = sklearn.ensemble.HistGradientBoostingRegressor(
        loss=loss, max_iter=8, min_samples_leaf=3, early_stopping=False
    )
    # With more than one thread each waits in a loop for the others, which costs most where processors are busy.
    with threadpool_limits(1):
        forest = extract_forest(model.fit(known.features, known.target))
        assert forest.answer(requests).tolist() == model.predict(requests).tolist()
    trees = forest.trees
    assert (trees.feature == LEAF).sum() == len(trees.roots) + (trees.feature != LEAF).sum()


def test_a_column_of_which_nothing_is_known_is_no_obstacle():
    features = np.stack([np.full(100, np.nan), np.arange(100.0)], axis=1)
    forest = grow(TrainingData(features, np.arange(100.0)), Growth(least_rows=20))
    assert forest.answer(features)[[0, -1]] == pytest.approx([5, 95], abs=10)


def test_the_same_lessons_grow_the_same_forest():
    known = lessons(500, 1)
    one, other = grow(known, Growth(trees=5)), grow(known, Growth(trees=5))
    assert one.answer(known.features).tolist() == other.answer(known.features).tolist()


def test_absolute_error_grows_medians_and_squared_error_means():
    features = np.zeros((1000, 1))
    known = TrainingData(features, np.where(np.arange(1000) < 800, 1.0, 100.0))
    assert grow(known, Growth("absolute_error")).answer(features[:1])[0] == pytest.approx(1.0)
    assert grow(known, Growth("squared_error")).answer(features[:1])[0] == pytest.approx(20.8)


def test_a_single_question_is_quick():
    known = lessons(2000, 2)
    forest = grow(known, Growth())
    forest.answer(known.features[:1])
    begin = time.process_time()
    for row in range(1000):
        forest.answer(known.features[row : row + 1])
    assert time.process_time() - begin < 0.1


WITHOUT_SKLEARN = """
import sys
sys.modules["sklearn"] = None
sys.path.insert(0, {tests!r})
from random_jobs import user_habits
from offpeak.predictors.run_times import boosted_run_time
from offpeak.predictors.job_history import jobs_at_submission
predictor = boosted_run_time()
predictor.learn(user_habits(600, 1), 10**9)
asked = jobs_at_submission(user_habits(3, 2))
answer = predictor.predict(asked, 10**9)
assert answer.mean.max() <= asked.estimate_s.max()
print(*set(answer.basis))
"""


def test_without_scikit_learn_it_goes_on_without_trees():
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SKLEARN.format(tests=tests)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "no trees: scikit-learn is not installed\n"
