"""The mixed workload, the arithmetic of the comparison, and the parser of slurmctld's log."""

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from needed_programs import need
from slurm_fixtures import PACKAGES, PROGRAMS
from study_tables import stored

from benchmarks.fidelity.compare import Figures, figures, nearest, price_integral, saving
from benchmarks.fidelity.controller_log import ScriptRun, controller_timing, parse_controller_log
from benchmarks.fidelity.live import LiveRun, job_keys, live_run
from benchmarks.fidelity.replay import (
    BF_RESOLUTION_S,
    END_WINDOW_S,
    Asleep,
    Clock,
    Sleep,
    Timing,
    engine_run,
)
from benchmarks.fidelity.report import (
    CLOCKS_HEAD,
    Spread,
    chance_of_ratio,
    limited_lines,
    live_to_run,
    median_wait_h,
    report_lines,
    write_clocks,
)
from benchmarks.fidelity.workload import BATCH, GPU, GROUPS, HIGH, OFF_W, WHOLE, MixedDay, mixed_cluster, mixed_day

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
    at_once = engine_run(day, CLOCK, "easy", Timing()).start_h
    late = engine_run(day, CLOCK, "easy", Timing(1.0, completing_s=0.5, launch_s=0.2)).start_h
    assert (at_once > day.submit_h - 0.01).all()
    assert late.mean() > at_once.mean()


def test_price_is_high_from_9_to_23() -> None:
    assert price_integral(np.array([0.0, 9.0, 10.0, 24.0])).tolist() == [0.0, 270.0, 360.0, 1560.0]


IDLE_W = sum(group.nodes * group.idle_w for group in GROUPS)
NODES = sum(group.nodes for group in GROUPS)
NO_LOG = controller_timing(parse_controller_log(""), {})


def jobs_of(day: MixedDay, job: int, submit_h: list[float]) -> MixedDay:
    """Return jobs of an hour with the request of that job."""
    ones = np.ones(len(submit_h))
    return MixedDay(
        day.requests,
        np.array(submit_h),
        ones,
        ones,
        np.full(len(submit_h), day.request[job]),
        500.0 * ones,
        np.full(len(submit_h), -1),
        np.zeros(len(submit_h), dtype=np.int64),
    )


@pytest.fixture(scope="module")
def whole_job(day: MixedDay) -> int:
    return next(job for job in range(len(day)) if day.request_of(job).whole_nodes)


def test_energy_of_one_job(day: MixedDay, whole_job: int) -> None:
    only = jobs_of(day, whole_job, [0.0])
    found = figures(only, engine_run(only, CLOCK, "easy", Timing()), 2.0)
    nodes = only.request_of(0).chunks[0].copies
    watt_h = 2 * IDLE_W + 500.0 * nodes - GROUPS[0].idle_w * nodes
    assert found.energy_kwh == pytest.approx(watt_h / 1000)
    assert found.cost_eur == pytest.approx(watt_h / 1e6 * 30.0)
    assert saving(found, found._replace(cost_eur=found.cost_eur / 2)) == pytest.approx(0.5)


def test_nodes_sleep_in_their_gaps(day: MixedDay, whole_job: int) -> None:
    only = jobs_of(day, whole_job, [0.0])
    run = engine_run(only, CLOCK, "easy", Timing(), sleep=Sleep(0.5, shutdown_s=0.5 * CLOCK.hour_s))
    found = figures(only, run, 4.0)
    used = only.request_of(0).chunks[0].copies
    assert found.asleep_node_h == pytest.approx(2.0 * used + 3.0 * (NODES - used))
    saved_wh = 3.0 * (IDLE_W - NODES * OFF_W) - used * (GROUPS[0].idle_w - OFF_W)
    awake = figures(only, engine_run(only, CLOCK, "easy", Timing()), 4.0)
    assert awake.energy_kwh - found.energy_kwh == pytest.approx(saved_wh / 1000)
    assert found.off_eur == pytest.approx(awake.cost_eur - found.cost_eur)


def test_jobs_wait_for_nodes_that_wake(day: MixedDay, whole_job: int) -> None:
    two = jobs_of(day, whole_job, [0.0, 12.0])
    run = engine_run(two, CLOCK, "easy", Timing(), sleep=Sleep(1.0, boot_s=1.0, check_s=30))
    assert run.start_h.tolist() == [0.0, 20.0], "it came at 36 s, and the next check is at 60 s"
    assert engine_run(two, CLOCK, "easy", Timing(), sleep=Sleep(15.0)).start_h.tolist() == [0.0, 12.0]


def test_limited_capacity_lets_jobs_wait_while_the_slowdown_allows() -> None:
    few = mixed_day(20, 0.3)
    until_h = float(few.submit_h[-1])
    limited = engine_run(few, CLOCK, "conservative", Timing(), sleep=Sleep(1.0, limited=True, check_s=0))
    at_once = engine_run(few, CLOCK, "conservative", Timing(), sleep=Sleep(0.0, check_s=0))
    asleep_h = [figures(few, run, until_h).asleep_node_h for run in (limited, at_once)]
    assert asleep_h[0] > asleep_h[1] > 0
    assert limited.start_h.mean() > at_once.start_h.mean()
    off = [("node1", 0.0, until_h + 1.0)]
    nodes = [["node1"] for _ in range(len(few))]
    run = LiveRun("limited", 3.0, few.submit_h.tolist(), (few.submit_h + 1).tolist(), nodes, off, NO_LOG, [0.0] * 3, "")
    with mock.patch("benchmarks.fidelity.report.REPLAYS", 1):
        head, asleep, mean, worst = limited_lines(few, [run])
    assert head.startswith("limited capacity, an hour in 3 s")
    assert f"node hours asleep: live {until_h:.2f}, engine" in asleep
    assert "mean slowdown: live 1.00, engine" in mean
    assert "worst slowdown: live 1.00, engine" in worst


def test_nodes_sleep_on_after_the_last_job_of_a_live_run(day: MixedDay, whole_job: int) -> None:
    only = jobs_of(day, whole_job, [0.0])
    off = [("node2", 0.2, 0.5), ("node1", 1.5, 1.6)]
    run = LiveRun("sleeping", 3.0, [0.0], [1.0], [["node1"]], off, NO_LOG, [0.0] * 3, "")
    found = live_to_run(only, run)
    first, tail, *others = found.asleep
    assert (first, tail.idle_w, tail.from_h) == (Asleep(100.0, 0.2, 0.5), 100.0, pytest.approx(2.0 + 0.5 / 3.0))
    assert len(others) == NODES - 1
    assert found.replaced_w.tolist() == [100.0]


def test_savings_of_several_runs() -> None:
    few = mixed_day(40, 0.3)
    order = engine_run(few, CLOCK, "conservative", Timing(1.0, end_window_s=30))
    nodes = [[f"node{1 + 12 * bool(few.request_of(job).chunks[0].gpus)}"] for job in range(len(few))]
    runs = [
        LiveRun(policy, 3.0, order.start_h.tolist(), order.end_h.tolist(), nodes, [], NO_LOG, [0.0] * 3, "")
        for policy in ("own", "greedy", "greedy")
    ]
    with mock.patch("benchmarks.fidelity.report.REPLAYS", 3):
        lines = list(report_lines(few, runs))
    assert sum(line.startswith(("own, an hour", "greedy, an hour")) for line in lines) == 3
    (money,) = (at for at, line in enumerate(lines) if line.startswith("greedy, 2 runs against 1 of the own order"))
    assert "saving live 0.00% by the means" in lines[money + 2]


def test_chance_of_few_runs() -> None:
    def cost(eur: float) -> Figures:
        return Figures(0.0, eur, 0.0, 0.0, 0.0)

    assert chance_of_ratio([cost(100)], [cost(80), cost(100)], (1, 1), 0.1) == (0.0, pytest.approx(2.0))
    assert chance_of_ratio([cost(100)], [cost(90)], (2, 3), 0.1) == (pytest.approx(1.0), pytest.approx(1.0))


def test_spread_of_replays() -> None:
    spread = Spread.of([3.0, 1.0, 2.0])
    assert f"{spread:.1f}" == "2.0 (1.0 to 3.0)"
    assert (1.0 in spread, 3.1 in spread) == (True, False)


def test_nearest_policy() -> None:
    rising = np.array([1.0, 2.0, 10.0, 11.0])
    name, found = nearest(rising**2, {"easy": rising, "greedy": -rising})
    assert (name, found) == ("easy", {"easy": 1.0, "greedy": -1.0})


@pytest.mark.thorough
def test_clocks_table_comes_out_again(day: MixedDay) -> None:
    head, *rows = stored("fidelity/clocks")
    assert tuple(head) == CLOCKS_HEAD
    row = dict(zip(head, rows[0], strict=True))
    hour_s, *timing_s = (float(row[name].removesuffix(" s")) for name in head[:5] if name != "load average")
    timing = Timing(timing_s[0], timing_s[2], timing_s[1], 0.0, END_WINDOW_S, BF_RESOLUTION_S)
    waits_h = [median_wait_h(day, Clock(hour_s), each) for each in (Timing(), timing)]
    assert [f"{each:.2f} h" for each in waits_h] == [rows[0][6], rows[0][-1]]


def test_clocks_table_of_runs(tmp_path: Path) -> None:
    few = mixed_day(20, 0.3)
    end_h = (few.submit_h + 2).tolist()
    run = LiveRun("own", 3.0, (few.submit_h + 1).tolist(), end_h, [["node1"]] * len(few), [], NO_LOG, [0.0] * 3, "")
    with mock.patch("benchmarks.fidelity.report.REPLAYS", 1):
        write_clocks(few, [run, run], tmp_path / "clocks.csv")
    head, *rows = (tmp_path / "clocks.csv").read_text().splitlines()
    assert head == ",".join(CLOCKS_HEAD)
    assert rows[0].startswith("3 s,0.0,0.00 s,0.00 s,0.00 s,1.00 h,")
    assert rows[0] == rows[1]
    with pytest.raises(SystemExit, match="not of greedy"):
        write_clocks(few, [replace(run, policy="greedy")], tmp_path / "clocks.csv")
    assert (tmp_path / "clocks.csv").read_text().splitlines() == [head, *rows]


LOG = """\
[2026-11-23T18:10:50.000] _slurm_rpc_submit_batch_job: JobId=3 InitPrio=5000 usec=300
[2026-11-23T18:10:51.000] sched/backfill: _attempt_backfill: beginning
[2026-11-23T18:10:51.100] sched/backfill: _start_job: Started JobId=3_1(5) in batch on node2
[2026-11-23T18:10:53.000] sched/backfill: _attempt_backfill: beginning
[2026-11-23T18:10:54.000] sched: Allocate JobId=4 NodeList=node2 #CPUs=4 Partition=batch
slurmctld: sched: Allocate JobId=4 NodeList=node2 #CPUs=4 Partition=batch
[2026-11-23T18:10:50.100] _slurm_rpc_submit_batch_job: JobId=4 InitPrio=5000 usec=300
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
    names = {f"node{number}" for number in range(1, NODES + 1)}
    assert all(set(nodes) <= names for nodes in run.nodes)
