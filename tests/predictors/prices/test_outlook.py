"""The coming days from a past: the same whether its errors were made up for or gathered day by day."""

import numpy as np
import pytest

from offpeak.errors import BadPrices
from offpeak.predictors.prices.models import BLEND, LAST_WEEK, LEAR, WEEK_MEAN, YESTERDAY
from offpeak.predictors.prices.outlook import AHEAD_DAYS, TRACKED_DAYS, look_ahead
from offpeak.text import counted

FEW = (YESTERDAY, LAST_WEEK, WEEK_MEAN, BLEND, LEAR)


def test_gathered_day_by_day_is_the_same_as_made_up_for(past):
    months = past(60)
    track = {}
    for days in range(20, 61):
        outlook = look_ahead(months.until(days), FEW, track)
        track = outlook.track
    at_once = look_ahead(months, FEW, {})
    np.testing.assert_allclose(outlook.price, at_once.price)
    np.testing.assert_allclose(outlook.errors[0], at_once.errors[0])
    assert outlook.basis == at_once.basis
    assert len(track) == TRACKED_DAYS + 1


@pytest.mark.parametrize("days", [1, 2, 3, 7, 50])
def test_it_is_finite_from_the_first_day_on(past, days):
    outlook = look_ahead(past(days), FEW, {})
    assert outlook.price.shape == (AHEAD_DAYS, 24)
    assert np.isfinite(outlook.price).all()
    assert len(outlook.errors[0]) == min(max(days - 1, 1), TRACKED_DAYS)
    assert all(counted(days, "day") in basis for basis in outlook.basis)


def test_a_past_too_short_for_every_member_is_reported(past):
    with pytest.raises(BadPrices, match="LEAR needs 42 whole days of prices, and 10 are known"):
        look_ahead(past(10), (LEAR,), {})
