"""LEAR: it finds a rule that hours follow, and stays near what was ever seen."""

import numpy as np
import pytest

from offpeak.predictors.prices.history import Past
from offpeak.predictors.prices.lear import Lear

RECIPES = [Lear(), Lear(days=84), Lear(half_life_days=60), Lear(penalty=0.05, level_days=7), Lear(level_days=1)]


@pytest.mark.parametrize("recipe", RECIPES)
def test_lear_beats_the_prices_of_last_week(past, recipe):
    year = past(200)
    days = range(120, 200, 8)
    wrong = np.mean([np.abs(recipe.fit(year.until(d))(year.until(d)) - year.price[d]).mean() for d in days])
    naive = np.mean([np.abs(year.price[d - 7] - year.price[d]).mean() for d in days])
    assert wrong < 0.8 * naive


@pytest.mark.parametrize("recipe", RECIPES)
def test_lear_learns_that_the_evening_sets_the_next_day(recipe):
    random = np.random.default_rng(3)
    price = random.normal(50, 10, (200, 24))
    price[1:, :20] = 0.8 * price[:-1, 23:] + 10 + random.normal(0, 0.5, (199, 20))
    past = Past(0, price[:199], np.ones(199, np.bool_), np.arange(208) % 7)
    assert np.abs(recipe.fit(past)(past)[:20] - price[199, :20]).mean() < 3


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_constant_price_stays(recipe):
    past = Past(0, np.full((60, 24), 74.0), np.ones(60, np.bool_), np.arange(68) % 7)
    np.testing.assert_allclose(recipe.fit(past)(past), 74.0)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_week_that_nobody_has_seen_does_not_run_away(past, recipe):
    seen = past(100)
    model = recipe.fit(seen)
    wild = Past(0, np.vstack([seen.price, np.full((7, 24), 1e6)]), np.ones(107, np.bool_), np.arange(115) % 7)
    coming = model(wild)
    assert np.isfinite(coming).all()
    assert coming.max() < 2 * seen.price.max()


def test_days_with_gaps_are_not_learned(past):
    seen = past(100)
    price, known = seen.price.copy(), seen.known.copy()
    known[50] = False
    before = Lear().fit(Past(0, price, known, seen.kind))(seen)
    price[50] += 0.001
    np.testing.assert_allclose(Lear().fit(Past(0, price, known, seen.kind))(seen), before, atol=0.01)
