"""From a log and the settings to a case: the machine's size, whole nodes, the jobs' power."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.settings.replay import MachineSettings, PowerSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import PreparedCase, log_span, prepare
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick

JOBS = lublin_jobs(200, machine_size=64, seed=1)
TRACE = Trace("a log", JOBS, 64, None, None, None)


def prepared(trace: Trace = TRACE, **sections: object) -> PreparedCase:
    return prepare(trace, replace(Settings(), **sections), start=None)


def on(nodes: int | None = None, per_node: int = 1) -> MachineSettings:
    return MachineSettings(nodes=nodes, processors_per_node=per_node)


def test_jobs_that_need_more_whole_nodes_than_there_are_are_left_out() -> None:
    """A machine of 100 processors has 12 nodes of 8; a job of 97 processors would need 13."""
    trace = replace(TRACE, jobs=JOBS.with_size(np.where(np.arange(200) == 3, 97, 96)), processors=100)
    made = prepared(trace, machine=on(per_node=8))
    assert made.case.machine.size == 12
    assert set(made.case.jobs.size.tolist()) == {12}
    assert made.rejected == (RejectedJobs("wider than the machine (12)", (int(JOBS.job_id[3]),)),)


def test_measured_power_is_used_else_the_assumption_is_reported() -> None:
    assert prepared().notes == ("power of jobs: measured in the log",)
    unread = replace(TRACE, jobs=replace(JOBS, node_power_w=np.full(200, np.nan)), notes=("a note of the log",))
    made = prepared(unread)
    assert made.notes == ("a note of the log", "power of jobs: the log has none, assumed 100 to 300 W per node")
    assert 100 <= made.case.node_power_w.min() < made.case.node_power_w.max() <= 300


def test_power_as_set_and_its_seed() -> None:
    made = prepared(power=PowerSettings(job="classes:100W,200W", idle_w=33.0, seed=2))
    assert made.notes == ("power of jobs: classes:100W,200W",)
    assert set(made.case.node_power_w.tolist()) == {100.0, 200.0}
    assert made.case.machine.idle_w == 33.0
    again, other = (prepared(power=PowerSettings(job="classes:100W,200W", seed=seed)) for seed in (2, 3))
    assert np.array_equal(again.case.node_power_w, made.case.node_power_w)
    assert not np.array_equal(other.case.node_power_w, made.case.node_power_w)
    with pytest.raises(BadInput, match="unknown job power 'some'"):
        prepared(power=PowerSettings(job="some"))


def test_one_job_without_a_reading_is_reported_in_the_singular() -> None:
    power_w = np.where(np.arange(200) == 5, np.nan, JOBS.node_power_w)
    notes = prepared(replace(TRACE, jobs=replace(JOBS, node_power_w=power_w))).notes
    assert notes[1].startswith("1 job without measured power: ")


def test_the_span_is_from_the_first_submission_to_where_the_last_job_could_end() -> None:
    span = log_span(replace(TRACE, unix_start_s=10**9, time_zone="Europe/Berlin"), JOBS)
    assert span.first_s == JOBS.submit_s[0]
    assert span.last_s == (JOBS.submit_s + JOBS.runtime_s).max()
    assert (span.unix_start_s, str(span.zone)) == (10**9, "Europe/Berlin")
