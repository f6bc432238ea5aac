"""How wrong predictions were, in the measures of the field."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64
from predictors.port import LEVELS, MEDIAN, Prediction

HOUR_S = 3600.0


@dataclass(frozen=True)
class Score:
    """`count` predictions against what came, y. NaN is a measure that has nothing to measure.

    The median m is judged by absolute error and the mean f by squared error, because these are what each minimises
    (Gneiting, "Making and evaluating point forecasts", JASA 106, 2011). A point prediction has m = f.

    * `mae`: mean |y - m|; the papers on waits call it average absolute error.
    * `rmse`: square root of the mean of (y - f)^2.
    * `percentage_error`: 100 x mean |y - m| / y over y > 0 (PPE of Murali and Vadhiyar, 2018).
    * `pinball`: for each level q of LEVELS and its quantile x the mean of max(q (y - x), (q - 1) (y - x))
      (Koenker and Bassett, "Regression quantiles", Econometrica 46, 1978).
    * `coverage`: share of y from the lowest to the highest quantile, both included; 0.8 is right.
    * `close_share`: share of |y - m| up to an hour, or to the distance that `score_of` was told.
    * `relative_mae`: mae / mae of the naive predictor on the same questions (Hyndman and Koehler, "Another look at
      measures of forecast accuracy", Int. J. Forecasting 22, 2006).
    """

    count: int
    mae: float
    rmse: float
    percentage_error: float
    pinball: tuple[float, ...]
    coverage: float
    close_share: float
    relative_mae: float


def score_of(actual: Float64, given: Prediction, *, naive: Prediction | None = None, close: float = HOUR_S) -> Score:
    """Return the score of the predictions `given` for `actual` float64[n], leaving out where `actual` is NaN.

    Without `naive` nothing is said of the relative error.
    """
    known = np.isfinite(actual)
    y, quantiles = actual[known], given.quantiles[known]
    error = np.abs(y - quantiles[:, MEDIAN])
    naive_mae = _mean(np.abs(y - naive.quantiles[known, MEDIAN])) if naive else float("nan")
    return Score(
        count=len(y),
        mae=_mean(error),
        rmse=float(np.sqrt(_mean((y - given.mean[known]) ** 2))),
        percentage_error=100 * _mean(error[y > 0] / y[y > 0]),
        pinball=tuple(pinball(y, x, level) for x, level in zip(quantiles.T, LEVELS, strict=True)),
        coverage=_mean((quantiles[:, 0] <= y) & (y <= quantiles[:, -1])),
        close_share=_mean(error <= close),
        relative_mae=_ratio(_mean(error), naive_mae),
    )


def pinball(actual: Float64, quantile: Float64, level: float) -> float:
    """Return the mean pinball loss of a quantile, both float64[n]."""
    above = actual - quantile
    return _mean(np.maximum(level * above, (level - 1) * above))


def _mean(values: Float64 | NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _ratio(mae: float, naive_mae: float) -> float:
    return mae / naive_mae if naive_mae > 0 else float("nan")
