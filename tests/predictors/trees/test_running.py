"""Running statistics against a plain reckoning."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.trees.running_statistics import COMMON, FIRST_CAPACITY, OF_A_TARGET, RECENT, RunningStatistics

KINDS = ((0,), (0, 1), (1, 0), ())
number = st.sampled_from([-1, 0, 1, 2**62, -(2**62)])
rows = st.lists(st.tuples(number, number, st.floats(-1e6, 1e6)), max_size=30)


def arrays(seen):
    category = np.array([each[:2] for each in seen], np.int64).reshape(-1, 2)
    return category, np.array([each[2:] for each in seen], np.float64).reshape(-1, 1)


def plain(values):
    """Return count, latest three, recent mean, mean and spread of the values."""
    if not values:
        return [0.0] + [np.nan] * OF_A_TARGET
    recent, spread = values[0], 0.0
    for value in values:
        off = value - recent
        spread += RECENT * (abs(off) - spread)
        recent += RECENT * off
    latest = [*reversed(values), np.nan, np.nan][:3]
    return [len(values), *latest, recent, np.mean(values), spread]


@given(rows, st.lists(st.tuples(number, number), min_size=1, max_size=4))
def test_each_kind_holds_what_its_own_rows_were(seen, requests):
    running = RunningStatistics(KINDS, targets=1)
    running.learn(*arrays(seen))
    found = running.of(np.array(requests)).reshape(len(requests), len(KINDS), COMMON + OF_A_TARGET)
    for row, question in enumerate(requests):
        for number_of_kind, kind in enumerate(KINDS):
            alike = [each[2] for each in seen if all(each[column] == question[column] for column in kind)]
            np.testing.assert_allclose(found[row, number_of_kind], plain(alike), rtol=1e-9, atol=1e-6)


def test_a_table_that_grows_keeps_what_it_held():
    many = 4 * FIRST_CAPACITY
    category = np.arange(many)[:, None]
    running = RunningStatistics(((0,),), targets=2)
    running.learn(category, np.stack([category[:, 0], -category[:, 0]], axis=1) + 0.5)
    found = running.of(category)
    assert (found[:, 0] == 1).all()
    assert (found[:, COMMON] == category[:, 0] + 0.5).all()
    assert (found[:, COMMON + OF_A_TARGET] == 0.5 - category[:, 0]).all()
    assert np.isnan(running.of(np.array([[many]]))[0, 1:]).all()
