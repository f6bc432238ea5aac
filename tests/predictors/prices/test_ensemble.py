"""Who counts how much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from offpeak.predictors.prices import models
from offpeak.predictors.prices.models import WITH_INPUTS, YESTERDAY, mix_forecasts

SPEAKING = np.zeros((3, 24))
ERRORS = arrays(np.float64, st.tuples(st.integers(0, 12), st.just(3), st.just(24)), elements=st.floats(-1e4, 1e4))


def shares(error, speaking, members=(YESTERDAY,) * 3):
    return models.shares(error, speaking, members)


def errors_of(*size: float, days: int = 10) -> np.ndarray:
    return np.tile(np.array(size)[:, None], (days, 1, 24))


@given(ERRORS)
def test_shares_are_a_whole(error):
    share = shares(error, SPEAKING)
    assert (share >= 0).all()
    assert share.sum() == pytest.approx(1)


@given(st.lists(st.floats(0.1, 100), min_size=3, max_size=3), st.floats(0.01, 100))
def test_model_with_smaller_errors_has_more_weight_in_any_currency(size, rate):
    share = shares(errors_of(*size), SPEAKING)
    assert np.argmax(share) == np.argmin(size)
    np.testing.assert_allclose(shares(rate * errors_of(*size), SPEAKING), share, rtol=1e-6)


def test_model_without_a_forecast_has_no_weight():
    speaking = np.vstack([np.zeros((2, 24)), np.full((1, 24), np.nan)])
    assert shares(errors_of(1, 1, 0.1), speaking).tolist() == [0.5, 0.5, 0]


def test_model_with_one_good_day_gains_no_weight_yet():
    error = errors_of(1, 2, 0.01)
    error[:-1, 2] = np.nan
    assert shares(error, SPEAKING)[2] == 0


def test_without_a_history_all_count_alike():
    np.testing.assert_allclose(shares(np.empty((0, 3, 24)), SPEAKING), 1 / 3)


def test_never_wrong_is_best():
    np.testing.assert_allclose(shares(errors_of(0, 1, 1), SPEAKING), [1, 0, 0], atol=1e-12)


def test_mixed_leaves_out_the_silent():
    forecast = np.array([[1.0] * 24, [3.0] * 24, [np.nan] * 24])
    share = np.array([0.25, 0.25, 0.5])
    assert mix_forecasts(forecast, share).tolist() == [2.0] * 24
    assert mix_forecasts(np.stack([forecast, forecast + 1]), share)[:, 0].tolist() == [2, 3]
    assert np.isnan(mix_forecasts(forecast, np.array([0.0, 0.0, 1.0]))).all()


INPUTS = (YESTERDAY, WITH_INPUTS[0], WITH_INPUTS[1])


@given(st.lists(st.floats(0.1, 100), min_size=3, max_size=3))
def test_those_with_inputs_replace_the_others_unless_they_erred_more(size):
    share = shares(errors_of(*size), SPEAKING, INPUTS)
    assert share.sum() == pytest.approx(1)
    assert share[0] in (0.0, 1.0)
    if share[0]:
        assert size[0] <= max(size[1:])
    else:
        assert share[1:] @ size[1:] <= size[0]


def test_inputs_without_a_value_leave_the_day_to_the_others():
    speaking = np.vstack([np.zeros((1, 24)), np.full((2, 24), np.nan)])
    assert shares(errors_of(9, 1, 1), speaking, INPUTS).tolist() == [1, 0, 0]


def test_inputs_that_have_served_for_some_days_do_not_count_yet():
    error = errors_of(9.0, 1.0, 1.0)
    error[:-6, 1:] = np.nan
    assert shares(error, SPEAKING, INPUTS).tolist() == [1, 0, 0]
    error[-7, 1:] = 1
    assert shares(error, SPEAKING, INPUTS).tolist() == [0, 0.5, 0.5]


def test_the_two_are_compared_on_the_same_days():
    error = errors_of(1.0, 3.0, 3.0, days=20)
    error[:10, 0], error[:10, 1:] = 50, np.nan
    assert shares(error, SPEAKING, INPUTS).tolist() == [1, 0, 0]
