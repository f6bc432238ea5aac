"""Run times that boosted trees foresee in a replay: from what has ended, and from nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from random_logs import Log, one_pool

from offpeak.model.constants import HOUR_S
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.state import NEVER, new_state
from offpeak.sim_backend.mixed.replay import MixedReplay, rules_of
from offpeak.sim_backend.replay.equal_nodes import replay, workload_of
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.replay import foreseeing_steps
from offpeak.sim_backend.replay.schedule import NO_PEAKS
from offpeak.sim_backend.workloads.generate import lublin_jobs

NODES = 64
POLICY = parse_policy("easy", replace(SchedulingSettings(), estimates="boosted"))
EASY = parse_policy("easy", SchedulingSettings())
JOBS = lublin_jobs(1500, machine_size=NODES, seed=3, load=0.7)


def foreseen(jobs):
    """Return what was foreseen of each job, and when each started."""
    workload = workload_of(jobs, np.zeros(len(jobs)), POLICY)
    state = new_state(workload, POLICY.rules, machine_size=NODES)
    schedule = replay(jobs, np.zeros(len(jobs)), machine_size=NODES, policy=POLICY)
    state.start_s[:] = schedule.start_s
    steps = [(until_s, submitted) for until_s, submitted in foreseeing_steps(jobs, workload, state.start_s)]
    return workload.foreseen_s, schedule, steps


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


def test_on_one_pool_the_same_is_foreseen_as_on_equal_nodes():
    jobs = JOBS.take(np.arange(400))
    case = one_pool(Log(jobs, np.zeros(len(jobs)), NODES, NO_PEAKS))
    replayed = MixedReplay(case, POLICY, rules_of(POLICY), jobs=jobs)
    replayed.run()
    expected = replay(jobs, np.zeros(len(jobs)), machine_size=NODES, policy=POLICY).start_s
    assert replayed.start_s.tolist() == expected.tolist()
    assert expected.tolist() != replay(jobs, np.zeros(len(jobs)), machine_size=NODES, policy=EASY).start_s.tolist()
