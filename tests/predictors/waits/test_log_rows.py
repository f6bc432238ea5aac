"""The rows of a whole log are those of the snapshots at each submission."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from logged_waits import UNITS, LoggedJobs, jobs_of, logged_jobs, snapshot_before

from offpeak.model.snapshot import QueuedJobs, RunningJobs
from offpeak.predictors.waits.states import FEATURES, LogStates, log_rows, snapshot_features


@given(logged_jobs())
def test_each_row_is_that_of_the_snapshot_which_the_job_is_submitted_into(log):
    rows = log_rows(log.jobs, log.start_s, log.end_s, units=UNITS)
    assert rows.shape == (len(log.jobs), len(FEATURES))
    for job, row in enumerate(rows):
        one = slice(job, job + 1)
        snapshot = snapshot_before(log, job)
        expected = snapshot_features(snapshot, log.jobs.size[one], log.jobs.estimate_s[one])[0]
        assert row == pytest.approx(expected, rel=1e-12)


@given(logged_jobs())
def test_later_events_change_no_row(log):
    rows = log_rows(log.jobs, log.start_s, log.end_s, units=UNITS)
    second = int(log.jobs.submit_s[-1])
    later = LoggedJobs(
        log.jobs,
        np.where(log.start_s >= second, log.start_s + 100, log.start_s),
        np.where(log.end_s > second, log.end_s + 1000, log.end_s),
    )
    assert (log_rows(later.jobs, later.start_s, later.end_s, units=UNITS) == rows).all()


@given(logged_jobs())
def test_the_states_of_a_log_are_its_snapshots(log):
    states = LogStates(log.jobs, log.start_s, log.end_s, log.jobs.estimate_s, UNITS)
    for job, state in enumerate(states):
        expected = snapshot_before(log, job)
        assert (state.now_s, state.usable_units) == (expected.now_s, expected.usable_units)
        for part, kind in (("running", RunningJobs), ("queued", QueuedJobs)):
            for column in fields(kind):
                name = f"{part}.{column.name}"
                found, right = (getattr(getattr(each, part), column.name).tolist() for each in (state, expected))
                assert found == right, name


def test_a_job_that_outlived_its_prediction_is_expected_to_run_for_its_estimate():
    jobs = jobs_of([(0, 90, 100, 1, 0, 0), (10, 5, 5, 1, 0, 0), (60, 5, 5, 1, 0, 0)])
    start_s = np.array([1, 10, 60])
    states = LogStates(jobs, start_s, start_s + jobs.runtime_s, np.array([20, 5, 5]), UNITS)
    assert states[1].running.expected_end_s.tolist() == [21]
    assert states[2].running.expected_end_s.tolist() == [101]
