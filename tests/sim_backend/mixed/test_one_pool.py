"""With one pool of whole nodes the schedules are those of the engine for equal nodes, job for job."""

import numpy as np
import pytest
from hypothesis import given
from random_logs import NO_BOUND_S, PLAIN, Log, logs, policy_of, rules, starts

from offpeak.model.cluster import Cluster, NodeType, Pool
from offpeak.model.job_power import default_power_model, node_power_w
from offpeak.model.request import Chunk, Request
from offpeak.plugin.window_policy import ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.state import EASY, EXACT_RUNTIME, FCFS, FIRST_FIT, USER_ESTIMATE, PeakTimes
from offpeak.sim_backend.mixed.case import MixedCase, MixedJobs, mixed_case
from offpeak.sim_backend.mixed.replay import replay_mixed, rules_of
from offpeak.sim_backend.sample import NODES, SAMPLE_LOG
from offpeak.sim_backend.traces.swf.read import read_swf

POLICIES = (ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE)


def one_pool(log: Log) -> MixedCase:
    """Return the case of a log: a pool of nodes of which nothing is known, and a request for each size."""
    sizes, request = np.unique(log.jobs.size, return_inverse=True)
    cluster = Cluster((Pool(NodeType(0), frozenset(), log.machine_size),))
    requests = [Request((), (Chunk(int(size)),)) for size in sizes]
    columns = (log.jobs.job_id, log.jobs.submit_s, log.jobs.runtime_s, log.jobs.estimate_s)
    jobs = MixedJobs(*columns, request.astype(np.int64), log.node_power_w, user=log.jobs.user)
    return mixed_case(cluster, requests, jobs)


def mixed_starts(log: Log, scheduling) -> list[int]:
    policy = policy_of(scheduling)
    return replay_mixed(one_pool(log), policy, rules_of(policy), peaks=log.peaks).start_s.tolist()


@given(
    logs(),
    rules(disciplines=[FCFS, EASY, FIRST_FIT], policies=POLICIES, estimates=[USER_ESTIMATE, EXACT_RUNTIME]).map(
        lambda found: found._replace(pass_per_event=False)
    ),
)
def test_random_logs_have_the_schedules_of_the_engine_for_equal_nodes(log, scheduling):
    assert mixed_starts(log, scheduling) == starts(log, scheduling)


@pytest.mark.parametrize("discipline", [FCFS, EASY, FIRST_FIT])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_bundled_log_has_the_schedule_of_the_engine_for_equal_nodes(discipline, policy):
    jobs = read_swf(SAMPLE_LOG).jobs
    at_s = np.arange(int(jobs.submit_s[0]), int(jobs.submit_s[-1]) + 10**7, 43_200)
    states = np.resize(np.array([Peak.ON_PEAK, Peak.OFF_PEAK], dtype=np.int8), len(at_s))
    power_w = node_power_w(default_power_model(jobs), jobs, 1)
    log = Log(jobs, power_w, NODES, PeakTimes(at_s, states))
    scheduling = PLAIN._replace(discipline=discipline, policy=policy, window=20, max_postponement_s=NO_BOUND_S)
    assert mixed_starts(log, scheduling) == starts(log, scheduling)
