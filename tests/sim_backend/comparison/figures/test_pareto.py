"""The Pareto front: against a comparison of each choice with each other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.comparison.figures import pareto_front

CHOICES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)


def beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and one[0] <= other[0] and one[1] >= other[1]


@given(CHOICES)
def test_the_front_is_what_nothing_beats(choices: list[tuple[int, int]]) -> None:
    loss, gain = (np.array(column, float) for column in zip(*choices, strict=True))
    front = [choices[at] for at in pareto_front(loss, gain)]
    assert set(front) == {choice for choice in choices if not any(beats(other, choice) for other in choices)}
    assert len(front) == len(set(front))


@given(CHOICES)
def test_along_the_front_gain_rises_with_loss(choices: list[tuple[int, int]]) -> None:
    loss, gain = (np.array(column, float) for column in zip(*choices, strict=True))
    front = pareto_front(loss, gain)
    assert np.all(np.diff(loss[front]) > 0)
    assert np.all(np.diff(gain[front]) > 0)
