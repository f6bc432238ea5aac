"""Replays jobs on a cluster of several pools under one policy: when each job starts, where, and what it costs."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.cluster import NO_TIMING, SchedulerTiming
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.state import (
    CONSERVATIVE,
    EASY,
    EXACT_RUNTIME,
    FCFS,
    FIRST_FIT,
    NEVER,
    NOT_YET,
    USER_ESTIMATE,
    PeakTimes,
)
from offpeak.sim_backend.engine.window import WindowJobs, decide_order
from offpeak.sim_backend.mixed.advance import DECIDE, FULL, advance
from offpeak.sim_backend.mixed.case import MixedCase
from offpeak.sim_backend.mixed.cells import new_picks
from offpeak.sim_backend.mixed.preemption import with_room
from offpeak.sim_backend.mixed.priorities import Priorities, advance_ranked
from offpeak.sim_backend.mixed.state import REQUEUED, MixedRules, MixedState, MixedWorkload, new_state
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.schedule import JOBS_PER_STEP, NO_PEAKS, JobPlaces, JobRuns, Schedule

RESERVATIONS = {FCFS: 0, EASY: 1, FIRST_FIT: 1, CONSERVATIVE: 100}
"""By discipline: of how many blocked jobs of each competition group the start is reserved by default."""


def rules_of(policy: Policy, timing: SchedulerTiming = NO_TIMING) -> MixedRules:
    """Return the rules of a policy for clusters of several pools. Raises BadInput for what these do not know."""
    rules = policy.rules
    if rules.discipline not in RESERVATIONS:
        raise BadInput(
            f"policy {policy.name!r} does not know several pools of nodes",
            hint="choose fcfs, easy, first-fit or conservative",
        )
    if rules.pass_per_event:
        raise BadInput(
            f"policy {policy.name!r}: several pools of nodes need passes once a second", hint="--passes second"
        )
    if rules.estimates not in (USER_ESTIMATE, EXACT_RUNTIME):
        raise BadInput(
            f"policy {policy.name!r}: run times are not predicted on several pools of nodes", hint="--estimates user"
        )
    plans_all = rules.discipline == CONSERVATIVE
    return MixedRules(
        reservations=timing.bf_most_jobs if plans_all and timing.bf_most_jobs else RESERVATIONS[rules.discipline],
        policy=rules.policy,
        window=rules.window,
        max_postponement_s=rules.max_postponement_s,
        sched_interval_s=timing.sched_interval_s or rules.period_s,
        bf_interval_s=timing.bf_interval_s,
        bf_resolution_s=timing.bf_resolution_s,
        completing_s=timing.completing_s,
        order_interval_s=timing.order_interval_s,
        end_window_s=timing.end_window_s,
        end_window_step_s=timing.end_window_step_s,
        boot_check_s=timing.boot_check_s,
        requeue_s=timing.requeue_s,
        ends_before=rules.discipline == FIRST_FIT,
    )


def knows_pools(policy: Policy) -> bool:
    """Return whether a policy has rules for clusters of several pools."""
    try:
        rules_of(policy)
    except BadInput:
        return False
    return True


def replay_mixed(
    case: MixedCase,
    policy: Policy,
    rules: MixedRules,
    *,
    peaks: PeakTimes = NO_PEAKS,
    priorities: Priorities | None = None,
    progress: Callable[[int], None] | None = None,
) -> Schedule:
    """Return the schedule of the case's jobs under the policy, by its `rules_of`.

    With `priorities` the ranks of the jobs follow from them instead of from the case. `progress` is called after each
    step of many jobs with the number of jobs submitted so far. Ctrl-C takes effect between steps.
    """
    begin = time.perf_counter()
    case = as_estimated(case, policy)
    workload = case.workload
    state = new_state(case.tables, workload, rules, new_picks(case.tables))
    if rules.policy == ARRIVAL:
        peaks = NO_PEAKS
    priority_state = priorities and priorities.initial_state(case)
    for until_s in (*workload.submit_s[JOBS_PER_STEP::JOBS_PER_STEP].tolist(), NEVER - 1):
        while (
            answer := advance_ranked(case.tables, workload, peaks, rules, state, priority_state, until_s=until_s)
            if priority_state
            else advance(case.tables, workload, peaks, rules, state, until_s)
        ) in (DECIDE, FULL):
            if answer == FULL:
                state = with_room(state, case.tables)
            else:
                decide_window(case, policy, rules, state, peaks)
        if progress:
            progress(int(state.scalars["next_job"][0]))
    return schedule_of(workload, state, time.perf_counter() - begin)


def schedule_of(workload: MixedWorkload, state: MixedState, simulate_s: float) -> Schedule:
    """Return the schedule that the state of an ended replay holds."""
    rows, stops = int(state.scalars["placements"][0]), int(state.scalars["stops"][0])
    job, start_s, stopped_s, mode = state.stops.rows[:stops].T
    lost, cancelled = (
        JobRuns(job[some], start_s[some], stopped_s[some]) for some in (mode == REQUEUED, mode != REQUEUED)
    )
    end_s = state.start_s + workload.runtime_s
    end_s[cancelled.job] = cancelled.end_s
    job = state.placements.job[:rows]
    run = job
    if len(lost.job):
        # Rows of a run are adjacent, and the runs of a job are in the order of their starts: the lost ones come first.
        is_first = np.diff(job, prepend=NOT_YET) != 0
        begun = np.flatnonzero(state.start_s != NOT_YET)
        numbers = np.append(len(state.start_s) + np.arange(len(lost.job)), begun)
        of_block = np.empty(len(numbers), dtype=np.int64)
        by_job = np.argsort(np.append(lost.job, begun), kind="stable")
        of_block[np.argsort(job[is_first], kind="stable")] = numbers[by_job]
        run = of_block[np.cumsum(is_first) - 1]
    places = JobPlaces(job, state.placements.pool[:rows], state.placements.nodes[:rows], run)
    return Schedule(state.start_s, end_s, simulate_s, lost=lost, cancelled=cancelled.job, places=places)


def as_estimated(case: MixedCase, policy: Policy) -> MixedCase:
    """Return the case with the run times and estimates that the policy sees, and ranks of its own."""
    workload = case.workload
    if policy.kill_at_estimate:
        workload = workload._replace(runtime_s=np.minimum(workload.runtime_s, workload.estimate_s))
    if policy.rules.estimates == EXACT_RUNTIME:
        workload = workload._replace(estimate_s=workload.runtime_s)
    rank, priority, fair_share = workload.rank.copy(), workload.priority.copy(), workload.fair_share.copy()
    return replace(case, workload=workload._replace(rank=rank, priority=priority, fair_share=fair_share))


def decide_window(case: MixedCase, policy: Policy, rules: MixedRules, state: MixedState, peaks: PeakTimes) -> None:
    """Let a policy from outside order a group's window. Sizes are in window units (see `Tables`)."""
    now, waiting = state.scalars[0], state.waiting
    job = waiting.job[state.window.position[: now["window"]]]
    decide_order(
        policy.window_policy,
        now,
        state.window,
        WindowJobs(case.job_id[job], case.workload.submit_s[job], case.workload.estimate_s[job]),
        passed_over_s=waiting.passed_over_s,
        peaks=peaks,
        rules=rules,
        free=int(now["free"]),
    )
