"""LEAR: for each hour of the coming day a lasso over all hours of the days before it, and of inputs for the day itself.

Source: Uniejewski, Nowotarski, Weron, "Automated variable selection and shrinkage for day-ahead electricity price
forecasting", Energies 9(8), 2016; Lago, Marcjasz, De Schutter, Weron, Applied Energy 293, 2021. The published model
selects its penalty by an information criterion each day, which overfits windows as short as the number of features;
here it is a fixed share of the penalty under which no feature is left.

The lasso has several targets that share their features, solved at once by the method of multipliers. Source: Boyd,
Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning via the alternating direction method
of multipliers", Foundations and Trends in Machine Learning 3(1), 2011, section 6.4. Prices and inputs are scaled so
that a spike is no outlier: distance from the median, logarithmic beyond the usual.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.predictors.prices.history import SUNDAY, Past

# The median absolute deviation of a normal distribution in standard deviations.
NORMAL_MAD = 0.6745


@dataclass(frozen=True)
class PriceScale:
    """A price is `middle` + `spread` * x; x is squeezed to sign(x) ln(1 + |x|/3).

    Source: the mirror-log of Uniejewski, Weron, Ziel, "Variance stabilizing transformations for electricity spot price
    forecasting", IEEE Transactions on Power Systems 33(2), 2018, with c = 1/3.
    """

    middle: float
    spread: float

    def squeeze(self, price: Float64) -> Float64:
        """Return the prices on the squeezed scale, any shape."""
        x = (price - self.middle) / self.spread
        return np.sign(x) * np.log1p(np.abs(x) / 3)

    def widen(self, squeezed: Float64) -> Float64:
        """Reverse `squeeze`."""
        return self.middle + self.spread * np.sign(squeezed) * 3 * np.expm1(np.abs(squeezed))


def fit_scale(price: Float64) -> PriceScale:
    """Return the scale of these prices; that of their standard deviation, or 1, where most of them are the same."""
    middle = float(np.median(price))
    spread = float(np.median(np.abs(price - middle))) / NORMAL_MAD
    # A spread that is tiny compared with the prices is the rounding of a constant.
    least = 1e-6 * (1.0 + abs(middle))
    return PriceScale(middle, next((wide for wide in (spread, float(price.std())) if wide > least), 1.0))


# The step between the two halves of the method; features are scaled to a mean square of 1, so it need not adapt.
STEP = 1.0
ROUNDS = 300
CLOSE = 5e-4


def lasso(x: Float64, y: Float64, weight: Float64, penalty: float) -> tuple[Float64, Float64]:
    """Return slopes float64[features, targets] and offsets float64[targets], such that y is about x @ slopes + offsets.

    `x` is [rows, features], `y` [rows, targets], `weight` [rows]. Features are scaled before they are penalised;
    `penalty` is a share of the one that would leave no feature, of each target. A constant feature gets slope 0.
    """
    share = weight[:, None] / weight.sum()
    x_mean, y_mean = (share * x).sum(axis=0), (share * y).sum(axis=0)
    spread = np.sqrt((share * (x - x_mean) ** 2).sum(axis=0))
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-9)
    scaled = (x - x_mean) * unit
    together = scaled.T @ (share * (y - y_mean))
    slope = unit[:, None] * _sparse(scaled.T @ (share * scaled), together, penalty * np.abs(together).max(axis=0))
    return slope, y_mean - x_mean @ slope


def _sparse(gram: Float64, together: Float64, penalty: Float64) -> Float64:
    inverse = np.linalg.inv(gram + STEP * np.eye(len(gram)))
    sparse, dual = np.zeros_like(together), np.zeros_like(together)
    for _ in range(ROUNDS):
        before = sparse
        smooth = inverse @ (together + STEP * (sparse - dual))
        moved = smooth + dual
        sparse = np.sign(moved) * np.maximum(np.abs(moved) - penalty / STEP, 0.0)
        dual = moved - sparse
        if max(np.abs(sparse - before).max(), np.abs(smooth - sparse).max()) < CLOSE:
            break
    return sparse


LAGS = (1, 2, 3, 7)
# Of the inputs, which are known for the coming day.
INPUT_LAGS = (0, 1, 7)
# Fewer days than that say little of an input.
INPUT_DAYS = 42
# How far a forecast may exceed the observed range, as a share of it.
BEYOND = 0.1


@dataclass(frozen=True)
class Lear:
    """How to learn: from `days` days at most, one `half_life_days` ago counting half, with that share of penalty.

    If `level_days` is above 0, prices are relative to the mean of so many previous days, at most seven, so that the
    model applies to other price levels. With `inputs`, days without any known are NaN.
    """

    days: int = 728
    half_life_days: float = np.inf
    penalty: float = 0.03
    level_days: int = 0
    inputs: bool = False

    def fit(self, past: Past) -> Callable[[Past], Float64]:
        """Return what forecasts the 24 prices after a past; this one has a known day after its first week."""
        if not self.inputs:
            return self._fit(past, ())
        models = dict[tuple[int, ...], Callable[[Past], Float64]]()

        def coming(now: Past) -> Float64:
            which = self._inputs_of_day(past, now)
            if which not in models:
                models[which] = self._fit(past, which) if which else lambda _: np.full(24, np.nan)
            return models[which](now)

        return coming

    def _first(self, past: Past) -> int:
        return max(len(past) - self.days, max(LAGS))

    def _inputs_of_day(self, past: Past, now: Past) -> tuple[int, ...]:
        """Return the inputs that are known for the day after `now` and for enough days to learn from."""
        known = now.inputs_known()
        if len(known) <= len(now):
            return ()
        enough = known[self._first(past) : len(past)].sum(axis=0) >= INPUT_DAYS
        return tuple(np.flatnonzero(enough & known[len(now)]).tolist())

    def _fit(self, past: Past, which: tuple[int, ...]) -> Callable[[Past], Float64]:
        first = self._first(past)
        scales = [
            fit_scale(each[~np.isnan(each).any(axis=1)])
            for each in (past.inputs[first : len(past), at] for at in which)
        ]
        seen = past.price[first - max(LAGS) :]
        scale = fit_scale(seen)
        squeezed = scale.squeeze(past.price)
        target = first + np.flatnonzero(past.known[first:])
        weight = 0.5 ** ((len(past) - target) / self.half_life_days)
        inputs = _scaled_inputs(past.inputs[: len(past)], which, scales)
        x, level = self._features(squeezed, past.kind, target, inputs)
        slope, offset = lasso(x, squeezed[target] - level, weight, self.penalty)
        lowest, highest = _limits(scale.squeeze(seen))

        def coming(now: Past) -> Float64:
            # The features use only the last week of the past.
            week = scale.squeeze(now.price[-max(LAGS) :])
            days = slice(len(now) - max(LAGS), len(now) + 1)
            inputs = _scaled_inputs(now.inputs[days], which, scales)
            row, base = self._features(week, now.kind[days], np.array([max(LAGS)]), inputs)
            return scale.widen(np.clip(base[0] + row[0] @ slope + offset, lowest, highest))

        return coming

    def _features(self, squeezed: Float64, kind: Int64, day: Int64, inputs: Float64) -> tuple[Float64, Float64]:
        before = [squeezed[day - lag] for lag in range(1, self.level_days + 1)]
        level = np.mean(before, axis=(0, 2))[:, None] if before else np.zeros((len(day), 1))
        lagged = [squeezed[day - lag] - level for lag in LAGS]
        # A week or a day that follows a holiday has prices to go by that are lower than they would have been.
        after_rest = np.stack([kind[day - 1], kind[day - 7]], axis=1) == SUNDAY
        forecast = [inputs[day - lag] for lag in INPUT_LAGS] if inputs.size else []
        return np.hstack([*lagged, *forecast, level, np.eye(7)[kind[day]], after_rest]), level


def _scaled_inputs(value: Float64, which: tuple[int, ...], scales: Sequence[PriceScale]) -> Float64:
    """Return the features of each day, float64[days, 24 * inputs]; 0, the median, where one is not known."""
    each = [scale.squeeze(value[:, at]) for at, scale in zip(which, scales, strict=True)]
    return np.nan_to_num(np.hstack(each)) if each else np.empty((0, 0))


def _limits(squeezed: Float64) -> tuple[float, float]:
    lowest, highest = float(squeezed.min()), float(squeezed.max())
    room = BEYOND * (highest - lowest)
    return lowest - room, highest + room
