"""Logs of interactive and batch jobs together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.workloads.generate import KINDS, mixed_jobs

LOADS = st.none() | st.floats(0.01, 3)


@given(st.integers(2, 500), st.integers(1, 10_000), st.integers(0, 99), LOADS)
def test_every_log_could_have_happened(count: int, machine_size: int, seed: int, load: float | None) -> None:
    jobs = mixed_jobs(count, machine_size=machine_size, seed=seed, load=load)
    assert len(jobs) == count
    assert set(jobs.queue.tolist()) <= {0, 1}
    assert jobs.job_id.tolist() == list(range(1, count + 1))
    assert jobs.submit_s[0] >= 0
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert jobs.size.max() <= machine_size
    assert (jobs.estimate_s >= jobs.runtime_s).all()
    same_second = np.diff(jobs.submit_s) == 0
    assert (np.diff(jobs.queue)[same_second] >= 0).all()


@given(st.integers(100, 2000), st.floats(0.01, 3), st.integers(0, 99))
def test_the_load_is_the_requested_one(count: int, load: float, seed: int) -> None:
    jobs = mixed_jobs(count, machine_size=128, seed=seed, load=load)
    span_s = jobs.submit_s[-1] - jobs.submit_s[0]
    offered = float((jobs.size * jobs.runtime_s).sum()) / (128 * span_s)
    assert offered == pytest.approx(load, rel=2 / span_s)


def test_a_load_changes_how_often_jobs_come_not_which() -> None:
    natural, busy = (mixed_jobs(5_000, machine_size=128, seed=1, load=load) for load in (None, 0.9))
    for queue in range(len(KINDS)):
        of_kind = (natural.runtime_s[natural.queue == queue], busy.runtime_s[busy.queue == queue])
        np.testing.assert_array_equal(*of_kind)


def test_wide_and_long_jobs_are_batch_jobs() -> None:
    jobs = mixed_jobs(20_000, machine_size=128, seed=1)
    assert jobs.size[jobs.queue == 0].max() == 45
    assert jobs.size[jobs.queue == 1].max() == 128
    assert np.median(jobs.runtime_s[jobs.queue == 1]) > 10 * np.median(jobs.runtime_s[jobs.queue == 0])
