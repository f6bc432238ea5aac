"""The wait of one more job is what the plan of the longer queue says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_snapshots import NOW_S, plain_starts, snapshot_of, snapshots

from offpeak.errors import BadInput
from offpeak.node_states import ACTIVE, FAILED
from offpeak.snapshot import QueuedJobs
from power.queue_wait import planned_wait_s
from power.what_if import EASY_RULES


@given(snapshots(), st.integers(1, 40), st.integers(0, 30))
def test_the_plain_scheduler_starts_the_job_in_the_same_second(snapshot, size, estimate_s):
    assume(max(size, snapshot.least_units) <= snapshot.usable_units)
    queued = snapshot.queued
    longer = replace(
        snapshot,
        queued=QueuedJobs(
            np.append(queued.size, size), np.append(queued.submit_s, NOW_S), np.append(queued.estimate_s, estimate_s)
        ),
    )
    starts = plain_starts(longer, longer.usable_units, EASY_RULES)
    assert planned_wait_s(snapshot, size, estimate_s) == starts[-1] - NOW_S


def test_a_job_that_fits_starts_at_once_and_one_that_does_not_waits_for_room():
    snapshot = snapshot_of(running=[(2, NOW_S, NOW_S, NOW_S + 50)], node_state=[ACTIVE] * 3)
    assert planned_wait_s(snapshot, 1, 10) == 0
    assert planned_wait_s(snapshot, 2, 10) == 50


def test_queued_jobs_that_wait_for_a_repair_are_left_out():
    snapshot = snapshot_of(queued=[(2, NOW_S, 60)], node_state=[ACTIVE, FAILED])
    assert planned_wait_s(snapshot, 1, 10) == 0


def test_a_job_wider_than_what_is_usable_is_bad_input():
    with pytest.raises(BadInput, match="jobs need 2 units and 1 are usable"):
        planned_wait_s(snapshot_of(node_state=[ACTIVE, FAILED]), 2, 10)
