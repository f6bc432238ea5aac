"""SARIMA on the last days."""

import sys

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.predictors.prices.history import Past
from offpeak.predictors.prices.models import Sarima


def past_with(price: np.ndarray) -> Past:
    return Past(0, price, np.ones(len(price), np.bool_), np.arange(len(price) + 8) % 7)


@pytest.fixture(scope="module")
def day() -> np.ndarray:
    return 40 + 10 * np.sin(2 * np.pi * np.arange(24) / 24)


@pytest.fixture(scope="module")
def past(day) -> Past:
    return past_with(day + np.random.default_rng(1).normal(0, 0.5, (3, 24)))


def test_a_daily_course_goes_on(past, day):
    assert np.abs(Sarima().fit(past)(past) - day).mean() < 3


def test_it_goes_on_from_other_days_than_it_learned(past, day):
    twice = past_with(2 * past.price + 7)
    np.testing.assert_allclose(Sarima().fit(past)(twice), 2 * Sarima().fit(past)(past) + 7)
    further = past.followed_by(Sarima().fit(past)(past))
    assert np.abs(Sarima().fit(past)(further) - day).mean() < 3


@pytest.mark.parametrize("days", [1, 3])
def test_a_constant_price_stays(days):
    past = past_with(np.full((days, 24), 74.0))
    np.testing.assert_allclose(Sarima().fit(past)(past), 74.0)


def test_more_days_tell_more(day):
    past = past_with(day + np.random.default_rng(1).normal(0, 3, (14, 24)))
    short, long = (np.abs(Sarima(days).fit(past)(past) - day).mean() for days in (3, 14))
    assert long < short


def test_without_statsmodels_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.statespace.sarimax", None)
    with pytest.raises(BadInput, match="statsmodels") as problem:
        Sarima().fit(past_with(np.full((3, 24), 74.0)))
    assert "pip install" in problem.value.hint
