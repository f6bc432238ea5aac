"""The squeezed scale: there and back, rising, and of any prices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from offpeak.predictors.prices.lear import fit_scale

pytestmark = pytest.mark.quick

SOME_PRICES = arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e4, 1e4))


@given(SOME_PRICES)
def test_price_scale_is_invertible(price):
    scale = fit_scale(price)
    np.testing.assert_allclose(scale.widen(scale.squeeze(price)), price, rtol=1e-6, atol=1e-6)


@given(SOME_PRICES)
def test_a_dearer_hour_is_never_lower(price):
    ordered = np.sort(price)
    assert (np.diff(fit_scale(price).squeeze(ordered)) >= 0).all()


def test_a_spike_is_squeezed():
    price = np.append(np.linspace(20, 60, 100), 3000.0)
    assert fit_scale(price).squeeze(price).max() < 5
