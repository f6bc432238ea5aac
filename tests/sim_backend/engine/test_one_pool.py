"""Kernels that place jobs make the schedules, job for job, of those that only count the units of one pool."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from random_logs import BACKFILLING, NO_BOUND_S, PLAIN, Log, logs, one_pool, policy_of, rules, starts

from offpeak.model.job_power import default_power_model, node_power_w
from offpeak.plugin.window_policy import ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.rules import PeakTimes
from offpeak.sim_backend.replay.replay import replay_case, rules_of
from offpeak.sim_backend.sample import NODES, SAMPLE_LOG
from offpeak.sim_backend.traces.swf.read import read_swf

POLICIES = (ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE)


def placed_starts(log: Log, scheduling) -> list[int]:
    policy = policy_of(scheduling)
    with mock.patch("offpeak.sim_backend.replay.replay.counted", lambda tables, *_: tables):
        return replay_case(one_pool(log), policy, rules_of(policy), peaks=log.peaks).start_s.tolist()


@given(
    logs(),
    rules(policies=POLICIES),
)
def test_random_logs_have_the_same_schedules_where_units_are_counted(log, scheduling):
    assert placed_starts(log, scheduling) == starts(log, scheduling)


@pytest.mark.parametrize("discipline", BACKFILLING)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_bundled_log_has_the_same_schedule_where_units_are_counted(discipline, policy):
    jobs = read_swf(SAMPLE_LOG).jobs
    at_s = np.arange(int(jobs.submit_s[0]), int(jobs.submit_s[-1]) + 10**7, 43_200)
    states = np.resize(np.array([Peak.ON_PEAK, Peak.OFF_PEAK], dtype=np.int8), len(at_s))
    power_w = node_power_w(default_power_model(jobs), jobs, 1)
    log = Log(jobs, power_w, NODES, PeakTimes(at_s, states))
    scheduling = PLAIN._replace(discipline=discipline, policy=policy, window=20, max_postponement_s=NO_BOUND_S)
    assert placed_starts(log, scheduling) == starts(log, scheduling)
