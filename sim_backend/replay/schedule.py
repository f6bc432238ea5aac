"""Replays a log under one policy: when would each job have started?

Boosted trees may predict run times meanwhile: they know only the jobs that have ended by then.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.predictors.job_history import jobs_at_submission
from offpeak.predictors.run_times import boosted_run_time
from offpeak.sim_backend.engine.advance import DECIDE, advance
from offpeak.sim_backend.engine.state import (
    FORESEEN_RUNTIME,
    NEVER,
    NOT_YET,
    PREDICTED_RUNTIME,
    PeakTimes,
    State,
    Workload,
    new_state,
)
from offpeak.sim_backend.engine.window import WindowJobs, decide_order
from offpeak.sim_backend.nodes.node_log import NodeLog, join_node_logs
from offpeak.sim_backend.replay.policy import Policy


def foreseeing_steps(jobs: Jobs, workload: Workload, state: State) -> Iterator[tuple[int, int]]:
    """Yield up to which second the engine is to go on, and how many jobs have been submitted by then.

    Before each step `workload.foreseen_s` is written of the jobs that are submitted in it: those of an hour, foreseen
    from the jobs that had ended before the first of them.
    """
    ended, predictor = replace(jobs, runtime_s=workload.runtime_s), boosted_run_time()
    submitted_jobs, awaited = jobs_at_submission(jobs), np.empty(0, dtype=np.int64)
    first = np.append(np.flatnonzero(np.diff(jobs.submit_s // HOUR_S, prepend=-HOUR_S)), len(jobs))
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        now_s = int(jobs.submit_s[begin])
        yield now_s - 1, begin
        over, awaited = _over(awaited, state.start_s, workload.runtime_s, now_s)
        predictor.learn(ended.take(over), now_s)
        block = np.arange(begin, end)
        median_s = predictor.predict(submitted_jobs.take(block), now_s).point
        workload.foreseen_s[block] = np.rint(median_s).astype(np.int64)
        awaited = np.append(awaited, block)
    yield NEVER - 1, len(jobs)


def _over(awaited: Int64, start_s: Int64, runtime_s: Int64, now_s: int) -> tuple[Int64, Int64]:
    """Return which of the jobs have ended before now, in the order of their ends, and the others."""
    end_s = np.where(start_s[awaited] == NOT_YET, NEVER, start_s[awaited] + runtime_s[awaited])
    is_over = end_s < now_s
    return awaited[is_over][np.argsort(end_s[is_over], kind="stable")], awaited[~is_over]


JOBS_PER_STEP = 50_000
NO_PEAKS = PeakTimes(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8))


Number = TypeVar("Number", bound=np.generic)


class JobRuns(NamedTuple):
    """Runs of jobs, by the number of the job and time [trace seconds]."""

    job: Int64
    start_s: Int64
    end_s: Int64


NO_RUNS = JobRuns(*(np.empty(0, dtype=np.int64) for _ in JobRuns._fields))


class JobPlaces(NamedTuple):
    """Where jobs ran: row i says that job `job[i]` had `nodes[i]` node equivalents of pool `pool[i]`.

    It had them during `run[i]`, a number in the `runs` of the schedule.
    """

    job: Int64
    pool: Int64
    nodes: Float64
    run: Int64


NO_PLACES = JobPlaces(NO_RUNS.job, NO_RUNS.job, np.empty(0), NO_RUNS.job)


@dataclass(frozen=True)
class Schedule:
    """When each job started and ended [trace seconds], in the order of the jobs; `simulate_s` the time it took.

    `lost` are the runs of jobs that were stopped for others and started anew, before their run from `start_s`;
    `cancelled` are the jobs that others ended. `places` are known where nodes differ or are shared. `node_logs` say
    what the nodes of each pool did, and `delay_s` how long sleeping nodes kept each job from starting, where they can
    sleep.
    """

    start_s: Int64
    end_s: Int64
    simulate_s: float
    lost: JobRuns = field(default=NO_RUNS, kw_only=True)
    cancelled: Int64 = field(default_factory=lambda: NO_RUNS.job, kw_only=True)
    places: JobPlaces = field(default=NO_PLACES, kw_only=True)
    node_logs: tuple[NodeLog, ...] = field(default=(), kw_only=True)
    delay_s: Int64 | None = field(default=None, kw_only=True)

    @property
    def node_log(self) -> NodeLog:
        """The log of all nodes; only where they can sleep."""
        return join_node_logs(self.node_logs)

    @property
    def sleep_delay_s(self) -> Int64:
        """How long sleeping nodes kept each job from starting [s]: 0 where none can sleep."""
        return np.zeros_like(self.start_s) if self.delay_s is None else self.delay_s

    @property
    def runs(self) -> JobRuns:
        """The last run of each job, in the order of the jobs, and behind them the lost ones."""
        last = JobRuns(np.arange(len(self.start_s)), self.start_s, self.end_s)
        if not len(self.lost.job):
            return last
        return JobRuns(*(np.append(own, lost) for own, lost in zip(last, self.lost, strict=True)))

    def by_run(self, of_jobs: NDArray[Number]) -> NDArray[Number]:
        """Return the values of jobs for each of the `runs`."""
        return of_jobs[self.runs.job] if len(self.lost.job) else of_jobs


def workload_of(jobs: Jobs, node_power_w: Float64, policy: Policy) -> Workload:
    """Return the jobs as the engine takes them: run times as they will be, users numbered from 0 if they matter."""
    runtime_s = np.minimum(jobs.runtime_s, jobs.estimate_s) if policy.kill_at_estimate else jobs.runtime_s
    user = jobs.user
    if policy.rules.estimates == PREDICTED_RUNTIME:
        user = np.unique(jobs.user, return_inverse=True)[1].astype(np.int64)
    foreseen_s = jobs.estimate_s.copy() if policy.rules.estimates == FORESEEN_RUNTIME else jobs.estimate_s
    return Workload(
        submit_s=jobs.submit_s,
        runtime_s=runtime_s,
        estimate_s=jobs.estimate_s,
        foreseen_s=foreseen_s,
        size=jobs.size,
        node_power_w=node_power_w,
        user=user,
    )


def replay(
    jobs: Jobs,
    node_power_w: Float64,
    *,
    machine_size: int,
    policy: Policy,
    peaks: PeakTimes = NO_PEAKS,
    progress: Callable[[int], None] | None = None,
) -> Schedule:
    """Return the schedule of `jobs`, none wider than `machine_size`; `node_power_w` is their draw per unit [W].

    `progress` is called after each step with the number of jobs submitted so far. Ctrl-C takes effect between steps.
    """
    begin = time.perf_counter()
    workload = workload_of(jobs, node_power_w, policy)
    state = new_state(workload, policy.rules, machine_size=machine_size)
    if policy.rules.policy == ARRIVAL:
        peaks = NO_PEAKS
    for until_s, submitted in steps(jobs, workload, policy, state):
        while advance(workload, peaks, policy.rules, state, None, until_s) == DECIDE:
            decide_window(workload, peaks, policy, state, jobs.job_id)
        if progress:
            progress(submitted)
    return Schedule(state.start_s, state.start_s + workload.runtime_s, time.perf_counter() - begin)


def steps(jobs: Jobs, workload: Workload, policy: Policy, state: State) -> Iterator[tuple[int, int]]:
    """Yield up to which second the engine is to go on, and how many jobs have been submitted by then."""
    if policy.rules.estimates == FORESEEN_RUNTIME:
        yield from foreseeing_steps(jobs, workload, state)
        return
    for last in range(JOBS_PER_STEP, len(jobs), JOBS_PER_STEP):
        yield int(jobs.submit_s[last]), last
    yield NEVER - 1, len(jobs)


def decide_window(workload: Workload, peaks: PeakTimes, policy: Policy, state: State, job_id: Int64) -> None:
    """Let a policy from outside order the window."""
    now, queue = state.scalars[0], state.queue
    position = state.window.position[: now["window"]]
    job = queue.job[position]
    decide_order(
        policy.window_policy,
        now,
        state.window,
        WindowJobs(job_id[job], workload.submit_s[job], queue.estimate_s[position]),
        passed_over_s=queue.passed_over_s,
        peaks=peaks,
        rules=policy.rules,
        free=int(now["free"]),
    )
