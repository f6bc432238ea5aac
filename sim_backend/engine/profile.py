"""The profile of free units of conservative backfilling: what running jobs and promised starts leave, over time."""

from offpeak.compiled import index, part
from offpeak.sim_backend.engine.state import BREAKPOINTS, Promises, State


@part
def breakpoint_at(promises: Promises, length: int, at_s: int) -> int:
    """Return the last breakpoint at or before `at_s`; the profile's first one is."""
    low = 0
    high = length
    while high - low > 1:
        middle = (low + high) >> 1
        if promises.at_s[index(middle)] <= at_s:
            low = middle
        else:
            high = middle
    return low


@part
def split_at(promises: Promises, length: int, at_s: int) -> tuple[int, int]:
    """Make `at_s` a breakpoint; return its index and the new length."""
    place = breakpoint_at(promises, length, at_s)
    if promises.at_s[index(place)] == at_s:
        return place, length
    at = length
    while at > place + 1:
        promises.at_s[index(at)] = promises.at_s[index(at - 1)]
        promises.free[index(at)] = promises.free[index(at - 1)]
        at -= 1
    promises.at_s[index(at)] = at_s
    promises.free[index(at)] = promises.free[index(place)]
    return at, length + 1


@part
def add_free(state: State, promises: Promises, from_s: int, until_s: int, units: int) -> None:
    """Add `units` (negative to subtract) to the free units of [from_s, until_s), from now on."""
    begin_s = max(from_s, state.scalars[0].now_s)
    if until_s <= begin_s or promises.counts[BREAKPOINTS] == 0:
        return
    first, length = split_at(promises, promises.counts[BREAKPOINTS], begin_s)
    behind, length = split_at(promises, length, until_s)
    promises.counts[BREAKPOINTS] = length
    for at in range(first, behind):
        promises.free[index(at)] += units


@part
def held_until_s(state: State, slot: int) -> int:
    """Return until when the profile counts the running job of `slot`: its expected end, at least a second's run."""
    at = index(slot)
    return int(max(state.slots.expected_end_s[at], state.start_s[index(state.slots.job[at])] + 1))


@part
def forget_past(state: State, promises: Promises) -> None:
    """Start the profile now, and drop the breakpoints at which nothing changes."""
    now_s = state.scalars[0].now_s
    length = promises.counts[BREAKPOINTS]
    read = breakpoint_at(promises, length, now_s)
    promises.at_s[0] = now_s
    promises.free[0] = promises.free[index(read)]
    write = 0
    for at in range(read + 1, length):
        if promises.free[index(at)] != promises.free[index(write)]:
            write += 1
            promises.at_s[index(write)] = promises.at_s[index(at)]
            promises.free[index(write)] = promises.free[index(at)]
    promises.counts[BREAKPOINTS] = write + 1


@part
def earliest(state: State, promises: Promises, size: int, duration_s: int, period_s: int, held_s: int) -> int:
    """Return the first second from now on, a multiple of the period, at which `size` units are free for `duration_s`.

    The units that the job itself holds from `held_s` on, for `duration_s`, count as free; `held_s` if none is earlier.
    """
    last = promises.counts[BREAKPOINTS]
    candidate_s = state.scalars[0].now_s
    at = 0
    while at < last and promises.at_s[index(at)] < candidate_s + duration_s:
        begin_s = promises.at_s[index(at)]
        free = promises.free[index(at)]
        if held_s <= begin_s < held_s + duration_s:
            free += size
        at += 1
        if free < size:
            candidate_s = promises.at_s[index(at)]
            if period_s > 0:
                candidate_s += -candidate_s % period_s
            if candidate_s >= held_s:
                return int(held_s)
    return int(candidate_s)
