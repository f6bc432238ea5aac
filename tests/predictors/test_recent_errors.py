"""Quantiles from recent errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.port import LEVELS
from offpeak.predictors.recent_errors import PRIOR, WINDOW, ErrorsBySize, RecentErrors

pytestmark = pytest.mark.quick

errors = st.floats(-20, 20)


def test_it_begins_with_a_factor_of_its_prior():
    low, middle, high = RecentErrors().factors()
    assert (low, middle, high) == pytest.approx((math.exp(-0.9), 1.0, math.exp(0.9)))
    assert RecentErrors().shift() == 0


def test_errors_older_than_the_window_are_forgotten():
    recent = RecentErrors()
    for error in [3.0] * 50 + [0.5] * WINDOW:
        recent.add(error, 10 * error)
    assert recent.factors() == (math.exp(0.5),) * len(LEVELS)
    assert recent.shift() == pytest.approx(5)


def test_errors_that_came_soon_take_the_place_of_those_that_were_assumed():
    recent = RecentErrors()
    for _ in PRIOR:
        recent.add(0.2, 3.0)
    assert recent.factors() == (math.exp(0.2),) * len(LEVELS)
    assert recent.shift() == 3.0


@given(st.lists(errors, max_size=40))
def test_factors_rise_and_are_those_of_errors_that_were(came):
    recent = RecentErrors()
    for error in came:
        recent.add(error, 0.0)
    factors = recent.factors()
    assert list(factors) == sorted(factors)
    assert set(factors) <= {math.exp(error) for error in (*PRIOR, *came)}


def test_four_fifths_of_what_comes_lie_between_the_outer_quantiles():
    rng = np.random.default_rng(1)
    recent, inside = RecentErrors(), 0
    for error in rng.normal(0.3, 2.0, 4000).tolist():
        low, _, high = recent.factors()
        inside += low <= math.exp(error) <= high
        recent.add(error, 0.0)
    assert inside / 4000 == pytest.approx(0.8, abs=0.02)


def test_small_and_large_predictions_are_judged_apart():
    by_size = ErrorsBySize((0.1,))
    for _ in range(WINDOW):
        by_size.add(0.05, 0.1)
        by_size.add(0.5, 0.25)
    assert by_size.corrected(0.01) == pytest.approx((0.06, 0.02, 0.02, 0.02))
    assert by_size.corrected(0.8) == pytest.approx((0.55, 0.4, 0.4, 0.4))


def test_zero_values_give_finite_factors():
    by_size = ErrorsBySize(())
    by_size.add(0.0, 0.0)
    by_size.add(1.0, 0.0)
    assert all(math.isfinite(value) for value in by_size.corrected(1.0))
