"""The running jobs: starts and ends, the heap of real ends, the profile of free units, and resumed states.

If all nodes are up, units are only counted, because it does not matter which nodes a job holds. The heap holds slots by
(end, start number). For conservative backfilling, the profile holds the units over time that running jobs and promised
starts leave free. A resumed state has jobs that already hold units, and others that wait.
"""

from typing import Any

import numpy as np

from offpeak.compiled import in_place, index, part
from offpeak.predictors.run_times import learn_run_time
from offpeak.sim_backend.engine.state import (
    EXACT_RUNTIME,
    NEVER,
    NOT_YET,
    PREDICTED_RUNTIME,
    AvailabilityProfile,
    Int64,
    SchedulingRules,
    Slots,
    State,
    Workload,
    new_state,
    take_nodes,
)


@part
def ends_before(slots: Slots, a: int, b: int) -> bool:
    """Tell whether the job of slot `a` ends before that of slot `b`; within one second, whether it started first."""
    a_s = slots.end_s[index(a)]
    b_s = slots.end_s[index(b)]
    return bool(a_s < b_s or (a_s == b_s and slots.started[index(a)] < slots.started[index(b)]))


@part
def push(ends: Int64, length: int, slots: Slots, slot: int) -> None:
    """Add a slot to a heap of `length`."""
    child = length
    while child > 0:
        parent = (child - 1) >> 1
        above = ends[index(parent)]
        if not ends_before(slots, slot, above):
            break
        ends[index(child)] = above
        child = parent
    ends[index(child)] = slot


@part
def drop_first(ends: Int64, length: int, slots: Slots) -> None:
    """Remove the first slot from a heap of `length`."""
    last = length - 1
    slot = ends[index(last)]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        if child + 1 < last and ends_before(slots, ends[index(child + 1)], ends[index(child)]):
            child += 1
        below = ends[index(child)]
        if not ends_before(slots, below, slot):
            break
        ends[index(parent)] = below
        parent = child
    ends[index(parent)] = slot


@part
def breakpoint_at(profile: AvailabilityProfile, length: int, at_s: int) -> int:
    """Return the last breakpoint at or before `at_s`; the profile's first one is."""
    low = 0
    high = length
    while high - low > 1:
        middle = (low + high) >> 1
        if profile.at_s[index(middle)] <= at_s:
            low = middle
        else:
            high = middle
    return low


@part
def split_at(profile: AvailabilityProfile, length: int, at_s: int) -> tuple[int, int]:
    """Make `at_s` a breakpoint; return its index and the new length."""
    place = breakpoint_at(profile, length, at_s)
    if profile.at_s[index(place)] == at_s:
        return place, length
    at = length
    while at > place + 1:
        profile.at_s[index(at)] = profile.at_s[index(at - 1)]
        profile.free[index(at)] = profile.free[index(at - 1)]
        at -= 1
    profile.at_s[index(at)] = at_s
    profile.free[index(at)] = profile.free[index(place)]
    return at, length + 1


@part
def add_free(state: State, from_s: int, until_s: int, units: int) -> None:
    """Add `units` (negative to subtract) to the free units of [from_s, until_s), from now on."""
    now = state.scalars[0]
    profile = state.profile
    begin_s = max(from_s, now.now_s)
    if until_s <= begin_s:
        return
    first, length = split_at(profile, now.breakpoints, begin_s)
    behind, length = split_at(profile, length, until_s)
    now.breakpoints = length
    for at in range(first, behind):
        profile.free[index(at)] += units


@part
def held_until_s(state: State, slot: int) -> int:
    """Return until when the profile counts the running job of `slot`: its expected end, at least a second's run."""
    at = index(slot)
    return int(max(state.slots.expected_end_s[at], state.start_s[index(state.slots.job[at])] + 1))


@part
def forget_past(state: State) -> None:
    """Start the profile now, and drop the breakpoints at which nothing changes."""
    now = state.scalars[0]
    profile = state.profile
    read = breakpoint_at(profile, now.breakpoints, now.now_s)
    profile.at_s[0] = now.now_s
    profile.free[0] = profile.free[index(read)]
    write = 0
    for at in range(read + 1, now.breakpoints):
        if profile.free[index(at)] != profile.free[index(write)]:
            write += 1
            profile.at_s[index(write)] = profile.at_s[index(at)]
            profile.free[index(write)] = profile.free[index(at)]
    now.breakpoints = write + 1


@part
def earliest(state: State, size: int, duration_s: int, period_s: int, held_s: int) -> int:
    """Return the first second from now on, a multiple of the period, at which `size` units are free for `duration_s`.

    The units that the job itself holds from `held_s` on, for `duration_s`, count as free; `held_s` if none is earlier.
    """
    now = state.scalars[0]
    profile = state.profile
    last = now.breakpoints
    candidate_s = now.now_s
    at = 0
    while at < last and profile.at_s[index(at)] < candidate_s + duration_s:
        begin_s = profile.at_s[index(at)]
        free = profile.free[index(at)]
        if held_s <= begin_s < held_s + duration_s:
            free += size
        at += 1
        if free < size:
            candidate_s = profile.at_s[index(at)]
            if period_s > 0:
                candidate_s += -candidate_s % period_s
            if candidate_s >= held_s:
                return int(held_s)
    return int(candidate_s)


STRIDE = 16
UNNUMBERED = 0
"""The value of `pieces` for a job whose units are only counted."""


@part
def expect_end(state: State, slot: int, at_s: int) -> None:
    """List the running job of `slot` as ending at `at_s`, behind those that are expected to end in the same second."""
    now = state.scalars[0]
    expected = state.expected
    expected_end_s = state.slots.expected_end_s
    expected_end_s[index(slot)] = at_s
    at = now.listed
    now.listed = at + 1
    # In a long list, compare and move whole strides at once.
    while at > STRIDE and expected_end_s[index(expected[index(at - STRIDE)])] > at_s:
        for behind in range(at, at - STRIDE, -1):
            expected[index(behind)] = expected[index(behind - 1)]
        at -= STRIDE
    while at > 0 and expected_end_s[index(expected[index(at - 1)])] > at_s:
        expected[index(at)] = expected[index(at - 1)]
        at -= 1
    expected[index(at)] = slot


@part
def unlist(state: State, slot: int) -> None:
    """Remove the running job of `slot` from the list of expected ends."""
    now = state.scalars[0]
    expected = state.expected
    at = 0
    while expected[index(at)] != slot:
        at += 1
    last = now.listed - 1
    now.listed = last
    while at < last:
        expected[index(at)] = expected[index(at + 1)]
        at += 1


@part
def place_job(workload: Workload, state: State, position: int, pieces: int, begin_s: int) -> int:
    """Give the job at queue `position` the nodes of `pieces`; it runs from `begin_s` on. Return its slot."""
    now = state.scalars[0]
    slots = state.slots
    at = index(position)
    job = index(state.queue.job[at])
    size = state.queue.size[at]
    slot = now.free_slot
    held = index(slot)
    now.free_slot = slots.following[held]
    slots.job[held] = job
    slots.size[held] = size
    slots.started[held] = now.started
    slots.end_s[held] = begin_s + workload.runtime_s[job]
    slots.pieces[held] = pieces
    expect_end(state, slot, begin_s + state.queue.estimate_s[at])
    state.start_s[job] = begin_s
    state.queue.size[at] = NEVER
    now.furthest = max(now.furthest, position)
    now.waiting -= 1
    now.started += 1
    now.free -= size
    return int(slot)


@part
def await_end(state: Any, slot: int) -> None:
    """Add the job of `slot` to the heap of ends, of the state of either engine."""
    now = state.scalars[0]
    push(state.ends, now.running, state.slots, slot)
    now.next_end_s = state.slots.end_s[index(state.ends[0])]
    now.running += 1


@part
def are_foreseen(rules: SchedulingRules) -> bool:
    """Tell whether each job ends when expected, so that the list of expected ends replaces the heap."""
    return bool(rules.estimates == EXACT_RUNTIME and not rules.pass_per_event)


@part
def first_expected_s(state: State) -> int:
    """Return the earliest expected end, NEVER if no job runs."""
    if state.scalars[0].listed == 0:
        return NEVER
    return int(state.slots.expected_end_s[index(state.expected[0])])


@part
def start_job(workload: Workload, state: State, rules: SchedulingRules, position: int) -> None:
    """Start the job at queue `position`, which must fit, now."""
    now = state.scalars[0]
    slot = place_job(workload, state, position, UNNUMBERED, now.now_s)
    if are_foreseen(rules):
        now.running += 1
        now.next_end_s = first_expected_s(state)
    else:
        await_end(state, slot)


@part
def release(state: State, slot: int) -> None:
    """Release the units of `slot`."""
    now = state.scalars[0]
    unlist(state, slot)
    if now.breakpoints > 0:
        add_free(state, now.now_s, held_until_s(state, slot), state.slots.size[index(slot)])
    state.slots.pieces[index(slot)] = NOT_YET
    now.free += state.slots.size[index(slot)]
    now.ended = 1


@part
def first_end(state: Any) -> int:
    """Remove the running job with the earliest end from the heap of either engine, and return its slot."""
    now = state.scalars[0]
    slot = state.ends[0]
    drop_first(state.ends, now.running, state.slots)
    now.running -= 1
    now.next_end_s = state.slots.end_s[index(state.ends[0])] if now.running > 0 else NEVER
    return int(slot)


@part
def close_slot(state: Any, slot: int) -> None:
    """Mark the slot as unused, of the state of either engine."""
    now = state.scalars[0]
    state.slots.following[index(slot)] = now.free_slot
    now.free_slot = slot


@part
def learn_from(workload: Any, state: Any, rules: Any, job: int) -> None:
    """Teach the predictor, if there is one, the run time of the job; the state is that of either engine."""
    if rules.estimates == PREDICTED_RUNTIME:
        learn_run_time(state.recent_s, workload.user[index(job)], workload.runtime_s[index(job)])


@part
def end_first(workload: Workload, state: State, rules: SchedulingRules) -> None:
    """End the running job with the earliest end."""
    now = state.scalars[0]
    slot = int(state.expected[0]) if are_foreseen(rules) else first_end(state)
    if state.slots.pieces[index(slot)] != NOT_YET:
        release(state, slot)
    if are_foreseen(rules):
        now.running -= 1
        now.next_end_s = first_expected_s(state)
    learn_from(workload, state, rules, state.slots.job[index(slot)])
    close_slot(state, slot)


def resumed_state(workload: Workload, rules: SchedulingRules, *, machine_size: int, holders: int, now_s: int) -> State:
    """Return the state at `now_s` in which the first `holders` jobs of the workload hold their units.

    These jobs are listed in the order of their starts; their real and expected ends are their run times after `now_s`.
    The others are submitted from `now_s` on. Conservative backfilling cannot resume, because its promises are unknown.
    """
    state = new_state(workload, rules, machine_size=machine_size)
    state.scalars["now_s"] = now_s
    state.scalars["next_job"] = holders
    state.scalars["next_submit_s"] = workload.submit_s[holders] if holders < len(workload.submit_s) else NEVER
    state.start_s[:holders] = now_s
    hold(state, np.argsort(workload.runtime_s[:holders], kind="stable"), workload.size, workload.runtime_s)
    return state


@in_place
def hold(state: State, jobs: Int64, size: Int64, left_s: Int64) -> None:
    """Give `jobs`, in the order of their ends, their units for `left_s` from now."""
    now = state.scalars[0]
    slots = state.slots
    for job in jobs:
        slot = now.free_slot
        held = index(slot)
        now.free_slot = slots.following[held]
        slots.job[held] = job
        slots.size[held] = size[index(job)]
        slots.started[held] = job
        slots.end_s[held] = now.now_s + left_s[index(job)]
        slots.pieces[held] = take_nodes(state.nodes, size[index(job)])
        expect_end(state, slot, slots.end_s[held])
        push(state.ends, now.running, slots, slot)
        now.next_end_s = slots.end_s[index(state.ends[0])]
        now.running += 1
        now.started += 1
        now.free -= size[index(job)]


def next_event_s(state: State) -> int:
    """Return the time of the next event at a site whose nodes are all awake, NEVER if there is none."""
    now = state.scalars[0]
    wanted_pass_s = now["wanted_pass_s"] if now["waiting"] else NEVER
    return int(min(now["next_submit_s"], now["next_end_s"], wanted_pass_s))


@in_place
def hold_until(state: State, begun: Int64, data_s: Int64) -> None:
    """Delay the jobs `begun`, which have started in this second, until the arrival of their data [Unix s].

    They hold their nodes meanwhile. Eq. (7) of Murali and Vadhiyar 2018: response = max(transfer, queue wait) + run
    time; the transfer starts when the job is submitted.
    """
    now = state.scalars[0]
    slots = state.slots
    for rank in range(now.running):
        slot = int(state.ends[index(rank)])
        for at in range(len(begun)):
            late_s = data_s[index(at)] - state.start_s[index(begun[index(at)])]
            if slots.job[index(slot)] == begun[index(at)] and late_s > 0:
                slots.end_s[index(slot)] += late_s
                expected_s = slots.expected_end_s[index(slot)] + late_s
                unlist(state, slot)
                expect_end(state, slot, expected_s)
    # Pushing the entries one after the other makes the array a heap again.
    for rank in range(now.running):
        push(state.ends, rank, slots, int(state.ends[index(rank)]))
    if now.running > 0:
        now.next_end_s = slots.end_s[index(state.ends[0])]
