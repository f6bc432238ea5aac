"""Fitting a log to a machine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadTrace
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.sim_backend.traces.filters import runnable, whole_nodes
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick

TRACE = Trace("a log", lublin_jobs(200, machine_size=64, seed=1), 64, 64, None, None)


@given(st.integers(1, 70))
def test_every_job_runs_or_is_wider_than_the_machine(limit: int) -> None:
    jobs, rejected = runnable(TRACE, limit)
    assert jobs.size.max() <= limit
    wide = {job for each in rejected for job in each.job_ids}
    assert wide.isdisjoint(jobs.job_id.tolist())
    assert len(wide) + len(jobs) == 200
    assert [each.reason for each in rejected] == [f"wider than the machine ({limit})"] * bool(wide)


def test_job_rejected_in_the_log_stays_rejected() -> None:
    unknown = RejectedJobs("run time unknown (-1)", (901, 902))
    jobs, rejected = runnable(replace(TRACE, rejected=(unknown,)), 64)
    assert rejected == (unknown,)
    assert len(jobs) == 200


def test_a_log_without_a_job_that_fits_is_refused_with_the_reasons() -> None:
    trace = replace(TRACE, rejected=(RejectedJobs("no processors", (901, 902)),))
    with pytest.raises(
        BadTrace, match=r"^a log: no job can run: 2 jobs: no processors; 200 jobs: wider than the machine \(0\)$"
    ) as e:
        runnable(trace, 0)
    assert "--nodes" in e.value.hint
    with pytest.raises(BadTrace, match="no job can run: it is empty"):
        runnable(replace(TRACE, jobs=TRACE.jobs.take(np.array([], np.int64))), 64)


@given(st.integers(1, 100))
def test_whole_nodes_hold_all_processors_and_none_is_idle(per_node: int) -> None:
    size = whole_nodes(TRACE.jobs, per_node).size
    assert (size * per_node >= TRACE.jobs.size).all()
    assert ((size - 1) * per_node < TRACE.jobs.size).all()
