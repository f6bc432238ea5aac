"""Forests that another process grows."""

import os
import signal
import time

import pytest
from background_forests import Background
from random_jobs import user_habits

from predictors.run_times.registry import RunTimeQuantity
from predictors.submitted_jobs import jobs_at_submission
from predictors.trees.boosted import BoostedTrees
from predictors.trees.grow import Growth, GrowthSchedule

pytestmark = pytest.mark.thorough

GROWTH, SCHEDULE = Growth(trees=3, leaves=4, least_rows=2), GrowthSchedule(least=50)


def learned(*, grows_itself):
    predictor = BoostedTrees("boosted", RunTimeQuantity(), growth=GROWTH, schedule=SCHEDULE, grows_itself=grows_itself)
    predictor.learn(user_habits(50, 1), 0)
    return predictor


def tend_until(background, is_so):
    until = time.monotonic() + 900
    while not is_so() and time.monotonic() < until:
        background.tend()
        time.sleep(0.01)
    assert is_so()


def test_it_answers_meanwhile_and_then_as_if_it_had_grown_the_forest_itself():
    predictor, other = learned(grows_itself=False), learned(grows_itself=True)
    requests = jobs_at_submission(user_habits(5, 2))
    assert predictor.is_due
    with Background(predictor) as background:
        background.tend()
        assert background.is_busy
        assert set(predictor.predict(requests, 0).basis) == {"no trees yet"}
        tend_until(background, lambda: not background.is_busy)
    assert not predictor.is_due
    assert predictor.predict(requests, 0).mean.tolist() == other.predict(requests, 0).mean.tolist()
    assert set(predictor.predict(requests, 0).basis) == {"trees grown from 50 jobs"}


def test_a_process_that_is_killed_is_tried_again():
    predictor = learned(grows_itself=False)
    with Background(predictor) as background:
        background.tend()
        for process in background._pool._processes.values():
            os.kill(process.pid, signal.SIGKILL)
        tend_until(background, lambda: not predictor.is_due)
