"""Gaps by level: against a look at each level in each second."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_integrals import Usage
from offpeak.sim_backend.nodes.bounds import gaps_of

RUN = st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(1, 9))


@given(st.lists(RUN, max_size=12), st.integers(1, 4), st.integers(0, 3))
def test_each_gap_is_of_levels_that_are_not_busy(runs, units_per_node: int, spare: int) -> None:
    start_s, length_s, size = np.array(runs, np.int64).reshape(-1, 3).T
    seconds = np.arange(41)[:, None]
    units = ((start_s <= seconds) & (seconds < start_s + length_s)) @ size
    nodes = -(-int(units.max()) // units_per_node) + spare
    usage = Usage(size, size * 1.0, start_s, start_s + length_s, nodes * units_per_node, 0.0, 0, 41)
    gaps = gaps_of(usage, units_per_node)
    assert np.all(gaps.from_s < gaps.until_s)
    assert np.all(gaps.nodes > 0)
    found = sorted(
        (from_s, until_s)
        for from_s, until_s, count in zip(gaps.from_s.tolist(), gaps.until_s.tolist(), gaps.nodes, strict=True)
        for _ in range(count)
    )
    assert found == sorted(gap for level in range(nodes) for gap in stretches(-(-units // units_per_node) <= level))


def stretches(free: np.ndarray) -> list[tuple[int, int]]:
    """Return from when to when a level is free."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], free.astype(int), [0]])))
    return [(int(from_s), int(until_s)) for from_s, until_s in edges.reshape(-1, 2)]
