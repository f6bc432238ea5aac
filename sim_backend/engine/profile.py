"""The free units over time, as running jobs and promised starts leave them: for conservative backfilling."""

from offpeak.compiled import index, part
from sim_backend.engine.state import Profile, State


@part
def breakpoint_at(profile: Profile, length: int, at_s: int) -> int:
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
def split_at(profile: Profile, length: int, at_s: int) -> tuple[int, int]:
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
    """Add `units` (negative: take them) to the free units of [from_s, until_s), from now on."""
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
    """Let the profile begin now, and drop the breakpoints at which nothing changes."""
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

    The units that the job holds itself from `held_s` on, for `duration_s`, count as free; `held_s` is returned where
    there is no earlier second.
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
