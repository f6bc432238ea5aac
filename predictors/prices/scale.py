"""Prices on a scale on which a spike is no outlier: distance from the median, logarithmic beyond the usual."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64

# Of a normal distribution the median of the absolute deviations is so many standard deviations.
NORMAL_MAD = 0.6745


@dataclass(frozen=True)
class Scale:
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
        """Return the prices of what `squeeze` returned."""
        return self.middle + self.spread * np.sign(squeezed) * 3 * np.expm1(np.abs(squeezed))


def scale_of(price: Float64) -> Scale:
    """Return the scale of these prices; that of their standard deviation, or 1, where most of them are the same."""
    middle = float(np.median(price))
    spread = float(np.median(np.abs(price - middle))) / NORMAL_MAD
    # A spread that is nothing beside the prices is the rounding of a constant.
    least = 1e-6 * (1.0 + abs(middle))
    return Scale(middle, next((wide for wide in (spread, float(price.std())) if wide > least), 1.0))
