"""The machine of a snapshot: usable units, needed units, and when nodes can run jobs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, asleep, coming_up, going_down
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active

pytestmark = pytest.mark.quick

NOW_S = 1000


def machine(state, ready_s, *, per_node=1, used=(), wanted=()) -> Snapshot:
    """Return a snapshot of these nodes with jobs of these sizes."""
    held, queue = np.array(used, dtype=np.int64), np.array(wanted, dtype=np.int64)
    jobs = RunningJobs(held, held, held, held), QueuedJobs(queue, queue, queue)
    return Snapshot(NOW_S, per_node, np.array(state, dtype=np.int8), np.array(ready_s), (1, 20, 180), *jobs)


def test_a_node_can_be_used_after_what_it_is_doing_and_waking():
    states = [going_down(OFF), asleep(STANDBY), FAILED, coming_up(OFF), ACTIVE, coming_up(STANDBY)]
    ready_s = [NOW_S + 5, NOW_S, NOW_S, NOW_S + 7, NOW_S, NOW_S - 60]
    snapshot = machine(states, ready_s)
    assert (snapshot.usable_from_s - NOW_S).tolist() == [0, 1, 7, 20, 185]


@given(st.lists(st.sampled_from([ACTIVE, FAILED, asleep(OFF)]), min_size=1), st.sampled_from([1, 2, 8]))
def test_failed_nodes_cannot_be_used(state, per_node):
    snapshot = machine(state, [NOW_S] * len(state), per_node=per_node)
    assert snapshot.usable_units == per_node * sum(held != FAILED for held in state)
    assert len(snapshot.usable_from_s) * per_node == snapshot.usable_units


@pytest.mark.parametrize(
    ("used", "wanted", "least"), [([], [], 0), ([3, 2], [1], 8), ([1], [9, 2], 12), ([4, 4], [8], 8)]
)
def test_what_is_needed_is_in_whole_nodes(used, wanted, least):
    assert machine([ACTIVE] * 9, [NOW_S] * 9, per_node=4, used=used, wanted=wanted).least_units == least


def test_a_machine_of_which_all_is_up():
    state, ready_s = all_active(3, now_s=NOW_S)
    assert (state.dtype, state.tolist(), ready_s.tolist()) == (np.int8, [ACTIVE] * 3, [NOW_S] * 3)


def test_arrays_are_copies_that_cannot_be_written_to():
    size = np.array([1])
    queued = QueuedJobs(size, size, size)
    size[0] = 9
    assert queued.size.tolist() == [1]
    with pytest.raises(ValueError, match="read-only"):
        queued.size[0] = 2
