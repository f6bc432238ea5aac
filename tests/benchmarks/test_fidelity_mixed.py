"""The mixed workload, the arithmetic of the comparison, and the parser of slurmctld's log."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from needed_programs import need
from slurm_fixtures import PACKAGES, PROGRAMS

from benchmarks.fidelity.compare import (
    IDLE_W,
    OFF_W,
    Run,
    figures,
    nearest,
    place_on_nodes,
    price_integral,
    put_to_sleep,
    saving,
    wake_delays_h,
    with_tail,
)
from benchmarks.fidelity.controller_log import ScriptRun, controller_timing, parse_controller_log
from benchmarks.fidelity.live import LiveRun, job_keys, live_run
from benchmarks.fidelity.replay import Clock, Timing, engine_start_h
from benchmarks.fidelity.report import Spread
from benchmarks.fidelity.workload import BATCH, GPU, HIGH, WHOLE, MixedDay, mixed_cluster, mixed_day

CLOCK = Clock(3.0)


@pytest.fixture(scope="module")
def day() -> MixedDay:
    return mixed_day()


def test_workload_is_mixed(day: MixedDay) -> None:
    partitions = [day.request_of(job).partitions[0] for job in range(len(day))]
    assert len(day) >= 600
    assert set(partitions) == {BATCH, WHOLE, GPU}
    assert {day.request_of(job).qos for job in range(len(day))} == {HIGH, "normal"}
    assert any(request.whole_nodes for request in day.requests)
    assert len({request.chunks[0].memory_mib for request in day.requests}) > 5
    assert {0, 2, 4} >= set(day.throttle.tolist()) > {0}
    assert (day.limit_h > day.run_h).all()
    assert (np.diff(day.submit_h) >= 0).all()


def test_workload_is_the_same_each_time_and_fits_the_cluster(day: MixedDay) -> None:
    again, other = mixed_day(), mixed_day(seed=1)
    assert np.array_equal(day.run_h, again.run_h)
    assert not np.array_equal(day.run_h, other.run_h)
    cluster = mixed_cluster()
    assert [reason for request in day.requests if (reason := cluster.misfit(request))] == []


def test_tasks_of_an_array_are_equal(day: MixedDay) -> None:
    tasks = np.flatnonzero(day.array == 0)
    assert len(tasks) >= 4
    assert (np.diff(tasks) == 1).all()
    for column in (day.submit_h, day.request, day.part_w, day.throttle):
        assert len(set(column[tasks].tolist())) == 1
    keys = job_keys(day)
    assert [keys[task][1] for task in tasks] == list(range(len(tasks)))
    assert len({keys[task][0] for task in tasks}) == 1
    assert len(set(keys)) == len(day)


def test_engine_starts_every_job(day: MixedDay) -> None:
    at_once = engine_start_h(day, CLOCK, "easy", Timing())
    late = engine_start_h(day, CLOCK, "easy", Timing(1.0, completing_s=0.5, launch_s=0.2))
    assert (at_once > day.submit_h - 0.01).all()
    assert late.mean() > at_once.mean()


def test_price_is_high_from_9_to_23() -> None:
    assert price_integral(np.array([0.0, 9.0, 10.0, 24.0])).tolist() == [0.0, 270.0, 360.0, 1560.0]


@pytest.fixture(scope="module")
def one_job(day: MixedDay) -> tuple[MixedDay, Run]:
    job = next(job for job in range(len(day)) if day.request_of(job).whole_nodes)
    only = MixedDay(
        day.requests,
        np.zeros(1),
        np.ones(1),
        np.ones(1),
        day.request[job : job + 1],
        np.array([500.0]),
        np.array([-1]),
        np.array([0]),
    )
    nodes = place_on_nodes(only, np.zeros(1), np.ones(1))
    return only, Run(np.zeros(1), np.ones(1), nodes)


def test_energy_of_one_job(one_job: tuple[MixedDay, Run]) -> None:
    day, run = one_job
    (nodes,) = run.nodes
    found = figures(day, run, 2.0)
    busy_w = 500.0 * len(nodes)
    watt_h = 2 * sum(IDLE_W.values()) + busy_w - sum(IDLE_W[node] for node in nodes)
    assert len(nodes) == day.request_of(0).chunks[0].copies
    assert found.energy_kwh == pytest.approx(watt_h / 1000)
    assert found.cost_eur == pytest.approx(watt_h / 1e6 * 30.0)
    assert saving(found, found._replace(cost_eur=found.cost_eur / 2)) == pytest.approx(0.5)


def test_nodes_sleep_in_their_gaps(one_job: tuple[MixedDay, Run]) -> None:
    day, run = one_job
    asleep = put_to_sleep(run, 4.0, after_h=0.5, shutdown_h=0.5)
    found = figures(day, Run(run.start_h, run.end_h, run.nodes, asleep), 4.0)
    used = len(run.nodes[0])
    assert found.asleep_node_h == pytest.approx(2.0 * used + 3.0 * (len(IDLE_W) - used))
    saved_wh = sum((IDLE_W[node] - OFF_W) * (2.0 if node in run.nodes[0] else 3.0) for node in IDLE_W)
    assert figures(day, run, 4.0).energy_kwh - found.energy_kwh == pytest.approx(saved_wh / 1000)


def test_jobs_wait_for_nodes_that_wake(one_job: tuple[MixedDay, Run]) -> None:
    _, run = one_job
    node = run.nodes[0][0]
    late = Run(run.start_h + 3.0, run.end_h + 3.0, run.nodes)
    delays_h = wake_delays_h(late, [(node, 1.0, 3.0)], lambda on_h: on_h + 0.5)
    assert delays_h.tolist() == [0.5]
    assert wake_delays_h(late, [("node99", 1.0, 3.0)], lambda on_h: on_h + 0.5).tolist() == [0.0]
    assert wake_delays_h(late, [(node, 0.5, 1.0)], lambda on_h: on_h + 0.5).tolist() == [0.0], "it woke for another job"


def test_nodes_sleep_on_after_the_last_job(one_job: tuple[MixedDay, Run]) -> None:
    _, run = one_job
    node, other = run.nodes[0][0], next(name for name in IDLE_W if name not in run.nodes[0])
    watched = replace(run, asleep=[(other, 0.2, 0.5), (node, 1.5, 1.6)])
    tail = [(node, 1.5, 9.0), (other, 1.2, 9.0)]
    assert with_tail(watched, tail).asleep == ((other, 0.2, 0.5), *tail)


def test_spread_of_replays() -> None:
    spread = Spread.of([3.0, 1.0, 2.0])
    assert f"{spread:.1f}" == "2.0 (1.0 to 3.0)"
    assert (1.0 in spread, 3.1 in spread) == (True, False)


def test_whole_nodes_are_hardly_ever_used_twice(day: MixedDay) -> None:
    start_h = engine_start_h(day, CLOCK, "easy", Timing())
    end_h = start_h + day.run_h
    nodes = place_on_nodes(day, start_h, end_h)
    shared = 0
    for job in np.flatnonzero([day.request_of(job).whole_nodes for job in range(len(day))]):
        overlaps = (start_h < end_h[job] - 0.01) & (end_h > start_h[job] + 0.01)
        overlaps[job] = False
        others = {node for other in np.flatnonzero(overlaps) for node in nodes[other]}
        shared += not others.isdisjoint(nodes[job])
    assert shared <= 4


def test_nearest_policy() -> None:
    rising = np.array([1.0, 2.0, 10.0, 11.0])
    name, found = nearest(rising**2, {"easy": rising, "greedy": -rising})
    assert (name, found) == ("easy", {"easy": 1.0, "greedy": -1.0})


LOG = """\
[2026-11-23T18:10:50.000] _slurm_rpc_submit_batch_job: JobId=3 InitPrio=5000 usec=300
[2026-11-23T18:10:50.100] _slurm_rpc_submit_batch_job: JobId=4 InitPrio=5000 usec=300
[2026-11-23T18:10:51.000] sched/backfill: _attempt_backfill: beginning
[2026-11-23T18:10:51.100] sched/backfill: _start_job: Started JobId=3_1(5) in batch on node2
[2026-11-23T18:10:53.000] sched/backfill: _attempt_backfill: beginning
[2026-11-23T18:10:54.000] sched: Allocate JobId=4 NodeList=node2 #CPUs=4 Partition=batch
slurmctld: sched: Allocate JobId=4 NodeList=node2 #CPUs=4 Partition=batch
"""


def test_controller_log() -> None:
    log = parse_controller_log(LOG)
    first = log.allocations[0, 1]
    assert (first.by_backfill, log.allocations[1, 0].by_backfill) == (True, False)
    begin_s = first.at_s
    runs = {
        (0, 1): ScriptRun(begin_s + 0.2, begin_s + 2.4, ["node2"]),
        (1, 0): ScriptRun(begin_s + 3.3, begin_s + 4, ["node2"]),
    }
    found = controller_timing(log, runs)
    assert (found.backfill_cycles, found.backfill_interval_s, found.starts_by_backfill) == (2, 2.0, 0.5)
    assert found.launch_s == pytest.approx(0.3)
    assert found.release_s == pytest.approx(0.5)


def test_empty_controller_log() -> None:
    found = controller_timing(parse_controller_log(""), {})
    assert (found.backfill_cycles, found.launch_s, found.release_s) == (0, 0.0, 0.0)


@pytest.mark.thorough
def test_a_few_mixed_jobs_start_alike(tmp_path: Path) -> None:
    need(PROGRAMS, packages=PACKAGES)
    few = mixed_day(40, 0.3)
    live_run(few, CLOCK, "greedy").write(tmp_path / "run.json")
    run = LiveRun.read(tmp_path / "run.json")
    assert len(run.start_h) == 40
    assert (np.array(run.start_h) > few.submit_h).all()
    assert all(set(nodes) <= set(IDLE_W) for nodes in run.nodes)
