"""The disciplines: FCFS, EASY, first and best fit, and conservative backfilling.

EASY: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995. The first job that does not fit gets a reservation; a later
one may start if by its estimate it ends before that, or needs only units that the reservation leaves over. First and
best fit (Majanen et al., "Energy and carbon aware scheduling in supercomputing", which names but does not define them):
only jobs that end before the reservation are candidates; first fit takes them in queue order, best fit always the one
that leaves the fewest units free.

Conservative: every job has a promised start, which is never postponed to let another job pass. Source: Mu'alem and
Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with
backfilling", IEEE TPDS 12(6), 2001. When a job ends early, each job of the queue, in order, moves to the earliest start
that is free beside all other promises. A window policy changes that order, and so which job moves first. Only jobs that
run longer than expected can break a promise; then all promises are made again, in order.
"""

from offpeak.compiled import index, part
from offpeak.model.arrays import Int64
from offpeak.sim_backend.engine.queue import (
    StartLimits,
    next_fitting,
    next_fitting_of_many,
    note_estimate,
    widest_in_time,
    widest_of_few,
)
from offpeak.sim_backend.engine.running_jobs import add_free, earliest, expect_end, forget_past, held_until_s, unlist
from offpeak.sim_backend.engine.state import BEST_FIT, BLOCK, EASY, FCFS, NEVER, NOT_YET, SchedulingRules, State
from offpeak.sim_backend.engine.window import entry


@part
def reserve(state: State, size: int) -> None:
    """Set when `size` units will be free by the expected ends, and how many units beyond `size` will be free then.

    A job that runs longer than expected counts as ending now.
    """
    now = state.scalars[0]
    slots = state.slots
    available = now.free + now.returning
    shadow_s = now.now_s
    for at in range(now.listed):
        slot = index(state.expected[index(at)])
        end_s = slots.expected_end_s[slot]
        if available >= size and end_s > shadow_s:
            break
        available += slots.size[slot]
        shadow_s = max(shadow_s, end_s)
    now.shadow_s = shadow_s
    now.extra = available - size


@part
def fits_beside(size: Int64, estimate_s: Int64, position: int, limits: StartLimits) -> bool:
    """Tell whether the job at `position` fits and, started now, would not delay the reservation."""
    wanted = size[index(position)]
    if wanted > limits.free:
        return False
    return bool(wanted <= limits.extra or estimate_s[index(position)] <= limits.longest_s)


@part
def next_beside(state: State, rules: SchedulingRules) -> int:
    """Return the position of the next job that may start beside the reservation, or -1."""
    now = state.scalars[0]
    queue = state.queue
    limits = StartLimits(now.free, now.extra if rules.discipline == EASY else -1, now.shadow_s - now.now_s)
    # A policy may leave jobs of the window, and all jobs behind it, for a later pass.
    ordered = min(now.window, now.considered)
    while now.cursor < ordered:
        position = entry(state, now.cursor)
        now.cursor += 1
        if fits_beside(queue.size, queue.estimate_s, position, limits):
            return position
    if now.considered <= now.window:
        return -1
    position = entry(state, now.cursor)
    last = now.tail
    if last - position <= 2 * BLOCK:
        position = next_fitting(queue.size, queue.estimate_s, position, last, limits)
    else:
        position = next_fitting_of_many(queue.size, queue.estimate_s, queue.bounds, position, last, limits)
    now.cursor = now.window + position + 1 - now.behind_window
    return position if position < last else -1


@part
def next_in_order(state: State) -> int:
    """Return the position of the next job in order if it fits, or -1."""
    now = state.scalars[0]
    while now.cursor < now.considered:
        position = entry(state, now.cursor)
        size = state.queue.size[index(position)]
        if size <= now.free:
            now.cursor += 1
            return position
        if size != NEVER:
            return -1
        now.cursor += 1
    return -1


@part
def best_fit(state: State) -> int:
    """Return the position of the widest job behind the reservation that fits and ends in time, or -1."""
    now = state.scalars[0]
    queue = state.queue
    best = -1
    widest = 0
    longest_s = now.shadow_s - now.now_s
    for rank in range(now.cursor, min(now.window, now.considered)):
        position = entry(state, rank)
        size = queue.size[index(position)]
        if widest < size <= now.free and queue.estimate_s[index(position)] <= longest_s:
            best = position
            widest = size
    if now.considered <= now.window:
        return best
    first = now.behind_window + max(0, now.cursor - now.window)
    # A pass that starts at the later submissions examines only these, and they are few.
    if now.ranked and first < now.seen:
        found = widest_in_time(state.by_width, queue, now.tail, now.free, longest_s)
    else:
        found = widest_of_few(queue.size, queue.estimate_s, first, now.tail, now.free, longest_s)
    return int(found if found >= 0 and queue.size[index(found)] > widest else best)


@part
def take_extra(state: State, position: int) -> int:
    """Subtract the job at `position`, or nothing at -1, from the units that the reservation leaves over."""
    now = state.scalars[0]
    if position >= 0 and now.now_s + state.queue.estimate_s[index(position)] > now.shadow_s:
        now.extra -= state.queue.size[index(position)]
    return position


@part
def note_leaving(state: State, position: int) -> int:
    """Remove the job at `position`, or nothing at -1, from the ranks by width."""
    if position >= 0 and state.scalars[0].ranked:
        note_estimate(state.by_width, state.queue.job[index(position)], NEVER)
    return position


@part
def next_backfilled(state: State, rules: SchedulingRules) -> int:
    """Return the queue position of the next job that starts in this pass, or -1."""
    now = state.scalars[0]
    if now.free == 0:
        return -1
    if now.shadow_s == NOT_YET:
        position = next_in_order(state)
        if position >= 0 or now.cursor >= now.considered or rules.discipline == FCFS:
            return note_leaving(state, position) if rules.discipline == BEST_FIT else position
        reserve(state, state.queue.size[index(entry(state, now.cursor))])
    if rules.discipline == BEST_FIT:
        return note_leaving(state, best_fit(state))
    return take_extra(state, next_beside(state, rules))


@part
def open_backfill(state: State) -> None:
    """Begin a pass: at the later submissions if the last pass's reservation is still valid, else from the start.

    Jobs that were refused then would be refused again: nothing was freed, and they would end later.
    """
    now = state.scalars[0]
    if now.window == 0 and now.ended == 0 and now.shadow_s >= now.now_s:
        now.cursor = now.seen - now.behind_window
    else:
        now.cursor = 0
        now.shadow_s = NOT_YET


@part
def duration_of(state: State, position: int) -> int:
    """Return the duration of a promise: the estimate, at least a second."""
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
    """Tell whether a promised start has passed, or a running job was given more time than the promises assume."""
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
    """Withdraw all promises."""
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
    """Move the expected end of running jobs that have reached it by a second."""
    now = state.scalars[0]
    while now.listed > 0 and state.slots.expected_end_s[state.expected[0]] <= now.now_s:
        slot = int(state.expected[0])
        add_free(state, held_until_s(state, slot), now.now_s + 1, -state.slots.size[slot])
        unlist(state, slot)
        expect_end(state, slot, now.now_s + 1)


@part
def open_promises(state: State) -> None:
    """Begin a pass: start the profile now, and drop promises that cannot be kept."""
    now = state.scalars[0]
    now.cursor = 0
    if now.breakpoints == 0:
        state.profile.at_s[0] = now.now_s
        state.profile.free[0] = now.units
        now.breakpoints = 1
    if a_promise_is_broken(state):
        take_back_promises(state)
    forget_past(state)
    extend_late(state)


@part
def next_promised(state: State, rules: SchedulingRules) -> int:
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
