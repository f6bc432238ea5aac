"""Comparisons on several pools whose nodes sleep: each by its class, and one pool as equal nodes are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.jobs import Trace
from offpeak.model.limits import PreemptMode
from offpeak.model.node_class_file import node_class_named
from offpeak.model.node_states import OFF, coming_up, going_down
from offpeak.model.request import Chunk, Request
from offpeak.power.capacity.levers import with_capacity
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import PowerSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import PoweredPools, ReplayCase, prepare
from offpeak.sim_backend.comparison.breakdown import breakdown
from offpeak.sim_backend.comparison.compare import compare, curve_of_run, usage_of
from offpeak.sim_backend.comparison.pools import pool_sleeps
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.workloads.generate import lublin_jobs

JOBS = lublin_jobs(200, machine_size=16, seed=3)
EASY = parse_policy("easy", SchedulingSettings())
SETTINGS = replace(
    Settings(), capacity=CapacitySettings(policies=("timeout:5min",)), power=PowerSettings(node_class="sketch")
)
ONE = Cluster((Pool(NodeType(0), frozenset(), 16),))
SEVERAL = Cluster(
    (
        Pool(NodeType(8, power_class="dune"), frozenset({"batch"}), 10),
        Pool(NodeType(8, 4096), frozenset({"batch", "shared"}), 4),
        Pool(NodeType(16, power_class="server"), frozenset({"shared"}), 2),
    ),
    {"batch": Partition("batch"), "shared": Partition("shared", shared=True)},
)


def case_of(cluster: Cluster, settings: Settings = SETTINGS) -> ReplayCase:
    trace = Trace("a log", JOBS, 16, None, None, None, units_per_node=1)
    return prepare(trace, settings, start=None, cluster=cluster).case


def engine_case(settings: Settings = SETTINGS, cluster: Cluster = SEVERAL) -> ReplayCase:
    requests = (
        Request(("batch",), (Chunk(1, 8),)),
        Request(("batch",), (Chunk(12, 8),)),
        Request(("shared",), (Chunk(1, 3),)),
    )
    numbers = np.where(JOBS.size > 4, 1, np.where(JOBS.size > 1, 0, 2))
    size = np.array([1, 12, 1])[numbers]
    jobs = replace(JOBS, request=numbers, size=size, partition=None)
    trace = replace(Trace("a log", jobs, 16, None, None, None, units_per_node=1), requests=requests)
    return prepare(trace, settings, start=None, cluster=cluster).case


@pytest.mark.parametrize("policy", ["timeout:5min", "green-pool:20%", "forecast:1h", "two-level:50%", "ols:1h"])
def test_one_pool_uses_what_equal_nodes_use(policy: str) -> None:
    equal = case_of(ONE)
    assert equal.nodes is not None
    pool = replace(equal, nodes=PoweredPools(equal.nodes.classes, (16,), 1))
    expected, found = (
        compare(case, (EASY, with_capacity(EASY, policy, case, SETTINGS.capacity))) for case in (equal, pool)
    )
    for one, other in zip(expected.outcomes, found.outcomes, strict=True):
        assert other == one


def test_each_pool_sleeps_by_its_class_and_the_parts_are_the_whole() -> None:
    case = engine_case()
    comparison = compare(case, (EASY, with_capacity(EASY, "timeout:5min", case, SETTINGS.capacity)))
    run, outcome = comparison.runs[1], comparison.outcomes[1]
    assert outcome.policy == "easy timeout:5min"
    assert run.sleep is not None
    rows = pool_sleeps(SEVERAL, run.sleep.pools)
    assert [row.power_class for row in rows] == ["dune", "sketch", "server"]
    assert all(0 < row.asleep_share < 1 for row in rows)
    assert outcome.energy_kwh < comparison.outcomes[0].energy_kwh
    days = breakdown(comparison, run, "day")
    assert sum(day.energy_kwh for day in days) == pytest.approx(outcome.energy_kwh)
    assert sum(day.cost for day in days) == pytest.approx(outcome.cost)
    curve = curve_of_run(usage_of(case, run.schedule, comparison.begin_s, comparison.until_s), run.sleep)
    joules = float((curve.total_w * np.diff(curve.edges_s)).sum())
    assert joules / 3.6e6 == pytest.approx(outcome.energy_kwh)


def preempting_case(settings: Settings, mode: PreemptMode, cluster: Cluster = SEVERAL) -> ReplayCase:
    """Return a case in which jobs of one partition stop those of the other, as all wait for nodes."""
    partitions = {
        "batch": Partition("batch", preempt_mode=mode),
        "shared": Partition("shared", shared=True, priority_tier=2, preempts=True),
    }
    case = engine_case(settings, replace(cluster, partitions=partitions))
    return replace(case, jobs=replace(case.jobs, submit_s=case.jobs.submit_s // 20))


@pytest.mark.parametrize("mode", [PreemptMode.REQUEUE, PreemptMode.CANCEL])
def test_runs_that_are_stopped_for_other_jobs_are_charged(mode: PreemptMode) -> None:
    pools = (pool._replace(node_type=pool.node_type._replace(power_class="")) for pool in SEVERAL.pools)
    case = preempting_case(Settings(), mode, replace(SEVERAL, pools=tuple(pools)))
    comparison = compare(case, (EASY,))
    run, outcome = comparison.runs[0], comparison.outcomes[0]
    job, start_s, end_s = run.schedule.runs
    used_s = case.jobs.size[job] * (end_s - start_s)
    lost_s = used_s[len(case.jobs) :]
    cut_s = used_s[end_s < start_s + case.jobs.runtime_s[job]]
    assert (len(lost_s) == 0) == (mode is PreemptMode.CANCEL)
    assert outcome.stopped_runs == len(cut_s) > 0
    # Jobs on shares of nodes stop others, and are not stopped.
    assert outcome.stopped_node_h == pytest.approx(cut_s.sum() / 3600)
    share = used_s.sum() / (case.machine.size * outcome.makespan_s)
    assert outcome.utilization == pytest.approx(share)
    jobs_j = (case.node_power_w[job] * used_s).sum()
    idle_j = case.machine.idle_w * (16 * (comparison.until_s - comparison.begin_s) - used_s.sum())
    assert outcome.energy_kwh == pytest.approx((jobs_j + idle_j) / 3.6e6)
    assert sum(day.energy_kwh for day in breakdown(comparison, run, "day")) == pytest.approx(outcome.energy_kwh)
    assert sum(row.energy_kwh for row in breakdown(comparison, run, "class")) == pytest.approx(jobs_j / 3.6e6)


def test_runs_that_are_stopped_are_charged_on_nodes_that_sleep_too() -> None:
    case = preempting_case(SETTINGS, PreemptMode.REQUEUE)
    comparison = compare(case, (EASY, with_capacity(EASY, "timeout:5min", case, SETTINGS.capacity)))
    for run, outcome in zip(comparison.runs, comparison.outcomes, strict=True):
        assert outcome.stopped_runs == len(run.schedule.lost.job) > 0
        job, start_s, end_s = run.schedule.runs
        jobs_j = (case.node_power_w[job] * case.jobs.size[job] * (end_s - start_s)).sum()
        assert run.charges.energy.jobs == pytest.approx(jobs_j)
        curve = curve_of_run(usage_of(case, run.schedule, comparison.begin_s, comparison.until_s), run.sleep)
        assert float((curve.total_w * np.diff(curve.edges_s)).sum()) / 3.6e6 == pytest.approx(outcome.energy_kwh)


def test_a_pool_of_a_class_without_sleep_stays_on(tmp_path: Path) -> None:
    file = tmp_path / "awake.toml"
    file.write_text('idle = "100W"\nrunning = [[0.0, "100W"], [1.0, "200W"]]\n')
    case = engine_case()
    assert case.nodes is not None
    awake = node_class_named(str(file))
    case = replace(case, nodes=replace(case.nodes, classes=(awake, *case.nodes.classes[1:])))
    run = compare(case, (with_capacity(EASY, "energy-aware", case, SETTINGS.capacity),)).runs[0]
    assert run.sleep is not None
    first, second, _ = pool_sleeps(SEVERAL, run.sleep.pools)
    assert first.asleep_node_h == 0 < second.asleep_node_h


def test_a_plan_of_the_queue_is_refused() -> None:
    case = engine_case()
    with pytest.raises(BadInput, match="a job keeps the nodes that are woken for it"):
        compare(case, (with_capacity(EASY, "forecast-late:1h", case, CapacitySettings()),))


def test_bounds_on_sleeps_and_wakes_hold_for_all_pools_together() -> None:
    case = engine_case()
    most = []
    for settings in (CapacitySettings(), CapacitySettings(sleeps_per_min=3, wakes_per_min=2)):
        logs = compare(case, (with_capacity(EASY, "timeout:5min", case, settings),)).runs[0].schedule.node_logs
        for begins in (going_down(OFF), coming_up(OFF)):
            minute = np.concatenate([log.at_s[log.state == begins] for log in logs]) // 60
            most.append(int(np.bincount(minute - minute.min()).max()))
    assert most == [15, 12, 3, 2]


def test_numbers_of_nodes_are_those_of_the_cluster() -> None:
    case = engine_case()
    policy = with_capacity(EASY, "green-pool:8", case, CapacitySettings(keep_hot=4))
    assert [int(each.schedule.reserve[0]) for each in policy.capacity] == [5, 2, 1]
    assert [each.rules.keep_hot for each in policy.capacity] == [3, 1, 0]


@pytest.mark.parametrize("cluster", [SEVERAL, Cluster((Pool(NodeType(0, power_class="dune"), frozenset(), 16),))])
def test_the_same_nodes_draw_the_same_where_none_may_sleep(cluster: Cluster) -> None:
    """Whether a capacity policy is compared or not, and whatever `estimate` says of the log as it was."""
    compared = replace(Settings(), capacity=CapacitySettings(policies=("always-on", "timeout:5min")))
    plain, asked = (
        (engine_case(each) if cluster is SEVERAL else case_of(cluster, each)) for each in (Settings(), compared)
    )
    assert plain.nodes == asked.nodes
    assert plain.machine == asked.machine
    idle_w = [node_class_named(pool.node_type.power_class or "server").idle_w for pool in cluster.pools]
    # That of a node without a class is scaled to the power that is assumed of any node.
    idle_w = [each if pool.node_type.power_class else 75.0 for each, pool in zip(idle_w, cluster.pools, strict=True)]
    mean_w = np.average(idle_w, weights=[pool.nodes for pool in cluster.pools])
    assert plain.machine.idle_w == pytest.approx(mean_w)
    costs = [compare(case, (EASY,)).outcomes[0].cost for case in (plain, asked)]
    assert costs[0] == costs[1] > 0
