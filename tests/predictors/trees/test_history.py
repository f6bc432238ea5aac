"""The rows that forests are grown from, and when."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.trees.forest import FIRST_ROWS, GrowthSchedule, TrainingHistory


@given(st.integers(1, 20), st.integers(0, 60))
def test_the_latest_rows_are_held(most, count):
    history = TrainingHistory(2, most)
    for row in range(count):
        history.add(np.array([row, -row]), row)
    held = history.lessons()
    assert sorted(held.target.tolist()) == list(range(max(0, count - most), count))
    assert (held.features[:, 0] == held.target).all()
    assert history.count == count


def test_it_widens_as_it_fills():
    history = TrainingHistory(1, 3 * FIRST_ROWS)
    for row in range(5 * FIRST_ROWS):
        history.add(np.array([row]), row)
    assert sorted(history.lessons().target.tolist()) == list(range(2 * FIRST_ROWS, 5 * FIRST_ROWS))


def test_lessons_are_a_copy():
    history = TrainingHistory(1, 5)
    history.add(np.array([1.0]), 1.0)
    history.lessons().features[:] = 7
    assert history.lessons().features.tolist() == [[1.0]]


def test_the_schedule():
    schedule = GrowthSchedule(least=500, growth=0.2, most=50_000)
    assert [schedule.next_after(count) for count in (500, 10_000, 1_000_000)] == [1000, 12_000, 1_050_000]
