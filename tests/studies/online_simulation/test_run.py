"""One experiment: the layout of a log, the decisions of OLS, weekly figures and the result."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.node_states import ACTIVE, OFF, asleep
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from offpeak.model.step_integrals import Usage
from offpeak.plugin.capacity.port import CapacityTargets
from offpeak.power.capacity.online_simulation import OnlineSimulation
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak_studies.logs import LogSource, read_log, shift_submissions
from offpeak_studies.online_simulation.plan import OnlineSubject, subjects_of
from offpeak_studies.online_simulation.run import (
    ALWAYS_ON,
    OLS,
    QUEUED_JOBS,
    SERVER,
    SLA,
    JudgesQueued,
    KnowsOtherwise,
    OnlineExperiment,
    OnlineResult,
    OnlineSetup,
    Weekly,
    arranged,
    known_otherwise,
    run,
    week_edges_s,
    weekly_active,
)
from offpeak_studies.workloads.generate import lublin_jobs


def result_of(subject: OnlineSubject, setup: OnlineSetup, replay: int = 0) -> OnlineResult:
    return run(OnlineExperiment(subject.name, 1, replay, setup), subject.log)


SETUPS = [
    OnlineSetup(100, ALWAYS_ON),
    OnlineSetup(100, "two-level:75"),
    OnlineSetup(100, OLS),
    OnlineSetup(100, "ols:1d", nodes=SERVER),
    OnlineSetup(100, OLS, estimates="user"),
    OnlineSetup(100, OLS, estimates="predicted"),
    OnlineSetup(90, OLS, first_day=8),
]


def test_the_measures_fit_each_other(subject: OnlineSubject) -> None:
    for setup in SETUPS:
        result = result_of(subject, setup)
        assert result.slowdown >= 1
        assert 0 <= result.violations <= 1
        assert 0 <= result.inactive < 1
        assert 0 < result.utilization <= 1
        assert 0 <= result.idle_saved < 1
        assert (result.cycles == 0) == (result.inactive == 0)
        weekly = result.weekly
        lengths = {len(series) for series in (weekly.slowdown, weekly.violations, weekly.utilization, weekly.active)}
        assert len(lengths) == 1
        assert all(0 <= active <= setup.size for active in weekly.active if active is not None)
        assert all(0 <= share <= 1 + 1e-5 for share in weekly.utilization if share is not None)


def test_active_weeks_are_the_active_share(subject: OnlineSubject) -> None:
    setup = OnlineSetup(100, OLS)
    result = result_of(subject, setup)
    active = np.array(result.weekly.active)
    mean = (1 - result.inactive) * setup.size
    # All weeks but the last are whole: it lies between the means with none and all of the last.
    ends = sorted([active[:-1].mean(), active.mean()])
    assert ends[0] - 1e-4 <= mean <= ends[1] + 1e-4


def test_sleep_transitions_and_seeds_change_the_result(subject: OnlineSubject) -> None:
    result = result_of(subject, OnlineSetup(100, ALWAYS_ON))
    assert (result.inactive, result.cycles, result.idle_saved) == (0, 0, 0)
    assert set(result.weekly.active) == {100.0}
    at_once, server = (
        result_of(subject, OnlineSetup(100, "two-level:75", nodes=nodes)) for nodes in ("instant", SERVER)
    )
    assert 0 < server.idle_saved < at_once.idle_saved
    assert result_of(subject, OnlineSetup(100)) == result_of(subject, OnlineSetup(100))
    assert result_of(subject, OnlineSetup(100)) != result_of(subject, OnlineSetup(100), replay=1)


def test_kth_is_like_the_paper(shared: Path) -> None:
    """Section 3 of the paper: about 10 % of processors inactive or more, slowdown below the SLA, 80 % utilization."""
    log = read_log(LogSource("KTH-SP2", shared / "data" / "traces" / "KTH-SP2.swf.gz"))
    (subject,) = subjects_of([log])
    every, low, ols = (result_of(subject, subject.setup(each)) for each in (ALWAYS_ON, subject.two_level, OLS))
    assert every.utilization == pytest.approx(0.69, abs=0.01)
    assert low.inactive > 0.1
    assert low.utilization > 0.8
    assert ols.inactive > 0.08
    assert every.slowdown < ols.slowdown < SLA


def test_ctc_sleeps_as_the_paper_says(shared: Path) -> None:
    """Utilization 55 % before, near 90 % with two levels; just above 55 % of the processors active with OLS."""
    log = read_log(LogSource("CTC-SP2", shared / "data" / "traces" / "CTC-SP2.swf.gz"))
    (subject,) = subjects_of([log])
    every, low, ols = (result_of(subject, subject.setup(each)) for each in (ALWAYS_ON, subject.two_level, OLS))
    assert every.utilization == pytest.approx(0.55, abs=0.01)
    assert low.inactive == pytest.approx(1 - 0.55 / 0.9, abs=0.05)
    assert ols.inactive == pytest.approx(0.42, abs=0.06)
    assert ols.slowdown < SLA


JOBS = lublin_jobs(300, machine_size=64, seed=1)


@given(st.integers(1, 64), st.integers(0, 3))
def test_wide_and_early_jobs_are_left_out(size: int, first_day: int) -> None:
    left = arranged(JOBS, OnlineSetup(size, first_day=first_day))
    assert (left.size <= size).all()
    assert (left.submit_s >= JOBS.submit_s[0] + first_day * DAY_S).all()
    if size == 64 and first_day == 0:
        assert len(left) == len(JOBS)


@given(st.integers(0, 1000))
def test_submissions_come_up_to_a_minute_later(seed: int) -> None:
    moved = shift_submissions(JOBS, np.random.default_rng(seed))
    assert (np.diff(moved.submit_s) >= 0).all()
    late_s = moved.submit_s[np.argsort(moved.job_id)] - JOBS.submit_s[np.argsort(JOBS.job_id)]
    assert late_s.min() >= 0
    assert late_s.max() <= 60


NODES = 4
ENTRIES = st.lists(
    st.tuples(st.integers(0, 40 * DAY_S), st.integers(0, NODES - 1), st.sampled_from([ACTIVE, asleep(OFF)])),
    max_size=20,
).map(sorted)


def node_log(entries: list[tuple[int, int, int]]) -> NodeLog:
    at_s, node, state = (np.array([entry[place] for entry in entries], np.int64) for place in range(3))
    return NodeLog(NODES, 1, at_s, node.astype(np.int32), state.astype(np.int8))


def usage(runs: list[tuple[int, int]], until_s: int) -> Usage:
    start_s = np.array([start for start, _ in runs], np.int64)
    end_s = np.minimum(start_s + np.array([length for _, length in runs], np.int64), until_s)
    return Usage(np.ones(len(runs), np.int64), np.ones(len(runs)), start_s, end_s, NODES, 1.0, 0, until_s)


@given(ENTRIES, st.integers(1, 40 * DAY_S))
def test_active_nodes_add_up(entries: list[tuple[int, int, int]], until_s: int) -> None:
    active, _ = weekly_active(usage([(0, until_s)], until_s), node_log(entries))
    asleep_s = 0
    for node in range(NODES):
        since_s, state = 0, ACTIVE
        for at_s, _, following in [entry for entry in entries if entry[1] == node] + [(until_s, node, ACTIVE)]:
            asleep_s += (min(at_s, until_s) - since_s) * (state != ACTIVE)
            since_s, state = min(at_s, until_s), following
    lengths_s = np.diff(week_edges_s(0, until_s))
    assert float(np.dot(active, lengths_s)) == pytest.approx(NODES * until_s - asleep_s)


@given(st.lists(st.tuples(st.integers(0, 20 * DAY_S), st.integers(0, 15 * DAY_S)), min_size=1, max_size=NODES))
def test_use_adds_up(runs: list[tuple[int, int]]) -> None:
    until_s = max(start + length for start, length in runs) + 1
    used = usage(runs, until_s)
    active, share = weekly_active(used, node_log([]))
    busy_s = np.dot(share * active, np.diff(week_edges_s(0, until_s)))
    assert float(busy_s) == pytest.approx(float((used.end_s - used.start_s).sum()))
    assert share.max() <= 1 + 1e-9


@given(st.integers(0, 10**6), st.integers(1, 60 * DAY_S))
def test_weeks_cover_the_period(begin_s: int, length_s: int) -> None:
    edges_s = week_edges_s(begin_s, begin_s + length_s)
    assert (edges_s[0], edges_s[-1]) == (begin_s, begin_s + length_s)
    assert np.diff(edges_s).min() > 0
    assert np.diff(edges_s).max() <= WEEK_S


NODES, NOW_S = 8, 100_000
RUNNING = st.lists(st.tuples(st.integers(1, 3), st.integers(0, NOW_S), st.integers(1, 9000)), max_size=2)
QUEUED = st.lists(st.tuples(st.integers(1, NODES), st.integers(0, NOW_S), st.integers(1, 9000)), max_size=6)
SLAS = st.sampled_from([1.0, 2.0, 10.0, 200.0])


def column(rows: list[tuple[int, ...]], place: int) -> Int64:
    return np.array([row[place] for row in rows], dtype=np.int64)


def cluster(running: list[tuple[int, int, int]], queued: list[tuple[int, int, int]]) -> Snapshot:
    """Jobs as (size, submitted, runs for); those that run started when they were submitted."""
    start_s = column(running, 1)
    state, ready_s = all_active(NODES, now_s=NOW_S)
    return Snapshot(
        NOW_S,
        1,
        state,
        ready_s,
        (0, 0, 0),
        RunningJobs(column(running, 0), start_s, start_s, start_s + column(running, 2)),
        QueuedJobs(column(queued, 0), column(queued, 1), column(queued, 2)),
    )


@given(RUNNING, QUEUED, SLAS)
def test_to_know_the_same_is_to_decide_the_same(
    running: list[tuple[int, int, int]], queued: list[tuple[int, int, int]], sla: float
) -> None:
    snapshot = cluster(running, queued)
    known = {(submit_s, size, run_s): run_s for size, submit_s, run_s in running + queued}
    decide = OnlineSimulation(sla)
    assert KnowsOtherwise(decide, known)(snapshot) == decide(snapshot)


@given(RUNNING, QUEUED, st.integers(2, 10))
def test_what_is_known_otherwise_is_what_is_seen(
    running: list[tuple[int, int, int]], queued: list[tuple[int, int, int]], times: int
) -> None:
    seen: list[Snapshot] = []

    def decide(snapshot: Snapshot) -> CapacityTargets:
        seen.append(snapshot)
        return CapacityTargets(0)

    known = {(submit_s, size, run_s): run_s * times for size, submit_s, run_s in running + queued}
    KnowsOtherwise(decide, known)(cluster(running, queued))
    assert seen[0].queued.estimate_s.tolist() == [run_s * times for _, _, run_s in queued]
    left_s = seen[0].running.expected_end_s - seen[0].running.start_s
    assert left_s.tolist() == [run_s * times for _, _, run_s in running]


@given(RUNNING, QUEUED, SLAS)
def test_running_jobs_soften_the_judgement(
    running: list[tuple[int, int, int]], queued: list[tuple[int, int, int]], sla: float
) -> None:
    """Those that run here have never waited, so without them the mean slowdown is no lower."""
    snapshot = cluster(running, queued)
    alone = JudgesQueued(sla)(snapshot).awake
    assert OnlineSimulation(sla)(snapshot).awake <= alone <= NODES
    assert alone >= snapshot.least_units or not queued


def test_what_ols_knows_of_a_log(subject: OnlineSubject) -> None:
    jobs = subject.log.trace.jobs
    known = known_otherwise(jobs, OnlineSetup(100, estimates="user", what_if="exact"))
    for at in range(len(jobs)):
        job = (int(jobs.submit_s[at]), int(jobs.size[at]), int(jobs.estimate_s[at]))
        assert job in known
    assert set(known.values()) <= set(jobs.runtime_s.tolist())


def test_a_replay_with_other_knowledge_or_judgement(subject: OnlineSubject) -> None:
    for setup in (
        OnlineSetup(100, OLS, estimates="user", what_if="exact"),
        OnlineSetup(100, "ols:1h", estimates="exact", what_if="user"),
        OnlineSetup(100, "ols:1h", judged=QUEUED_JOBS),
    ):
        result = run(OnlineExperiment(subject.name, 1, 0, setup), subject.log)
        assert 0 < result.inactive < 1


READ = TypeAdapter(OnlineResult).validate_python
SHARE = st.floats(0, 1)
BY_WEEK = st.lists(st.none() | st.floats(0, 1000), max_size=5).map(tuple)
WEEKLY = st.builds(Weekly, BY_WEEK, BY_WEEK, BY_WEEK, BY_WEEK)


@given(st.builds(OnlineResult, st.floats(1, 1e6), SHARE, SHARE, SHARE, SHARE, SHARE, WEEKLY))
def test_a_result_is_read_as_it_was_written(result: OnlineResult) -> None:
    assert READ(json.loads(json.dumps(asdict(result)))) == result


def test_invalid_result_is_refused() -> None:
    for kept in [{}, {"weekly": {}}, {"weekly": {"slowdown": [1.0]}, "slowdown": 1.0}]:
        with pytest.raises(ValidationError):
            READ(kept)
