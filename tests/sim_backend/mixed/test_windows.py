"""Window policies order the jobs of each competition group; own policies are consulted through the port."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from random_clusters import cases
from random_logs import PLAIN, logs, policy_of, rules, starts

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.request import Chunk, Request
from offpeak.prices.peak import Peak
from plugin.window_policy import EXTERNAL, GREEDY, WindowPolicy
from sim_backend.engine.state import EASY, EXACT_RUNTIME, FCFS, USER_ESTIMATE, PeakTimes
from sim_backend.mixed.case import MixedJobs, mixed_case
from sim_backend.mixed.replay import replay_mixed, rules_of

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
    jobs = MixedJobs(
        job_id=np.arange(len(order)),
        submit_s=joined["submit_s"][order],
        runtime_s=joined["runtime_s"][order],
        estimate_s=joined["estimate_s"][order],
        request=np.array(number)[order],
        part_power_w=np.concatenate([log.node_power_w for log in both])[order],
    )
    case = mixed_case(cluster, [Request((str(group),), (Chunk(size),)) for group, size in requests], jobs)
    policy = policy_of(scheduling)
    start_s = replay_mixed(case, policy, rules_of(policy), peaks=one.peaks).start_s
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
    expected = replay_mixed(random.case, built_in, rules_of(built_in), peaks=on_peak)
    found = replay_mixed(random.case, own, rules_of(own), peaks=on_peak)
    assert found.start_s.tolist() == expected.start_s.tolist()
    assert all(view.peak == Peak.ON_PEAK and view.free >= 0 and (view.waited_s >= 0).all() for view in seen)
