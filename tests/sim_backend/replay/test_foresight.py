"""Run times that boosted trees foresee in a replay: from what has ended, and from nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.model.constants import HOUR_S
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.rules import NEVER
from offpeak.sim_backend.replay.equal_nodes import replay, unit_replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.replay import foreseeing_steps
from offpeak_studies.workloads.generate import lublin_jobs

NODES = 64
POLICY = parse_policy("easy", replace(SchedulingSettings(), estimates="boosted"))
EASY = parse_policy("easy", SchedulingSettings())
JOBS = lublin_jobs(1500, machine_size=NODES, seed=3, load=0.7)


def foreseen(jobs):
    """Return what was foreseen of each job, and when each started."""
    made, schedule = (unit_replay(jobs, np.zeros(len(jobs)), NODES, POLICY) for _ in range(2))
    schedule.run()
    made.start_s[:] = schedule.start_s
    steps = list(foreseeing_steps(jobs, made.workload, made.start_s))
    return made.workload.foreseen_s, schedule.schedule(), steps


@pytest.fixture(scope="module")
def whole():
    return foreseen(JOBS)


def test_a_job_is_foreseen_to_run_for_a_second_at_least_and_its_estimate_at_most(whole):
    foreseen_s, _, steps = whole
    assert (foreseen_s >= np.minimum(1, JOBS.estimate_s)).all()
    assert (foreseen_s <= JOBS.estimate_s).all()
    assert (foreseen_s < JOBS.estimate_s)[1000:].mean() > 0.5
    assert steps[-1] == (NEVER - 1, len(JOBS))
    assert (np.diff([until_s for until_s, _ in steps]) > 0).all()


def test_no_job_is_ended_by_what_was_foreseen_of_it(whole):
    _, schedule, _ = whole
    assert (schedule.end_s - schedule.start_s).tolist() == JOBS.runtime_s.tolist()
    for at_s in schedule.start_s[::50].tolist():
        runs = (schedule.start_s <= at_s) & (schedule.end_s > at_s)
        assert JOBS.size[runs].sum() <= NODES


def test_later_ends_are_not_known(whole):
    foreseen_s, schedule, _ = whole
    middle_s = int(JOBS.submit_s[1100]) // HOUR_S * HOUR_S
    later = schedule.end_s >= middle_s
    other = replace(JOBS, runtime_s=np.where(later, JOBS.runtime_s + 977, JOBS.runtime_s))
    other_s, other_schedule, _ = foreseen(other)
    known = (JOBS.submit_s < middle_s) & (schedule.start_s < middle_s)
    assert other_s[JOBS.submit_s < middle_s].tolist() == foreseen_s[JOBS.submit_s < middle_s].tolist()
    assert other_schedule.start_s[known].tolist() == schedule.start_s[known].tolist()
    assert other_s.tolist() != foreseen_s.tolist()


def test_what_is_foreseen_matters():
    jobs = JOBS.take(np.arange(400))
    expected = replay(jobs, np.zeros(len(jobs)), machine_size=NODES, policy=POLICY).start_s
    assert expected.tolist() != replay(jobs, np.zeros(len(jobs)), machine_size=NODES, policy=EASY).start_s.tolist()
