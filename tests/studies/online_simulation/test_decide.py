"""OLS made otherwise, on random clusters."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.arrays import Int64
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from plugin.capacity.port import CapacityTargets
from power.capacity.online_simulation import OnlineSimulation
from studies.online_simulation.plan import OnlineSubject
from studies.online_simulation.run import (
    OLS,
    QUEUED_JOBS,
    JudgesQueued,
    KnowsOtherwise,
    OnlineExperiment,
    OnlineSetup,
    known_otherwise,
    run,
)

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
