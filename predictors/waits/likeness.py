"""How unlike two jobs are: the Manhattan distance of their features, each in shares of its range."""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64


@kernel
def scales(rows: Float64, wait_s: Float64) -> Float64:
    """Return by what to multiply the differences of each feature, float64[width].

    That is the absolute correlation with the wait over the range; the distance of any two of `rows` is then 1 at most.
    """
    width = rows.shape[1]
    scale = np.zeros(width)
    weight = np.zeros(width)
    off_s = wait_s - wait_s.mean()
    for feature in range(width):
        # A column that lies in one piece is read several times faster.
        column = rows[:, feature].copy()
        extent = column.max() - column.min()
        if extent > 0:
            weight[feature] = _correlation(column - column.mean(), off_s)
            scale[feature] = weight[feature] / extent
    return scale / weight.sum() if weight.sum() > 0 else scale


@kernel
def _correlation(x: Float64, y: Float64) -> float:
    """Return the absolute correlation of two columns of mean 0; 0 where one of them is constant."""
    product = x_square = y_square = 0.0
    for row in range(len(x)):
        product += x[row] * y[row]
        x_square += x[row] * x[row]
        y_square += y[row] * y[row]
    both = np.sqrt(x_square * y_square)
    return float(abs(product) / both) if both > 0 else 0.0


@kernel
def distances(rows: Float64, scale: Float64, asked: Float64) -> Float64:
    """Return the root of the scaled Manhattan distance of each row from `asked`, float64[n]."""
    distance = np.zeros(len(rows))
    for number in range(len(rows)):
        for feature in range(len(scale)):
            distance[number] += scale[feature] * abs(rows[number, feature] - asked[feature])
        distance[number] = np.sqrt(distance[number])
    return distance
