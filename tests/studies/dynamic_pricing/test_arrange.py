"""Logs laid out as a setup wants them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.dynamic_pricing.run import (
    MONTH_S,
    PricingSetup,
    arranged,
    faster,
    month_of,
    months_of,
)
from offpeak_studies.logs import StudyLog, at_load, offered_load
from offpeak_studies.workloads.generate import lublin_jobs

JOBS = lublin_jobs(400, machine_size=16, seed=1, load=0.2)


@given(st.floats(0.05, 3.0))
def test_scaled_gaps_give_the_load_and_keep_the_order(load: float) -> None:
    scaled = at_load(JOBS, 16, load)
    assert offered_load(scaled, 16) == pytest.approx(load, rel=1e-3)
    assert (np.diff(scaled.submit_s) >= 0).all()
    assert scaled.submit_s[0] == JOBS.submit_s[0]
    assert (scaled.runtime_s == JOBS.runtime_s).all()


@given(st.integers(2, 100))
def test_a_faster_log_keeps_order_load_and_estimates(times: int) -> None:
    hurried = faster(JOBS, times)
    assert (np.diff(hurried.submit_s) >= 0).all()
    assert (hurried.runtime_s >= 1).all()
    assert (hurried.estimate_s >= hurried.runtime_s).all()
    assert (times * (hurried.runtime_s - 1) < JOBS.runtime_s).all()


def test_a_setup_leaves_jobs_out_and_nothing_else(log: StudyLog) -> None:
    jobs, size = arranged(log, PricingSetup())
    assert (size, jobs.submit_s.tolist()) == (log.size, log.trace.jobs.submit_s.tolist())
    jobs, size = arranged(log, PricingSetup(machine_size=4))
    assert size == 4
    assert 0 < len(jobs) == np.count_nonzero(log.trace.jobs.size <= 4)
    jobs, _ = arranged(log, PricingSetup(first_jobs=7))
    assert jobs.job_id.tolist() == log.trace.jobs.job_id[:7].tolist()


def test_months_are_stretches_that_share_no_job(log: StudyLog) -> None:
    slow = PricingSetup(load=0.01)
    count = months_of(log, slow)
    assert count > 2
    months = [arranged(log, replace(slow, month=month))[0] for month in range(count + 1)]
    assert sum(map(len, months)) == len(log.trace.jobs)
    assert all(np.ptp(month.submit_s) < MONTH_S for month in months if len(month))
    assert month_of(JOBS)[0] == 0
