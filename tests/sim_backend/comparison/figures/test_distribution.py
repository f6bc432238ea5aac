"""The cumulative distribution: each of its points is on the curve, the ends are there, and there are few."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.comparison.figures import cumulative_share


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=300), st.sampled_from([2, 3, 10, 500]))
def test_points_are_exact_and_few(values: list[int], most_points: int) -> None:
    value = np.array(values)
    x, share = cumulative_share(value, lowest=1, most_points=most_points)
    assert len(x) <= most_points
    assert np.all(np.diff(x) > 0)
    assert share.tolist() == [float(np.mean(value <= at)) for at in x]
    assert (x[0], share[-1]) == (1, 1.0)
    assert set(x.tolist()) <= {1, *values}


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=100))
def test_with_room_for_all_it_is_the_whole_curve(values: list[int]) -> None:
    x, _ = cumulative_share(np.array(values), lowest=1, most_points=500)
    assert x.tolist() == sorted({1} | {value for value in values if value > 1})
