"""Intervals from past errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from offpeak.predictors.prices.outlook import error_offsets

pytestmark = pytest.mark.quick

ERRORS = arrays(np.float64, st.tuples(st.integers(0, 30), st.just(24)), elements=st.floats(-1e3, 1e3))


@given(ERRORS, st.integers(1, 7))
def test_quantiles_rise(error, ahead):
    offset = error_offsets(error, ahead=ahead)
    assert offset.shape == (24, 3)
    assert (np.diff(offset, axis=1) >= 0).all()


def test_at_least_four_of_five_errors_of_the_same_kind_lie_inside():
    random = np.random.default_rng(4)
    hour = 1 + np.arange(24) / 6
    offset = error_offsets(random.laplace(0, hour, (28, 24)), ahead=1)
    coming = random.laplace(0, hour, (400, 24))
    inside = (coming >= offset[:, 0]) & (coming <= offset[:, 2])
    assert 0.8 < inside.mean() < 0.9
    assert offset[23, 2] > 2 * offset[0, 2]


def test_further_ahead_is_less_certain():
    error = np.random.default_rng(5).normal(0, 1, (28, 24))
    one, three = error_offsets(error, ahead=1), error_offsets(error, ahead=3)
    assert (three[:, 2] - three[:, 0] > one[:, 2] - one[:, 0]).all()


def test_one_sided_errors_move_the_interval():
    assert error_offsets(np.full((28, 24), 2.0), ahead=1) == pytest.approx(2.0)


def test_half_of_what_errors_lean_to_one_side_goes_on():
    error = np.repeat(np.random.default_rng(6).normal(3, 10, (28, 1)), 24, axis=1)
    np.testing.assert_allclose(error_offsets(error, ahead=1)[:, 1], np.median(error) / 2)


def covered(error: np.ndarray) -> float:
    """Return how much of 1,000 usual days lies inside the interval after such errors."""
    offset, coming = error_offsets(error, ahead=1), usual_days(1000, seed=9)
    return float(((coming >= offset[:, 0]) & (coming <= offset[:, 2])).mean())


def usual_days(days: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(0, 7, (days, 1)) + random.normal(0, 7, (days, 24))


@pytest.mark.parametrize(("at", "spike"), [(7, 300), (7, 1000), (15, 300), (20, 5000)])
def test_a_day_of_spikes_does_not_make_the_usual_days_look_calm(at, spike):
    found = []
    for seed in range(20):
        error = usual_days(28, seed)
        error[at] += spike
        found.append(covered(error))
    assert np.mean(found) > 0.8


def test_the_interval_follows_the_last_days():
    width = [np.ptp(error_offsets(usual_days(28, 1) * size[:, None], ahead=1)[:, [0, 2]]) for size in ramps()]
    assert width[1] > 1.3 * width[0]


def ramps() -> list[np.ndarray]:
    """Return errors that shrink, and the same that grow."""
    size = np.linspace(2, 1, 28)
    return [size, size[::-1]]


def test_without_errors_there_is_no_width():
    assert (error_offsets(np.zeros((28, 24)), ahead=1) == 0).all()
