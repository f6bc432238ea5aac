"""Ridge regression is what the textbook's formula says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.waits.similar_jobs import PENALTY, ridge_at


def random_rows(seed):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(12, 3)) * [1, 50, 1e4], generator.normal(size=12) * 1000, generator.normal(size=3)


@given(st.integers(0, 10**6))
def test_ridge_regression_equals_the_formula(seed):
    rows, value, requests = random_rows(seed)
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    coefficient = np.linalg.solve(standard.T @ standard + PENALTY * np.eye(3), standard.T @ (value - value.mean()))
    expected = value.mean() + ((requests - rows.mean(axis=0)) / rows.std(axis=0)) @ coefficient
    assert ridge_at(rows, value, requests) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_a_constant_feature_says_nothing():
    rows = np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    value = np.array([10.0, 20.0, 30.0])
    assert ridge_at(rows, value, np.array([2.0, 99.0])) == pytest.approx(20)
