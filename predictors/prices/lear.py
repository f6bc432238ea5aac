"""LEAR: for each hour of the coming day a lasso over all hours of the days before it.

Source: Uniejewski, Nowotarski, Weron, "Automated variable selection and shrinkage for day-ahead electricity price
forecasting", Energies 9(8), 2016; Lago, Marcjasz, De Schutter, Weron, Applied Energy 293, 2021. Theirs picks its
penalty by an information criterion each day, which overfits windows as short as its number of features; ours is a fixed
share of the penalty under which no feature is left.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from predictors.prices.lasso import lasso
from predictors.prices.past import SUNDAY, Past
from predictors.prices.scale import scale_of

LAGS = (1, 2, 3, 7)
# How far beyond what was ever seen a forecast may go, as a share of what was.
BEYOND = 0.1


@dataclass(frozen=True)
class Lear:
    """How to learn: from `days` days at most, one `half_life_days` ago counting half, with that share of penalty.

    Where `level_days` is above 0, prices count from the mean of so many days before, at most seven: what was learned
    at one level of prices then holds at another.
    """

    days: int = 728
    half_life_days: float = np.inf
    penalty: float = 0.03
    level_days: int = 0

    def fit(self, past: Past) -> Callable[[Past], Float64]:
        """Return what forecasts the 24 prices after a past; this one has a known day after its first week."""
        first = max(len(past) - self.days, max(LAGS))
        seen = past.price[first - max(LAGS) :]
        scale = scale_of(seen)
        squeezed = scale.squeeze(past.price)
        target = first + np.flatnonzero(past.known[first:])
        weight = 0.5 ** ((len(past) - target) / self.half_life_days)
        x, level = self._features(squeezed, past.kind, target)
        slope, offset = lasso(x, squeezed[target] - level, weight, self.penalty)
        lowest, highest = _limits(scale.squeeze(seen))

        def coming(now: Past) -> Float64:
            # Of the past only its last week is looked at.
            week = scale.squeeze(now.price[-max(LAGS) :])
            row, base = self._features(week, now.kind[len(now) - max(LAGS) :], np.array([max(LAGS)]))
            return scale.widen(np.clip(base[0] + row[0] @ slope + offset, lowest, highest))

        return coming

    def _features(self, squeezed: Float64, kind: Int64, day: Int64) -> tuple[Float64, Float64]:
        before = [squeezed[day - lag] for lag in range(1, self.level_days + 1)]
        level = np.mean(before, axis=(0, 2))[:, None] if before else np.zeros((len(day), 1))
        lagged = [squeezed[day - lag] - level for lag in LAGS]
        # A week or a day that follows a holiday has prices to go by that are lower than they would have been.
        after_rest = np.stack([kind[day - 1], kind[day - 7]], axis=1) == SUNDAY
        return np.hstack([*lagged, level, np.eye(7)[kind[day]], after_rest]), level


def _limits(squeezed: Float64) -> tuple[float, float]:
    lowest, highest = float(squeezed.min()), float(squeezed.max())
    room = BEYOND * (highest - lowest)
    return lowest - room, highest + room
