"""The extremes of stretches of time: against a look at each second."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.comparison.figures import extreme_pieces

STEPS = st.lists(st.tuples(st.integers(1, 9), st.sampled_from([1.0, 2.0, 5.0, -3.0])), min_size=1, max_size=30)


@given(STEPS, st.integers(1, 25))
def test_extremes_of_a_bin_are_the_lowest_and_highest_of_its_seconds_in_their_order(
    steps: list[tuple[int, float]], width_s: int
) -> None:
    edges_s = np.append(0, np.cumsum([length for length, _ in steps]))
    value = np.array([height for _, height in steps])
    bins_s = np.append(np.arange(0, edges_s[-1], width_s), edges_s[-1])
    by_second = np.repeat(value, np.diff(edges_s))
    pieces = extreme_pieces(edges_s, value, bins_s)
    assert pieces.shape == (len(bins_s) - 1, 2)
    for (first, second), from_s, until_s in zip(pieces, bins_s[:-1], bins_s[1:], strict=True):
        inside = by_second[from_s:until_s]
        assert first <= second
        assert {value[first], value[second]} == {inside.min(), inside.max()}
        assert edges_s[first + 1] > from_s
        assert edges_s[second] < until_s


def test_an_unknown_value_counts_as_the_highest() -> None:
    value = np.array([1.0, np.nan, 3.0, 2.0])
    pieces = extreme_pieces(np.arange(5), value, np.array([0, 2, 4]))
    assert pieces.tolist() == [[0, 1], [2, 3]]
    assert extreme_pieces(np.arange(4), np.array([np.nan, 7.0, np.nan]), np.array([0, 3])).tolist() == [[0, 1]]


def test_bins_of_several_lengths_inside_the_function() -> None:
    pieces = extreme_pieces(np.arange(0, 70, 10), np.array([0.0, 1, 2, 3, 4, 5]), np.array([15, 20, 45]))
    assert pieces.tolist() == [[1, 1], [2, 4]]
