"""What costs nothing to know."""

import numpy as np

from offpeak.predictors.prices.models import last_week, week_mean, yesterday


def test_each_returns_what_its_name_says(past):
    ten = past(10)
    np.testing.assert_array_equal(yesterday(ten), ten.price[9])
    np.testing.assert_array_equal(last_week(ten), ten.price[3])
    np.testing.assert_allclose(week_mean(ten), ten.price[3:].mean(axis=0))


def test_before_there_is_a_week(past):
    three = past(3)
    np.testing.assert_array_equal(last_week(three), three.price[2])
    np.testing.assert_allclose(week_mean(three), three.price.mean(axis=0))
