"""The lasso: at its minimum no coefficient wants to move."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.prices.lear import lasso

pytestmark = pytest.mark.quick


def sample(seed: int, rows: int, features: int):
    random = np.random.default_rng(seed)
    x = random.normal(5, 2, (rows, features)) @ random.normal(0, 1, (features, features))
    y = x[:, :2] @ random.normal(0, 1, (2, 3)) + random.normal(0, 1, (rows, 3)) + 40
    return x, y, random.uniform(0.2, 1, rows)


@given(st.integers(0, 10**6), st.integers(15, 60), st.integers(2, 20), st.sampled_from([0.03, 0.1, 0.5]))
def test_at_the_minimum_no_coefficient_wants_to_move(seed, rows, features, penalty):
    x, y, weight = sample(seed, rows, features)
    slope, offset = lasso(x, y, weight, penalty)
    share = weight[:, None] / weight.sum()
    spread = np.sqrt((share * (x - (share * x).sum(axis=0)) ** 2).sum(axis=0))
    scaled = (x - (share * x).sum(axis=0)) / spread
    pull = scaled.T @ (share * (y - x @ slope - offset))
    allowed = penalty * np.abs(scaled.T @ (share * (y - (share * y).sum(axis=0)))).max(axis=0)
    assert (np.abs(pull) <= allowed + 0.02 * y.std()).all()
    moved = slope * spread[:, None]
    assert (np.abs(pull - np.sign(moved) * allowed)[moved != 0] < 0.02 * y.std()).all()


def test_the_whole_penalty_leaves_the_mean():
    x, y, weight = sample(1, 40, 6)
    slope, offset = lasso(x, y, weight, 1.0)
    assert np.abs(slope).max() < 1e-6
    np.testing.assert_allclose(offset, np.average(y, axis=0, weights=weight), rtol=1e-5)


def test_a_constant_feature_changes_nothing():
    x, y, weight = sample(2, 40, 6)
    slope, offset = lasso(x, y, weight, 0.1)
    wider, same = lasso(np.hstack([x, np.full((40, 1), 3.0)]), y, weight, 0.1)
    assert wider[6].tolist() == [0, 0, 0]
    np.testing.assert_allclose(wider[:6], slope, atol=1e-9)
    np.testing.assert_allclose(same, offset, atol=1e-9)


def test_a_row_without_weight_is_not_seen():
    x, y, weight = sample(3, 40, 6)
    weight[7] = 0.0
    slope, _ = lasso(x, y, weight, 0.1)
    y[7] = 1e6
    assert lasso(x, y, weight, 0.1)[0] == pytest.approx(slope)
