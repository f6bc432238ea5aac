"""How near a replay is to the log: order of starts within days, use of partitions, and when a saving may be claimed."""

from dataclasses import replace

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from random_logs import log_of

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import LogNames
from offpeak.model.request import Chunk, Request
from offpeak.prices.alignment import LogSpan
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine
from offpeak.sim_backend.comparison.compare import Comparison, compare
from offpeak.sim_backend.comparison.likeness import (
    FEWEST_OF_A_DAY,
    Likeness,
    likeness_of,
    partition_uses,
    start_order,
    waits_are_near,
)
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.schedule import JobRuns

STARTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=80)


@given(STARTS)
def test_the_start_order_is_spearmans_within_days_of_submission(rows: list[tuple[int, int, int]]) -> None:
    day, logged, replayed = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    found, jobs = [], []
    for each in np.unique(day):
        some = day == each
        if some.sum() >= FEWEST_OF_A_DAY and len(set(logged[some])) > 1 and len(set(replayed[some])) > 1:
            found.append(scipy.stats.spearmanr(logged[some], replayed[some]).statistic)
            jobs.append(some.sum())
    order = start_order(day * DAY_S + 5, logged, replayed)
    if found:
        assert order == pytest.approx(np.average(found, weights=jobs))
    else:
        assert order is None


@pytest.mark.parametrize(
    ("logged_s", "replayed_s", "near"),
    [(0, 9000, True), (10, 69, True), (10, 71, False), (1000, 1490, True), (1000, 1510, False), (1510, 1000, False)],
)
def test_waits_are_near_up_to_half_as_long_again(logged_s: float, replayed_s: float, near: bool) -> None:
    assert waits_are_near(logged_s, replayed_s) == near


CLUSTER = Cluster(
    (
        Pool(NodeType(8), frozenset({"cpu", "all"}), 2),
        Pool(NodeType(8, gpus=(("a", 4),)), frozenset({"gpu", "all"}), 2),
    ),
    {name: Partition(name) for name in ("cpu", "gpu", "all")},
)
NAMES = LogNames(queue=("gpu", "cpu", "old"))


def compared(start_s: list[int], queue: list[int], **columns: object) -> Comparison:
    """Return the comparison of jobs of two hours on one of four nodes each, submitted at 0, that started then.

    The replay is on four equal nodes; the log is that of CLUSTER.
    """
    jobs = log_of([(0, 2 * HOUR_S, 2 * HOUR_S, 1, 100)] * len(start_s), machine_size=4).jobs
    jobs = replace(jobs, logged_start_s=np.array(start_s), queue=np.array(queue), **columns)
    prices = prices_of(LogSpan(0, 2 * HOUR_S), PriceSettings(), None)
    draw_w = np.full(len(jobs), 100.0)
    requests = (Request((), (Chunk(1, gpus=3),)),)
    case = ReplayCase(jobs, draw_w, ReplayMachine(4, 75.0), prices, None)
    comparison = compare(case, (parse_policy("easy", SchedulingSettings()),))
    return replace(comparison, case=replace(comparison.case, cluster=CLUSTER, requests=requests))


def test_what_partitions_used_by_the_log() -> None:
    comparison = compared([0, 0, HOUR_S, HOUR_S], [1, 1, 0, 2], request=np.array([-1, -1, 0, 0]))
    cpu, gpu, old = partition_uses(comparison, NAMES, 1)
    assert (cpu.partition, cpu.jobs, cpu.node_hours, cpu.gpu_hours, cpu.mean_wait_s) == ("cpu", 2, 4.0, 0.0, 0.0)
    assert (gpu.partition, gpu.jobs, gpu.node_hours, gpu.gpu_hours, gpu.mean_wait_s) == ("gpu", 1, 2.0, 6.0, HOUR_S)
    # The log lasts three hours; both nodes of cpu are busy for two of them.
    assert (cpu.utilization, gpu.utilization) == pytest.approx((2 / 3, 1 / 3))
    assert (cpu.replayed_utilization, gpu.replayed_utilization) == pytest.approx((2 / 3, 1 / 3))
    assert (old.partition, old.jobs, old.utilization, old.use_difference) == ("old", 1, None, None)


def test_a_partition_is_as_full_as_its_scarcest_resource() -> None:
    comparison = compared([0, 0, HOUR_S, HOUR_S], [1, 1, 0, 0], request=np.array([-1, -1, 0, 0]))
    jobs = replace(comparison.case.jobs, size=np.array([8, 8, 1, 1]))
    comparison = replace(comparison, case=replace(comparison.case, jobs=jobs))
    cpu, gpu = partition_uses(comparison, NAMES, 8)
    # Two of 16 cores and six of eight GPUs, for two of three hours.
    assert (gpu.counts_gpus, cpu.counts_gpus) == (True, False)
    assert (gpu.utilization, cpu.utilization) == pytest.approx((6 / 8 * 2 / 3, 2 / 3))
    assert gpu.node_hours == pytest.approx(2 * 2 / 8)


def test_a_partition_that_used_more_than_it_has_is_named() -> None:
    comparison = compared([0, 0, 0, 0], [1, 1, 0, 0], request=np.array([-1, -1, 0, 0]))
    requests = (Request((), (Chunk(1, gpus=9),)),)
    likeness = likeness_of(replace(comparison, case=replace(comparison.case, requests=requests)), NAMES, 1)
    assert likeness is not None
    assert likeness.differences == (
        "partition gpu used 225 % of its GPUs in the log: the cluster has too few, or the log is of a larger one",
    )
    assert not likeness.is_near


def test_a_replay_that_moves_work_to_another_day_is_not_near() -> None:
    comparison = compared([3 * DAY_S, 3 * DAY_S, 3 * DAY_S, 3 * DAY_S], [1, 1, 0, 0])
    likeness = likeness_of(comparison, NAMES, 1)
    assert likeness is not None
    assert not likeness.is_near
    assert likeness.partitions[0].use_difference > 0
    assert likeness.start_order is None
    near = likeness_of(compared([0, 0, 0, 0], [1, 1, 0, 0]), NAMES, 1)
    assert near is not None
    assert near.is_near
    assert near.partitions[0].use_difference == 0


def test_without_logged_starts_nothing_is_said_of_likeness() -> None:
    comparison = compared([-1, -1, -1, -1], [1, 1, 0, -1])
    assert likeness_of(comparison, NAMES, 1) is None
    cpu, gpu = partition_uses(comparison, NAMES, 1)
    assert (cpu.jobs, cpu.node_hours, cpu.utilization, cpu.mean_wait_s) == (2, 4.0, None, None)
    assert gpu.gpu_hours is None
    assert gpu.replayed_utilization == pytest.approx(0.5)


def test_a_start_order_like_another_disciplines_is_not_near() -> None:
    assert Likeness(100.0, 100.0, 0.85, ()).is_near
    far = Likeness(100.0, 100.0, 0.84, ())
    assert not far.is_near
    assert far.differences[0].startswith("the order in which a day's jobs start correlates 0.84 with that of the log")
    assert not Likeness(100.0, 1000.0, 1.0, ()).is_near


def test_runs_that_were_stopped_used_their_partition_too() -> None:
    comparison = compared([0], queue=[1])
    lost = JobRuns(np.array([0]), np.array([0]), np.array([HOUR_S]))
    run = replace(comparison.runs[0], schedule=replace(comparison.runs[0].schedule, lost=lost))
    (cpu,) = partition_uses(replace(comparison, runs=(run,)), NAMES, 1)
    assert (cpu.utilization, cpu.replayed_utilization) == (0.5, 0.75)
