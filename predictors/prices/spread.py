"""How wrong a forecast may be: quantiles of its own last errors, scaled by what each hour's were.

A split conformal interval on a sliding window, by hour: no distribution is assumed, and it widens and narrows as the
errors do. Source of the idea: Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005.
"""

import numpy as np

from offpeak.model.arrays import Float64
from predictors.port import LEVELS, MEDIAN

# An hour's own mean error counts as much as that of all hours together while it rests on so many days.
POOLED_DAYS = 7
# The errors of a day grow with this power of how many days ahead it is.
GROWTH = 0.4
# Of what the last errors lean to one side, so much goes on: the best share over the first years of five markets.
LEAN = 0.5


def offsets(error: Float64, *, ahead: int) -> Float64:
    """Return what to add to a day's forecast for each of LEVELS, float64[24, len(LEVELS)], rising along each row.

    `error` float64[days, 24] is price less forecast of the last days; `ahead` is 1 for the coming day.
    """
    if len(error) == 0:
        return np.zeros((24, len(LEVELS)))
    size = np.abs(error)
    scale = (size.sum(axis=0) + POOLED_DAYS * size.mean()) / (len(error) + POOLED_DAYS)
    relative = error / np.maximum(scale, 1e-9)
    quantile = np.quantile(relative, [_conformal(level, len(error)) for level in LEVELS])
    quantile[MEDIAN] = np.clip(LEAN * quantile[MEDIAN], quantile[0], quantile[-1])
    return np.asarray(scale[:, None] * quantile * ahead**GROWTH)


def _conformal(level: float, days: int) -> float:
    # The coming error is as likely to fall into any gap between the past ones or beyond them. The hours of a day err
    # together, so there are as many errors as days.
    return float(np.clip((level * (days + 1) - 1) / max(days - 1, 1), 0.0, 1.0))
