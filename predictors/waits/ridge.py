"""Ridge regression on a few features: least squares whose coefficients are kept small."""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64

PENALTY = 0.1


@kernel
def ridge_at(rows: Float64, value: Float64, asked: Float64) -> float:
    """Return what a ridge regression of `value` on the standardised features of `rows` says of `asked`."""
    standard, mean, deviation = _standardised(rows)
    middle = value.mean()
    products, towards = _normal_equations(standard, value - middle)
    coefficient = solved(products, towards)
    return float(middle + (coefficient * (asked - mean) / deviation).sum())


@kernel
def _standardised(rows: Float64) -> tuple[Float64, Float64, Float64]:
    """Return the rows with columns of mean 0 and deviation 1, and what the means and deviations were."""
    mean, deviation = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    standard = rows.copy()
    for feature in range(rows.shape[1]):
        mean[feature] = rows[:, feature].mean()
        spread = rows[:, feature].std()
        if spread > 0:
            deviation[feature] = spread
        standard[:, feature] = (rows[:, feature] - mean[feature]) / deviation[feature]
    return standard, mean, deviation


@kernel
def _normal_equations(standard: Float64, value: Float64) -> tuple[Float64, Float64]:
    """Return the penalised matrix of products, its lower half, and the right-hand side."""
    width = standard.shape[1]
    products, towards = PENALTY * np.eye(width), np.zeros(width)
    for number in range(len(standard)):
        for feature in range(width):
            towards[feature] += standard[number, feature] * value[number]
            for other in range(feature + 1):
                products[feature, other] += standard[number, feature] * standard[number, other]
    return products, towards


@kernel
def solved(lower: Float64, towards: Float64) -> Float64:
    """Return x of A x = `towards` by Cholesky's factors; of A, positive definite, the lower half is overwritten."""
    width = len(towards)
    x = towards.copy()
    for row in range(width):
        for column in range(row + 1):
            left = lower[row, column] - (lower[row, :column] * lower[column, :column]).sum()
            lower[row, column] = np.sqrt(left) if row == column else left / lower[column, column]
        x[row] = (x[row] - (lower[row, :row] * x[:row]).sum()) / lower[row, row]
    for row in range(width - 1, -1, -1):
        x[row] = (x[row] - (lower[row + 1 :, row] * x[row + 1 :]).sum()) / lower[row, row]
    return x
