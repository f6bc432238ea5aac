"""The lasso of several targets that share their features, all at once, by the method of multipliers.

Source: Boyd, Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning via the alternating
direction method of multipliers", Foundations and Trends in Machine Learning 3(1), 2011, section 6.4.
"""

import numpy as np

from offpeak.model.arrays import Float64

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
        sparse = _shrunk(smooth + dual, penalty / STEP)
        dual = dual + smooth - sparse
        if max(np.abs(sparse - before).max(), np.abs(smooth - sparse).max()) < CLOSE:
            break
    return sparse


def _shrunk(value: Float64, by: Float64) -> Float64:
    return np.sign(value) * np.maximum(np.abs(value) - by, 0.0)
