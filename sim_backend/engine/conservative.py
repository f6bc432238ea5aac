"""Conservative backfilling: every job has a promised start, and none is ever moved back to let another pass.

Source: Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling", IEEE TPDS 12(6), 2001. When a job ends early the queue is gone through in order and each job
moves to the earliest place that is free beside all other promises. A window policy changes that order, hence who moves
up first. Only jobs that run longer than expected can break a promise; then all are given anew, in order.
"""

from offpeak.compiled import index, part
from sim_backend.engine.backfill import entry
from sim_backend.engine.profile import add_free, earliest, forget_past, held_until_s
from sim_backend.engine.rules import Rules
from sim_backend.engine.starts import expect_end, unlist
from sim_backend.engine.state import NEVER, NOT_YET, State


@part
def duration_of(state: State, position: int) -> int:
    """Return for how long a promise holds units: the estimate, at least a second."""
    return int(max(1, state.queue.estimate_s[index(position)]))


@part
def promise(state: State, position: int, period_s: int) -> None:
    """Promise the job at `position` the earliest start that is free beside all other promises."""
    queue = state.queue
    size = queue.size[index(position)]
    duration_s = duration_of(state, position)
    promised_s = queue.reserved_s[index(position)]
    held_s = NEVER if promised_s == NOT_YET else promised_s
    from_s = earliest(state, size, duration_s, period_s, held_s)
    if from_s == held_s:
        return
    if promised_s != NOT_YET:
        add_free(state, promised_s, promised_s + duration_s, size)
    add_free(state, from_s, from_s + duration_s, -size)
    queue.reserved_s[index(position)] = from_s


@part
def a_promise_is_broken(state: State) -> bool:
    """Say whether a promised start has passed, or a running job was given more time than was promised around."""
    now = state.scalars[0]
    if now.corrected:
        return True
    for position in range(now.head, now.tail):
        promised_s = state.queue.reserved_s[index(position)]
        if state.queue.size[index(position)] != NEVER and NOT_YET < promised_s < now.now_s:
            return True
    return False


@part
def take_back_promises(state: State) -> None:
    """Take back all promises."""
    now = state.scalars[0]
    queue = state.queue
    for position in range(now.head, now.tail):
        promised_s = queue.reserved_s[index(position)]
        if queue.size[index(position)] != NEVER and promised_s != NOT_YET:
            end_s = promised_s + duration_of(state, position)
            add_free(state, promised_s, end_s, queue.size[index(position)])
            queue.reserved_s[index(position)] = NOT_YET
    now.corrected = 0


@part
def extend_late(state: State) -> None:
    """Expect running jobs whose expected end has come to end in a second."""
    now = state.scalars[0]
    while now.listed > 0 and state.slots.expected_end_s[state.expected[0]] <= now.now_s:
        slot = int(state.expected[0])
        add_free(state, held_until_s(state, slot), now.now_s + 1, -state.slots.size[slot])
        unlist(state, slot)
        expect_end(state, slot, now.now_s + 1)


@part
def open_promises(state: State, machine_size: int) -> None:
    """Begin a pass: the profile from now on, and no promise that cannot be kept."""
    now = state.scalars[0]
    now.cursor = 0
    if now.breakpoints == 0:
        state.profile.at_s[0] = now.now_s
        state.profile.free[0] = machine_size
        now.breakpoints = 1
    if a_promise_is_broken(state):
        take_back_promises(state)
    forget_past(state)
    extend_late(state)


@part
def next_promised(state: State, rules: Rules) -> int:
    """Promise or move up each considered job in order; return the position of the next whose time has come, or -1."""
    now = state.scalars[0]
    queue = state.queue
    while now.cursor < now.considered:
        position = entry(state, now.cursor)
        now.cursor += 1
        if queue.size[index(position)] == NEVER:
            continue
        if now.ended or now.window > 0 or queue.reserved_s[index(position)] == NOT_YET:
            promise(state, position, rules.period_s)
        if queue.reserved_s[index(position)] == now.now_s and queue.size[index(position)] <= now.free:
            return position
    return -1
