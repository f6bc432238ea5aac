"""The what-if of a number of units on offer: runs the scheduling engine on from a snapshot.

It returns when each known job starts, and how long one more job would wait.

Source: Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS 2005,
section 3.3. Each job runs for its estimate, at least a second; a job that has outlived it ends in a second; no more
jobs are submitted. Nodes on offer that are asleep or in transition are woken now and join when they are up.

Until it starts, one more job behind all others of an EASY schedule holds nothing and comes last in every pass, so it
does not affect the others: one schedule without it suffices for any number of jobs, each considered alone. The first
waiting job starts at its reservation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.compiled import kernel
from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.snapshot import Snapshot
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.case import unit_workload
from offpeak.sim_backend.engine.resume import resumed_state
from offpeak.sim_backend.engine.rules import EXACT_RUNTIME, NEVER, NO_PEAKS
from offpeak.sim_backend.engine.state import Tables, Workload
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.replay.replay import unit_rules_of

UNKNOWN = np.iinfo(np.int64).min

EASY_POLICY = parse_policy("easy", SchedulingSettings())
NOTHING = np.empty(0, dtype=np.int64)


class KnownSchedule(NamedTuple):
    """Jobs as columns: first those that hold units, then those that wait, in the order of the queue."""

    start_s: Int64
    end_s: Int64
    size: Int64


class FreeUnitsSeries(NamedTuple):
    """The state after the pass of each second with an end: free units, and the first job that still waits.

    `extra` is the number of units that its reservation leaves over; UNKNOWN until needed.
    """

    at_s: Int64
    free: Int64
    first: Int64
    extra: Int64


@kernel
def start_times_of_one_more(known: KnownSchedule, now_s: int, units: int, size: Int64, estimate_s: Int64) -> Int64:
    """Return when each of n jobs, none wider than `units`, would start: int64[n]."""
    free_units = _free_units_series(known, now_s, units)
    start_s = np.empty_like(size)
    for number in range(len(size)):
        step = 0
        while not _start_times(known, free_units, step, units, size[number], estimate_s[number]):
            step += 1
        start_s[number] = free_units.at_s[step]
    return start_s


@kernel
def _free_units_series(known: KnownSchedule, now_s: int, units: int) -> FreeUnitsSeries:
    jobs = len(known.size)
    by_start, by_end = np.argsort(known.start_s, kind="mergesort"), np.argsort(known.end_s, kind="mergesort")
    at_s = np.unique(np.append(known.end_s, now_s))
    free, first = np.empty_like(at_s), np.empty_like(at_s)
    started = ended = waiting = 0
    left = units
    for step in range(len(at_s)):
        while started < jobs and known.start_s[by_start[started]] <= at_s[step]:
            left -= known.size[by_start[started]]
            started += 1
        while ended < jobs and known.end_s[by_end[ended]] <= at_s[step]:
            left += known.size[by_end[ended]]
            ended += 1
        while waiting < jobs and known.start_s[waiting] <= at_s[step]:
            waiting += 1
        free[step], first[step] = left, waiting
    return FreeUnitsSeries(at_s, free, first, np.full(len(at_s), UNKNOWN))


@kernel
def _start_times(
    known: KnownSchedule, free_units: FreeUnitsSeries, step: int, units: int, size: int, estimate_s: int
) -> bool:
    """Tell whether the job would start in this pass, beside the first waiting job or as the first one itself."""
    if size > free_units.free[step]:
        return False
    first = free_units.first[step]
    if first == len(known.size) or free_units.at_s[step] + estimate_s <= known.start_s[first]:
        return True
    if free_units.extra[step] == UNKNOWN:
        free_units.extra[step] = (
            units - known.size[first] - _held_beyond(known, free_units.at_s[step], known.start_s[first])
        )
    return bool(size <= free_units.extra[step])


@kernel
def _held_beyond(known: KnownSchedule, at_s: int, until_s: int) -> int:
    """Return how many units jobs that run at `at_s` hold beyond `until_s`."""
    held = 0
    for job in range(len(known.size)):
        if known.start_s[job] <= at_s and known.end_s[job] > until_s:
            held += known.size[job]
    return held


@dataclass(frozen=True, eq=False)
class WhatIfPlan:
    """The result of the engine for a snapshot with `units` on offer.

    `start_s` and `end_s` hold the running jobs, then the queued ones, each in the snapshot's order. `slowdown`, 1 +
    wait / max(10 s, run) as in offpeak.model.schedule_metrics.bounded_slowdown_by_delay, and `mean_wait_s` are means
    over all of them; 1 and 0 without jobs. `until_s` is the last end, or `now_s` without jobs.
    """

    units: int
    start_s: Int64
    end_s: Int64
    slowdown: float
    mean_wait_s: float
    until_s: int


def simulate_units(snapshot: Snapshot, units: int, *, policy: Policy = EASY_POLICY) -> WhatIfPlan:
    """Return how the jobs of the snapshot would run with `units` on offer.

    Raises BadInput for fewer units than are in use or a queued job needs, or for more than exist. The policy has no
    window, and is not conservative: the promises to the queued jobs are unknown.
    """
    check_units(snapshot, units)
    known = make_workload(snapshot, units)
    return make_whatif_plan(snapshot, units, all_start_s(known, policy, snapshot.now_s)[known.holders :])


class KnownJobs(NamedTuple):
    """The jobs as the engine takes them; the first `holders` of them hold their units already."""

    tables: Tables
    workload: Workload
    holders: int


def all_start_s(known: KnownJobs, policy: Policy, now_s: int) -> Int64:
    """Return when the engine starts each job: all submitted at once, the first `holders` started."""
    workload = known.workload
    if known.holders == len(workload.submit_s):
        return workload.submit_s
    rules = unit_rules_of(policy)._replace(estimates=EXACT_RUNTIME)
    state = resumed_state(known.tables, workload, rules, holders=known.holders, now_s=now_s)
    advance(known.tables, workload, NO_PEAKS, rules, state, NEVER - 1)
    return state.start_s


def check_units(snapshot: Snapshot, units: int) -> None:
    """Raise BadInput unless the jobs of the snapshot can run on `units` of its units."""
    least, most = snapshot.least_units, snapshot.usable_units
    if least > most:
        hint = "jobs wider than the nodes that have not failed cannot be planned: leave them out, or repair nodes"
        raise BadInput(f"jobs need {least:,} units and {most:,} are usable", hint=hint)
    if not least <= units <= most:
        raise BadInput(f"{units:,} units on offer cannot be planned with", hint=f"take {least:,} to {most:,}")


def make_workload(snapshot: Snapshot, units: int) -> KnownJobs:
    """Return the jobs of the snapshot on so many units.

    Those that hold units are the running jobs, then placeholders for the units of nodes on offer that are not up yet.
    """
    sleeping, awake_after_s = find_sleeping_units(snapshot, units)
    left_s = np.maximum(snapshot.running.expected_end_s - snapshot.now_s, 1)
    runtime_s = np.concatenate([left_s, awake_after_s, np.maximum(snapshot.queued.estimate_s, 1)])
    size = np.concatenate([snapshot.running.size, sleeping, snapshot.queued.size])
    submit_s = np.full(len(size), snapshot.now_s)
    tables, workload = unit_workload((submit_s, runtime_s, runtime_s), size, units)
    return KnownJobs(tables, workload, len(left_s) + len(sleeping))


def find_sleeping_units(snapshot: Snapshot, units: int) -> tuple[Int64, Int64]:
    """Return how many of the `units` that are up soonest are not up yet, and after how many seconds they will be.

    Jobs hold units of nodes that are up, and of nodes that come up for them only if those are too few.
    """
    if not snapshot.node_state.any():
        return NOTHING, NOTHING
    usable_s = snapshot.usable_from_s
    border = np.arange(len(usable_s) + 1) * snapshot.units_per_node
    on_offer = np.diff(np.clip(border, snapshot.units_in_use, units))
    later = (on_offer > 0) & (usable_s > snapshot.now_s)
    from_s, group = np.unique(usable_s[later], return_inverse=True)
    size = np.bincount(group, weights=on_offer[later], minlength=len(from_s)).astype(np.int64)
    return size, from_s - snapshot.now_s


def make_whatif_plan(snapshot: Snapshot, units: int, start_s_of_queued: Int64) -> WhatIfPlan:
    """Return the plan in which the queued jobs start at these seconds."""
    running, queued = snapshot.running, snapshot.queued
    running_end_s = np.maximum(running.expected_end_s, snapshot.now_s + 1)
    start_s = np.concatenate([running.start_s, start_s_of_queued])
    end_s = np.concatenate([running_end_s, start_s_of_queued + np.maximum(queued.estimate_s, 1)])
    if not len(start_s):
        return WhatIfPlan(units, start_s, end_s, 1.0, 0.0, snapshot.now_s)
    wait_s = start_s - np.concatenate([running.submit_s, queued.submit_s])
    slowdown = bounded_slowdown_by_delay(wait_s, end_s - start_s)
    return WhatIfPlan(units, start_s, end_s, float(slowdown.mean()), float(wait_s.mean()), int(end_s.max()))


def simulate_waits_s(snapshot: Snapshot, size: Int64, estimate_s: Int64) -> Float64:
    """Return the wait [s] under EASY of each of n jobs if it alone were submitted now: float64[n].

    All jobs run as long as the snapshot expects, and no more come. Queued jobs that are wider than the usable units are
    left out. Raises BadInput if one of the n jobs is wider, or if running jobs hold more.
    """
    snapshot = snapshot.without_too_wide()
    units, now_s = snapshot.usable_units, snapshot.now_s
    widest = int(size.max(initial=0))
    check_units(snapshot, snapshot.usable_units)
    if widest > snapshot.usable_units:
        message = f"a job of {widest:,} units cannot run on the {snapshot.usable_units:,} that are usable"
        raise BadInput(message, hint="ask for fewer units, or repair nodes")
    jobs = make_workload(snapshot, units)
    start_s = all_start_s(jobs, EASY_POLICY, now_s)
    known = KnownSchedule(start_s, start_s + jobs.workload.runtime_s, jobs.workload.size)
    return (start_times_of_one_more(known, now_s, units, size, np.maximum(estimate_s, 1)) - now_s).astype(np.float64)
