"""Greedy against Python's sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.plugin.window_order import sort_by_power

pytestmark = pytest.mark.quick

watts = st.lists(st.one_of(st.integers(1, 4).map(float), st.floats(0, 1e4)), max_size=40)


def ordered(power_w, *, first=0, highest_power_first):
    order = np.arange(len(power_w))
    sort_by_power(order, first, np.array(power_w, dtype=float), highest_power_first)
    return order.tolist()


def test_the_overviews_order_of_five_jobs():
    power_w = [50, 20, 40, 30, 10]
    assert ordered(power_w, highest_power_first=True) == [0, 2, 3, 1, 4]
    assert ordered(power_w, highest_power_first=False) == [4, 1, 3, 2, 0]


@given(watts, st.integers(0, 40), st.booleans())
def test_kept_jobs_stay_in_front_and_the_rest_is_sorted_stably(power_w, first, highest_power_first):
    first = min(first, len(power_w))
    sign = -1 if highest_power_first else 1
    rest = sorted(range(first, len(power_w)), key=lambda rank: sign * power_w[rank])
    assert ordered(power_w, first=first, highest_power_first=highest_power_first) == [*range(first), *rest]
