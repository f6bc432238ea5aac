"""The wait of one more job is what the plan of the longer queue says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_snapshots import NOW_S, plain_starts, snapshot_of, snapshots

from offpeak.errors import BadInput
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.model.snapshot import QueuedJobs
from offpeak.power.whatif import EASY_POLICY, simulate_waits_s

jobs = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), max_size=6)


@given(snapshots(), jobs)
def test_the_plain_scheduler_starts_each_job_in_the_same_second(snapshot, requested):
    requested = [job for job in requested if job[0] <= snapshot.usable_units]
    assume(snapshot.least_units <= snapshot.usable_units)
    size, estimate_s = np.array(requested, dtype=np.int64).reshape(-1, 2).T
    starts = [plain_starts(with_job(snapshot, *job), snapshot.usable_units, EASY_POLICY.rules)[-1] for job in requested]
    assert simulate_waits_s(snapshot, size, estimate_s).tolist() == [start_s - NOW_S for start_s in starts]


def with_job(snapshot, size, estimate_s):
    """The snapshot with the job at the queue's end."""
    queued = snapshot.queued
    columns = (
        np.append(queued.size, size),
        np.append(queued.submit_s, NOW_S),
        np.append(queued.estimate_s, estimate_s),
    )
    return replace(snapshot, queued=QueuedJobs(*columns))


def wait_s(snapshot, size, estimate_s):
    return simulate_waits_s(snapshot, np.array([size]), np.array([estimate_s])).item()


def test_a_job_that_fits_starts_at_once_and_one_that_does_not_waits_for_room():
    snapshot = snapshot_of(running=[(2, NOW_S, NOW_S, NOW_S + 50)], node_state=[ACTIVE] * 3)
    assert wait_s(snapshot, 1, 10) == 0
    assert wait_s(snapshot, 2, 10) == 50


def test_queued_jobs_that_wait_for_a_repair_are_left_out():
    snapshot = snapshot_of(queued=[(2, NOW_S, 60)], node_state=[ACTIVE, FAILED])
    assert wait_s(snapshot, 1, 10) == 0


def test_a_job_wider_than_what_is_usable_is_bad_input():
    with pytest.raises(BadInput, match="a job of 2 units cannot run on the 1 that are usable"):
        wait_s(snapshot_of(node_state=[ACTIVE, FAILED]), 2, 10)
