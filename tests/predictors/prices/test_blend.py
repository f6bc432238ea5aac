"""The blend: it works from the first day on, and learns."""

import numpy as np
import pytest

from offpeak.predictors.prices.history import Past
from offpeak.predictors.prices.models import fit_blend

pytestmark = pytest.mark.quick


def past_with(price: np.ndarray) -> Past:
    days = len(price)
    return Past(0, price, np.ones(days, np.bool_), np.arange(days + 8) % 7)


@pytest.mark.parametrize("days", [1, 2, 3, 7, 30])
def test_a_constant_price_stays(days):
    past = past_with(np.full((days, 24), 74.0))
    np.testing.assert_allclose(fit_blend(past)(past), 74.0)


@pytest.mark.parametrize("days", [1, 2, 6, 7, 8, 29, 60])
def test_it_is_finite_and_among_what_was_seen(past, days):
    seen = past(days)
    coming = fit_blend(seen)(seen)
    assert coming.shape == (24,)
    assert (np.abs(coming - np.median(seen.price)) <= 1.5 * np.abs(seen.price - np.median(seen.price)).max() + 1).all()


def test_days_that_were_not_known_are_not_learned(past):
    seen = past(20)
    unknown = Past(0, seen.price, np.zeros(20, np.bool_), seen.kind)
    few = past_with(seen.price[:2])
    assert not np.array_equal(fit_blend(seen)(seen), fit_blend(unknown)(seen))
    assert np.isfinite(fit_blend(few)(few)).all()


def test_it_is_better_than_what_it_blends(past):
    year = past(200, noise=5.0)
    days = range(30, 200)
    wrong = [np.abs(fit_blend(year.until(d))(year.until(d)) - year.price[d]).mean() for d in days[::7]]
    naive = [np.abs(year.price[d - 1] - year.price[d]).mean() for d in days[::7]]
    assert np.mean(wrong) < 0.9 * np.mean(naive)
