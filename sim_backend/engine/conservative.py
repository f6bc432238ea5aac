"""Conservative backfilling: every job has a promised start, and none is ever moved back to let another pass.

Source: Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling", IEEE TPDS 12(6), 2001. When a job ends early the queue is gone through in order and each job
moves to the earliest place that is free beside all other promises. A window policy changes that order, hence who moves
up first.
"""

from offpeak.compiled import part
from sim_backend.engine.backfill import entry
from sim_backend.engine.state import NEVER, NOT_YET, Profile, State


@part
def breakpoint_at(profile: Profile, length: int, at_s: int) -> int:
    """Return the last breakpoint at or before `at_s`; the profile's first one is."""
    low = 0
    high = length
    while high - low > 1:
        middle = (low + high) // 2
        if profile.at_s[middle] <= at_s:
            low = middle
        else:
            high = middle
    return low


@part
def split_at(profile: Profile, length: int, at_s: int) -> tuple[int, int]:
    """Make `at_s` a breakpoint; return its index and the new length."""
    index = breakpoint_at(profile, length, at_s)
    if profile.at_s[index] == at_s:
        return index, length
    for at in range(length, index + 1, -1):
        profile.at_s[at] = profile.at_s[at - 1]
        profile.free[at] = profile.free[at - 1]
    profile.at_s[index + 1] = at_s
    profile.free[index + 1] = profile.free[index]
    return index + 1, length + 1


@part
def add_free(state: State, from_s: int, until_s: int, units: int) -> None:
    """Add `units` (negative: take them) to the free units of [from_s, until_s)."""
    if until_s <= from_s:
        return
    now = state.scalars[0]
    profile = state.profile
    first, length = split_at(profile, now.breakpoints, from_s)
    behind, length = split_at(profile, length, until_s)
    for at in range(first, behind):
        profile.free[at] += units
    now.breakpoints = length


@part
def earliest(state: State, size: int, duration_s: int) -> int:
    """Return the first second from now on at which `size` units are free for `duration_s`, at least for a second."""
    now = state.scalars[0]
    profile = state.profile
    at = breakpoint_at(profile, now.breakpoints, now.now_s)
    candidate_s = now.now_s
    while at < now.breakpoints and profile.at_s[at] < candidate_s + max(1, duration_s):
        if profile.free[at] < size:
            candidate_s = profile.at_s[at + 1]
        at += 1
    return int(candidate_s)


@part
def profile_of_promises(state: State, machine_size: int) -> None:
    """Build the profile anew from the running jobs, late ones counted as ending in a second, and all promises."""
    now = state.scalars[0]
    queue = state.queue
    slots = state.slots
    state.profile.at_s[0] = now.now_s
    state.profile.free[0] = machine_size
    now.breakpoints = 1
    for at in range(now.listed):
        slot = state.expected[at]
        add_free(state, now.now_s, max(slots.expected_end_s[slot], now.now_s + 1), -slots.size[slot])
    for position in range(now.head, now.tail):
        from_s = queue.reserved_s[position]
        if queue.size[position] != NEVER and from_s != NOT_YET:
            from_s = max(from_s, now.now_s)
            queue.reserved_s[position] = from_s
            add_free(state, from_s, from_s + max(1, queue.estimate_s[position]), -queue.size[position])


@part
def promise(state: State, position: int) -> None:
    """Promise the job at `position` the earliest start that is free beside all other promises."""
    queue = state.queue
    size = queue.size[position]
    duration_s = max(1, queue.estimate_s[position])
    promised_s = queue.reserved_s[position]
    if promised_s != NOT_YET:
        add_free(state, promised_s, promised_s + duration_s, size)
    promised_s = earliest(state, size, duration_s)
    queue.reserved_s[position] = promised_s
    add_free(state, promised_s, promised_s + duration_s, -size)


@part
def next_promised(state: State) -> int:
    """Promise or move up each considered job in order; return the position of the next whose time has come, or -1."""
    now = state.scalars[0]
    queue = state.queue
    while now.cursor < now.considered:
        position = entry(state, now.cursor)
        now.cursor += 1
        if queue.size[position] == NEVER:
            continue
        if now.ended or now.window > 0 or queue.reserved_s[position] == NOT_YET:
            promise(state, position)
        if queue.reserved_s[position] == now.now_s and queue.size[position] <= now.free:
            return position
    return -1


@part
def open_promises(state: State, machine_size: int) -> None:
    """Begin a pass."""
    state.scalars[0].cursor = 0
    profile_of_promises(state, machine_size)
