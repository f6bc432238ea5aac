"""What costs nothing to know: yesterday's prices, those of a week ago, the week's mean. Others must be better."""

import numpy as np

from offpeak.model.arrays import Float64
from predictors.prices.past import Past

WEEK = 7


def yesterday(past: Past) -> Float64:
    """Return the prices of the day before, float64[24]."""
    return np.asarray(past.price[-1])


def last_week(past: Past) -> Float64:
    """Return the prices of the same day a week before, float64[24]; the day before's while there is no week yet."""
    return np.asarray(past.price[-WEEK if len(past) >= WEEK else -1])


def week_mean(past: Past) -> Float64:
    """Return the mean of each hour over the last seven days, or as many as there are, float64[24]."""
    return np.asarray(past.price[-WEEK:].mean(axis=0))
