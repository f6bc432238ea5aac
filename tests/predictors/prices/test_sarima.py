"""SARIMA on three days."""

import sys

import numpy as np
import pytest

from offpeak.errors import BadInput
from predictors.prices.past import Past
from predictors.prices.sarima import sarima


def past_with(price: np.ndarray) -> Past:
    return Past(0, price, np.ones(len(price), np.bool_), np.arange(len(price) + 8) % 7)


def test_a_daily_course_goes_on():
    day = 40 + 10 * np.sin(2 * np.pi * np.arange(24) / 24)
    random = np.random.default_rng(1)
    past = past_with(day + random.normal(0, 0.5, (3, 24)))
    assert np.abs(sarima(past) - day).mean() < 3


@pytest.mark.parametrize("days", [1, 3])
def test_a_constant_price_stays(days):
    np.testing.assert_allclose(sarima(past_with(np.full((days, 24), 74.0))), 74.0)


def test_without_statsmodels_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.statespace.sarimax", None)
    with pytest.raises(BadInput, match="statsmodels") as problem:
        sarima(past_with(np.full((3, 24), 74.0)))
    assert "pip install" in problem.value.hint
