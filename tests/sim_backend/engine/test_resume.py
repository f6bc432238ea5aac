"""A resumed state is one that the engine could have come to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import PLAIN
from random_power import node_numbers

from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.running_jobs import resumed_state
from offpeak.sim_backend.engine.state import FINISHED, NEVER, Workload
from offpeak.sim_backend.replay.schedule import NO_PEAKS

pytestmark = pytest.mark.quick

NOW_S = 50
holders = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=20)


def resumed(rows, machine_size):
    """Return workload and state of holders of rows (size, run time left)."""
    size, left_s = np.array(rows, dtype=np.int64).T.copy()
    zeros = np.zeros(len(rows), dtype=np.int64)
    workload = Workload(zeros, left_s, left_s, left_s, size, np.zeros(len(rows)), zeros)
    return workload, resumed_state(workload, PLAIN, machine_size=machine_size, holders=len(rows), now_s=NOW_S)


@given(holders, st.integers(0, 70))
def test_holders_hold_as_many_nodes_as_they_ask_for_and_share_none(rows, more):
    machine_size = sum(size for size, _ in rows) + more
    _, state = resumed(rows, machine_size)
    slots, now = state.slots, state.scalars[0]
    held = [node_numbers(state.nodes, slots.pieces[slot]) for slot in range(len(rows))]
    assert len(np.unique(np.concatenate(held))) == sum(size for size, _ in rows)
    assert (now["free"], now["running"], now["listed"]) == (more, len(rows), len(rows))
    ends_s = slots.expected_end_s[state.expected[: len(rows)]].tolist()
    assert ends_s == sorted(ends_s) == sorted(NOW_S + left_s for _, left_s in rows)


@given(holders, st.integers(0, 70))
def test_all_is_free_when_the_holders_have_ended(rows, more):
    machine_size = sum(size for size, _ in rows) + more
    workload, state = resumed(rows, machine_size)
    assert advance(workload, NO_PEAKS, PLAIN, state, None, NEVER - 1) == FINISHED
    now = state.scalars[0]
    assert (now["now_s"], now["free"], now["running"]) == (NOW_S + max(left_s for _, left_s in rows), machine_size, 0)
