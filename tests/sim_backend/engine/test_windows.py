"""Window policies order the jobs of each competition group; own policies are consulted through the port."""

from dataclasses import replace
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_clusters import cases
from random_logs import PLAIN, logs, policy_of, rules, starts

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.request import Chunk, Request
from offpeak.plugin.window_policy import EXTERNAL, GREEDY, KNAPSACK, WindowPolicy
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.case import RequestedJobs, engine_case
from offpeak.sim_backend.engine.rules import EASY, EXACT_RUNTIME, FCFS, USER_ESTIMATE, PeakTimes
from offpeak.sim_backend.replay.replay import replay_case, rules_of

FEW_JOBS = 25


@given(
    logs(most_jobs=FEW_JOBS),
    logs(most_jobs=FEW_JOBS),
    rules(disciplines=[FCFS, EASY], estimates=[USER_ESTIMATE, EXACT_RUNTIME]).map(
        lambda found: found._replace(pass_per_event=False)
    ),
)
def test_each_group_has_the_window_that_it_would_have_alone(one, other, scheduling):
    both = [replace(log, peaks=one.peaks) for log in (one, other)]
    columns = ("submit_s", "runtime_s", "estimate_s", "size")
    joined = {name: np.concatenate([getattr(log.jobs, name) for log in both]) for name in columns}
    owner = np.repeat([0, 1], [len(log.jobs) for log in both])
    order = np.argsort(joined["submit_s"], kind="stable")
    requests = sorted({(int(group), int(size)) for group, size in zip(owner, joined["size"], strict=True)})
    cluster = Cluster(
        tuple(Pool(NodeType(0), frozenset({str(group)}), log.machine_size) for group, log in enumerate(both)),
        {"0": Partition("0"), "1": Partition("1")},
    )
    number = [requests.index((int(group), int(size))) for group, size in zip(owner, joined["size"], strict=True)]
    jobs = RequestedJobs(
        job_id=np.arange(len(order)),
        submit_s=joined["submit_s"][order],
        runtime_s=joined["runtime_s"][order],
        estimate_s=joined["estimate_s"][order],
        request=np.array(number)[order],
        part_power_w=np.concatenate([log.node_power_w for log in both])[order],
    )
    case = engine_case(cluster, [Request((str(group),), (Chunk(size),)) for group, size in requests], jobs)
    policy = policy_of(scheduling)
    start_s = replay_case(case, policy, rules_of(policy), peaks=one.peaks).start_s
    assert [start_s[owner[order] == group].tolist() for group in (0, 1)] == [starts(log, scheduling) for log in both]


@given(cases())
def test_an_own_policy_decides_on_each_window(random):
    on_peak = PeakTimes(np.array([0]), np.array([Peak.ON_PEAK], dtype=np.int8))
    built_in = policy_of(PLAIN._replace(policy=GREEDY))
    seen = []

    def frugal_first(view):
        seen.append(view)
        return np.argsort(view.node_power_w, kind="stable").tolist()

    own = replace(
        policy_of(PLAIN._replace(policy=EXTERNAL)), window_policy=WindowPolicy("own", EXTERNAL, "", order=frugal_first)
    )
    expected = replay_case(random.case, built_in, rules_of(built_in), peaks=on_peak)
    found = replay_case(random.case, own, rules_of(own), peaks=on_peak)
    assert found.start_s.tolist() == expected.start_s.tolist()
    assert all(view.peak == Peak.ON_PEAK and view.free >= 0 and (view.waited_s >= 0).all() for view in seen)


def greedy(**changes):
    policy = policy_of(PLAIN._replace(policy=GREEDY, window=20))
    return policy, rules_of(policy)._replace(**changes)


@given(cases(), st.sampled_from([GREEDY, KNAPSACK]))
def test_written_places_lead_to_the_same_starts_as_an_order_for_each_pass(random, code):
    alone = np.arange(len(random.jobs))
    case = replace(random.case, workload=random.case.workload._replace(record=alone, tasks=np.ones_like(alone)))
    case = replace(case, tables=case.tables._replace(group_windows=np.ones_like(case.tables.group_windows)))
    case = replace(case, tables=case.tables._replace(class_window=np.zeros_like(case.tables.class_window)))
    policy = policy_of(PLAIN._replace(policy=code, window=20))
    on_peak = PeakTimes(np.array([0, 9]), np.array([Peak.ON_PEAK, Peak.OFF_PEAK], dtype=np.int8))
    expected = replay_case(case, policy, rules_of(policy), peaks=on_peak)
    with mock.patch("offpeak.sim_backend.engine.state._is_simple", lambda tables, *_: tables.group_windows < 0):
        found = replay_case(case, policy, rules_of(policy), peaks=on_peak)
    assert found.start_s.tolist() == expected.start_s.tolist()


def small_case(submit_s, power_w, *, partition=0, array=None, throttle=None, nodes=1):
    """Return a case of jobs that need a node for 10 s each; partition `b` has a higher tier than `a`."""
    names = frozenset(("a", "b"))
    cluster = Cluster((Pool(NodeType(0), names, nodes),), {"a": Partition("a"), "b": Partition("b", priority_tier=2)})
    count = len(submit_s)
    column = np.zeros(count, dtype=np.int64)
    jobs = RequestedJobs(
        job_id=np.arange(count),
        submit_s=np.array(submit_s),
        runtime_s=column + 10,
        estimate_s=column + 10,
        request=column + partition,
        part_power_w=np.array(power_w, dtype=np.float64),
        array=None if array is None else np.array(array),
        throttle=None if throttle is None else np.array(throttle),
    )
    return engine_case(cluster, [Request(("a",), (Chunk(1),)), Request(("b",), (Chunk(1),))], jobs)


ON_PEAK = PeakTimes(np.array([0]), np.array([Peak.ON_PEAK], dtype=np.int8))


def start_order(case, **changes):
    policy, scheduling = greedy(**changes)
    return np.argsort(replay_case(case, policy, scheduling, peaks=ON_PEAK).start_s, kind="stable").tolist()


def test_between_two_orders_later_jobs_find_the_site_s_place():
    case = small_case([0, 1, 2, 3, 23], [5, 9, 7, 8, 1])
    assert start_order(case) == [0, 2, 3, 4, 1]
    assert start_order(case, order_interval_s=4) == [0, 2, 3, 4, 1]
    # Nothing is ordered between 15 s and 30 s: the frugal job that comes at 23 s waits for its turn.
    assert start_order(small_case([0, 1, 2, 3, 16], [5, 9, 7, 8, 1]), order_interval_s=15) == [0, 1, 2, 4, 3]
    assert start_order(case, order_interval_s=1000) == [0, 1, 2, 3, 4]


def test_windows_do_not_mix_tiers():
    # Higher tiers go first, whatever the power.
    case = small_case([0, 1, 2, 3, 4], [5, 1, 2, 9, 8], partition=np.array([0, 0, 0, 1, 1]))
    assert start_order(case) == [0, 4, 3, 1, 2]
    assert start_order(case, window=2) == [0, 4, 3, 1, 2]


def test_the_waiting_tasks_of_an_array_move_together():
    case = small_case([0, 1, 1, 1, 2, 3], [5, 4, 4, 4, 9, 1], array=[-1, 7, 7, 7, -1, -1])
    assert start_order(case) == [0, 5, 1, 2, 3, 4]
    # The array is one of the two records of the window.
    case = small_case([0, 1, 1, 1, 2, 3], [5, 4, 4, 4, 2, 1], array=[-1, 7, 7, 7, -1, -1])
    assert start_order(case, window=2) == [0, 4, 5, 1, 2, 3]


def test_a_throttled_array_leaves_its_place_in_the_window():
    case = small_case([0, 0, 0, 1, 2], [5, 5, 5, 9, 1], nodes=2, array=[7, 7, -1, -1, -1], throttle=[1, 1, 0, 0, 0])
    assert start_order(case, window=2, order_interval_s=7) == [0, 2, 1, 4, 3]
