"""The measures."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.port import LEVELS, Prediction, certain
from offpeak.predictors.scores import compute_score, pinball

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=20)
ACTUAL = np.array([100.0, 200.0, 400.0, np.nan])


def test_by_hand():
    message = Prediction(
        mean=np.array([110.0, 200.0, 370.0, 0.0]),
        quantiles=np.array([[90, 120, 150], [210, 220, 230], [100, 300, 400], [0, 0, 0]]) + 0.0,
        basis=("",) * 4,
    )
    score = compute_score(ACTUAL, message, naive=certain(np.array([180.0, 200, 240, 0]), ""), close=20.0)
    assert score.count == 3
    assert score.mae == pytest.approx((20 + 20 + 100) / 3)
    assert score.rmse == pytest.approx(math.sqrt((100 + 900) / 3))
    assert score.percentage_error == pytest.approx((20 + 10 + 25) / 3)
    assert score.pinball[1] == pytest.approx(score.mae / 2)
    assert score.pinball[0] == pytest.approx((0.1 * 10 + 0.9 * 10 + 0.1 * 300) / 3)
    assert score.coverage == pytest.approx(2 / 3)
    assert score.close_share == pytest.approx(2 / 3)
    assert score.relative_mae == pytest.approx(140 / 240)


def test_without_a_naive_prediction_nothing_is_reported_of_the_relative_error():
    score = compute_score(ACTUAL, certain(np.zeros(4), ""))
    assert score.mae == pytest.approx(700 / 3)
    assert math.isnan(score.relative_mae)


def test_nothing_to_measure():
    score = compute_score(np.array([np.nan]), certain(np.array([1.0]), ""), naive=certain(np.array([1.0]), ""))
    assert score.count == 0
    assert math.isnan(score.mae)
    assert math.isnan(score.relative_mae)


@given(values)
def test_perfect_predictor_has_no_error(actual):
    all_knowing = certain(np.array(actual), "")
    score = compute_score(np.array(actual), all_knowing, naive=certain(np.zeros(len(actual)), ""))
    assert (score.mae, score.rmse, score.coverage, score.close_share) == (0, 0, 1, 1)
    assert score.pinball == (0,) * len(LEVELS)
    assert not score.relative_mae > 0


@given(values, st.sampled_from(LEVELS))
def test_no_constant_has_less_pinball_loss_than_the_quantile(actual, level):
    y = np.array(actual)
    best = min(pinball(y, np.full(len(y), each), level) for each in actual)
    assert pinball(y, np.full(len(y), np.quantile(y, level, method="inverted_cdf")), level) == pytest.approx(best)
