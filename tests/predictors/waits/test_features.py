"""The features of a job by hand, and that each says what its name says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logged_waits import UNITS, logged_jobs, snapshot_before

from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from offpeak.predictors.waits.questions import NO_JOB
from offpeak.predictors.waits.states import FEATURES, PUBLISHED, if_submitted_now, snapshot_features

NOW_S = 10 * DAY_S + 7200
RUNNING = RunningJobs(
    *(np.array(column) for column in ([4, 8], [0, 50], [NOW_S - 100, NOW_S - 50], [NOW_S + 500, NOW_S - 10]))
)
QUEUED = QueuedJobs(*(np.array(column) for column in ([10, 2], [NOW_S - 4000, NOW_S - 30], [1000, 60])))
SNAPSHOT = Snapshot(NOW_S, 4, *all_active(4, now_s=NOW_S), (1, 1, 1), RUNNING, QUEUED)


def named(snapshot, size, estimate_s):
    row = snapshot_features(snapshot, np.array([size]), np.array([estimate_s]))[0]
    return dict(zip(FEATURES, row.tolist(), strict=True))


def test_by_hand():
    assert named(SNAPSHOT, 6, 600) == pytest.approx({
        "size": 6, "estimate_s": 600,
        "queued_units": 12, "queued_estimate_s": 1060, "queued_waited_s": 4030,
        "used_units": 12, "running_since_s": 150, "running_estimate_s": 640,
        "queued_jobs": 2, "queued_work_s": (10_000 + 120) / 16, "queued_work_narrower_s": 120 / 16,
        "queued_work_shorter_s": 120 / 16, "queued_within_hour": 1, "longest_waited_s": 4000,
        "running_work_s": 4 * 500 / 16, "missing_units": 2, "room_after_s": 1,
        "second_of_day": 7200, "second_of_week": 3 * DAY_S + 7200,
    })  # fmt: skip


def test_room_is_there_when_enough_running_jobs_should_have_ended():
    assert named(SNAPSHOT, 4, 1)["room_after_s"] == 0
    assert named(SNAPSHOT, 12, 1)["room_after_s"] == 1
    assert named(SNAPSHOT, 13, 1)["room_after_s"] == 500
    assert named(SNAPSHOT, 17, 1)["room_after_s"] == WEEK_S


def test_the_first_eight_are_the_published_ones():
    assert FEATURES[:PUBLISHED][-1] == "running_estimate_s"


@given(logged_jobs(), st.integers(1, UNITS), st.integers(0, 10**6))
def test_jobs_queried_together_do_not_see_each_other(log, size, estimate_s):
    snapshot = snapshot_before(log, len(log.jobs) - 1)
    together = snapshot_features(snapshot, np.array([size, 1, size]), np.array([estimate_s, 60, estimate_s]))
    alone = snapshot_features(snapshot, np.array([size]), np.array([estimate_s]))
    assert (together[0] == alone[0]).all()
    assert (together[2] == alone[0]).all()


def test_a_job_that_does_not_exist_yet_can_be_queried():
    question = if_submitted_now(SNAPSHOT, size=6, estimate_s=600)
    assert (question.rows == snapshot_features(SNAPSHOT, np.array([6]), np.array([600]))).all()
    assert [column.tolist() for column in (question.job_id, question.user, question.queue)] == [[NO_JOB], [-1], [-1]]
    assert question.states[question.state[0]] is SNAPSHOT
