"""Logs laid out as a setup wants them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S
from sim_backend.workloads.generate import lublin_jobs
from studies.logs import shift_submissions
from studies.online_simulation.run import OnlineSetup, arranged

JOBS = lublin_jobs(300, machine_size=64, seed=1)


@given(st.integers(1, 64), st.integers(0, 3))
def test_wide_and_early_jobs_are_left_out(size: int, first_day: int) -> None:
    left = arranged(JOBS, OnlineSetup(size, first_day=first_day))
    assert (left.size <= size).all()
    assert (left.submit_s >= JOBS.submit_s[0] + first_day * DAY_S).all()
    if size == 64 and first_day == 0:
        assert len(left) == len(JOBS)


@given(st.integers(0, 1000))
def test_submissions_come_up_to_a_minute_later(seed: int) -> None:
    moved = shift_submissions(JOBS, np.random.default_rng(seed))
    assert (np.diff(moved.submit_s) >= 0).all()
    late_s = moved.submit_s[np.argsort(moved.job_id)] - JOBS.submit_s[np.argsort(JOBS.job_id)]
    assert late_s.min() >= 0
    assert late_s.max() <= 60
