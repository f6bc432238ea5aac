"""The run times that a replay predicts for a what-if: those of the agent's predictor, without a look ahead."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import PLAIN, Log, log_of, logs, many, policy_of
from random_power import class_of

from offpeak.model.node_states import OFF
from offpeak.model.snapshot import ASSUMED_RUN_S, QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.predictors.run_times import chosen_run_time
from offpeak.settings.capacity import CapacitySettings
from offpeak.sim_backend.engine.case import NO_LIMIT, SubmittedJobs
from offpeak.sim_backend.engine.rules import EXACT_RUNTIME, NOT_YET
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered, unit_replay
from offpeak.sim_backend.replay.run_times import ReplayedRunTimes, RunningSince

JOBS = 400
NODE_CLASS = class_of((OFF, 2, 3))


def random_jobs(seed: int) -> tuple[SubmittedJobs, np.ndarray, np.ndarray, np.ndarray]:
    """Return jobs of six busy users and of users with one job, their submissions, starts and run times.

    The busy users repeat themselves, a tenth of the jobs has no limit, and some run longer than theirs.
    """
    random = np.random.default_rng(seed)
    user = np.where(random.random(JOBS) < 0.8, random.integers(0, 6, JOBS), 1000 + np.arange(JOBS))
    application = user * 10 + random.integers(0, 3, JOBS)
    usual_s = np.random.default_rng(1).integers(20, 4000, 20_000)
    run_s = np.maximum(usual_s[application] + random.integers(-20, 20, JOBS), 0)
    limit_s = np.where(random.random(JOBS) < 0.1, NO_LIMIT, random.integers(300, 20_000, JOBS))
    submit_s = np.sort(random.integers(0, 200_000, JOBS))
    start_s = submit_s + random.integers(0, 3000, JOBS) * random.integers(0, 2, JOBS)
    return SubmittedJobs(user, application, random.integers(1, 4, JOBS), limit_s), submit_s, start_s, run_s


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("period_s", [600, 40_000])
def test_they_are_those_of_the_agents_predictor(seed: int, period_s: int) -> None:
    jobs, submit_s, start_s, run_s = random_jobs(seed)
    questions, predictor = jobs.as_questions(), chosen_run_time()
    outcomes = replace(questions, runtime_s=run_s)
    replayed, used = ReplayedRunTimes(jobs, submit_s), set()
    events = sorted(
        [(int(at_s), 0, job) for job, at_s in enumerate(start_s + run_s)] +
        [(int(at_s), 1, job) for job, at_s in enumerate(submit_s)],
        key=lambda event: (event[0], event[1], event[2]),
    )  # fmt: skip
    ended_at_once = {job for job in range(JOBS) if start_s[job] + run_s[job] == submit_s[job]}
    for now_s in range(0, 260_000, period_s):
        while events and events[0][0] <= now_s:
            at_s, is_submission, job = events.pop(0)
            if job in ended_at_once and not is_submission:
                events.append((at_s, 2, job))
                events.sort()
                continue
            one = np.array([job])
            (predictor.predict if is_submission == 1 else predictor.learn)(
                (questions if is_submission == 1 else outcomes).take(one), at_s
            )
        submitted = int(np.searchsorted(submit_s, now_s, side="right"))
        begun = np.where(start_s <= now_s, start_s, NOT_YET)
        replayed.catch_up(begun, run_s, submitted, now_s)
        present = np.flatnonzero((np.arange(JOBS) < submitted) & ((begun == NOT_YET) | (start_s + run_s > now_s)))
        running, queued = present[begun[present] != NOT_YET], present[begun[present] == NOT_YET]
        end_s, expected_s = replayed.expected(RunningSince(running, start_s[running], now_s), queued)
        point = np.rint(predictor.predict(questions.take(present), now_s).point).astype(int)
        predicted_s = dict(zip(present.tolist(), point.tolist(), strict=True))
        limit_s = np.where(jobs.limit_s == NO_LIMIT, ASSUMED_RUN_S, jobs.limit_s).tolist()
        runs_s = {job: QueuedJobs.expected_run(each, limit_s[job]) for job, each in predicted_s.items()}
        assert expected_s.tolist() == [runs_s[job] for job in queued.tolist()]
        assert end_s.tolist() == [
            RunningJobs.expected_end(int(start_s[job]), runs_s[job], limit_s[job], now_s) for job in running.tolist()
        ]
        used.add(predictor.choice.used)
    assert len(used) > 1


def test_a_job_past_its_prediction_is_expected_to_end_at_its_limit() -> None:
    assert RunningJobs.expected_end(100, 50, 900, 149) == 150
    assert RunningJobs.expected_end(100, 50, 900, 150) == 1000
    assert RunningJobs.expected_end(100, 50, 900, 2000) == 1000
    assert [QueuedJobs.expected_run(*each) for each in ((50, 900), (5000, 900), (0, 900), (9, 0))] == [50, 900, 1, 1]


class Watch:
    """A decision that offers all nodes and keeps what it has seen."""

    def __init__(self) -> None:
        self.seen: list[Snapshot] = []

    def __call__(self, snapshot: Snapshot, /) -> CapacityTargets:
        self.seen.append(snapshot)
        return CapacityTargets(len(snapshot.node_state))


def watched(log: Log, watch: Watch, *, by_limits: bool = False, rules=PLAIN) -> np.ndarray:
    """Return the starts of a replay whose decisions are watched every two seconds."""
    machine = PoweredMachine(log.machine_size, 1, NODE_CLASS)
    capacity = policy_deciding(machine, watch, by_limits=by_limits)
    return replay_powered(log.jobs, log.node_power_w, machine, policy_of(rules), capacity).start_s


def policy_deciding(machine: PoweredMachine, watch: Watch, *, by_limits: bool) -> CapacityPolicy:
    fleet = Fleet(machine.size, 1, machine.node_class)
    return replace(
        make_capacity_policy("ols:2s", fleet, CapacitySettings(depths=("off",))), decide=watch, by_limits=by_limits
    )


def rows_of(snapshot: Snapshot) -> list:
    columns = (*vars(snapshot.running).values(), *vars(snapshot.queued).values())
    return [snapshot.now_s, *(column.tolist() for column in columns)]


@given(logs(shortest_s=1).map(many), st.data())
def test_no_decision_knows_the_end_of_a_job_that_has_not_ended(log: Log, data: st.DataObject) -> None:
    """Two logs that differ in what has not ended by a second are alike to all decisions up to it."""
    one, other = Watch(), Watch()
    start_s = watched(log, one)
    moment = one.seen[data.draw(st.integers(0, len(one.seen) - 1))].now_s
    has_ended = start_s + log.jobs.runtime_s <= moment
    later_s = np.maximum(moment - start_s, 0) + data.draw(st.integers(1, 50))
    run_s = np.where(has_ended, log.jobs.runtime_s, later_s)
    watched(replace(log, jobs=replace(log.jobs, runtime_s=run_s)), other)
    expected, found = ([rows_of(each) for each in watch.seen if each.now_s <= moment] for watch in (one, other))
    assert found == expected


@given(logs(shortest_s=1))
def test_by_limits_and_with_exact_estimates_it_is_what_the_scheduler_expects(log: Log) -> None:
    limits, exact = Watch(), Watch()
    watched(log, limits, by_limits=True)
    start_s = watched(log, exact, rules=PLAIN._replace(estimates=EXACT_RUNTIME))
    submitted = set(zip(log.jobs.submit_s.tolist(), log.jobs.size.tolist(), log.jobs.estimate_s.tolist(), strict=True))
    for snapshot in limits.seen:
        queued = snapshot.queued
        rows = zip(queued.submit_s.tolist(), queued.size.tolist(), queued.estimate_s.tolist(), strict=True)
        assert all(row in submitted for row in rows)
    ends_s = set((start_s + log.jobs.runtime_s).tolist())
    assert all(set(snapshot.running.expected_end_s.tolist()) <= ends_s for snapshot in exact.seen)


def test_the_run_time_of_a_job_without_a_limit_is_not_known() -> None:
    """The reader of a log gives such a job its run time as estimate."""
    watch, log = Watch(), log_of([(second, 30, 30, 1, 1) for second in range(20)], machine_size=2)
    machine = PoweredMachine(2, 1, NODE_CLASS)
    capacity = policy_deciding(machine, watch, by_limits=False)
    unlimited = log.jobs.job_id[::2]
    policy = replace(policy_of(PLAIN), capacity=(capacity,))
    unit_replay(log.jobs, log.node_power_w, machine, policy, without_limit=unlimited).run()
    seen_s = {
        job: run_s
        for snapshot in watch.seen
        for job, run_s in zip(snapshot.queued.submit_s.tolist(), snapshot.queued.estimate_s.tolist(), strict=True)
    }
    assert len(seen_s) > 10
    assert all(run_s == (30 if job % 2 else ASSUMED_RUN_S) for job, run_s in seen_s.items())
