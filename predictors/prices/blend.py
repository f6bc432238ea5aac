"""A blend of yesterday, last week and the week's mean, for the first weeks: it trusts the data as they become more.

Five coefficients for all hours, by a ridge regression whose penalty pulls towards plausible coefficients, not to zero.
"""

from collections.abc import Callable

import numpy as np

from offpeak.model.arrays import Float64
from predictors.prices.past import Past
from predictors.prices.scale import scale_of

WEEK = 7
LEARNED_DAYS = 28
# Of the distances to the week's mean: yesterday's hour, the day before's, last week's, yesterday's level and evening.
PLAUSIBLE = np.array([0.4, 0.0, 0.2, 0.0, 0.1])
# As many days of data weigh as much as what is plausible.
TRUST_DAYS = 30
EVENING = 20


def fit_blend(past: Past) -> Callable[[Past], Float64]:
    """Return what forecasts the 24 prices after a past, having learned from the last four weeks of this one."""
    scale = scale_of(past.price[-LEARNED_DAYS:])
    squeezed = scale.squeeze(past.price)
    days = range(max(2, len(past) - LEARNED_DAYS), len(past))
    rows = [_distances(squeezed[:day]) for day in days if past.known[day]]
    targets = [squeezed[day] - _week_mean(squeezed[:day]) for day in days if past.known[day]]
    share = _pulled(np.vstack(rows), np.concatenate(targets)) if rows else PLAUSIBLE

    def coming(now: Past) -> Float64:
        week = scale.squeeze(now.price[-WEEK:])
        return scale.widen(_week_mean(week) + _distances(week) @ share)

    return coming


def _pulled(x: Float64, y: Float64) -> Float64:
    pull = TRUST_DAYS * 24 * (np.mean(x**2) + 1e-9)
    solved = np.linalg.solve(x.T @ x + pull * np.eye(x.shape[1]), x.T @ (y - x @ PLAUSIBLE))
    return np.asarray(PLAUSIBLE + solved)


def _week_mean(squeezed: Float64) -> Float64:
    return np.asarray(squeezed[-WEEK:].mean(axis=0))


def _distances(squeezed: Float64) -> Float64:
    mean = _week_mean(squeezed)
    yesterday = squeezed[-1] - mean
    before = squeezed[max(-2, -len(squeezed))] - mean
    week_ago = squeezed[-WEEK] - mean if len(squeezed) >= WEEK else np.zeros(24)
    level, evening = np.full(24, yesterday.mean()), np.full(24, yesterday[EVENING:].mean())
    return np.stack([yesterday, before, week_ago, level, evening], axis=1)
