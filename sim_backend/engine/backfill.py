"""FCFS, EASY and the two fits: start in order, then fill beside the first job that has to wait.

EASY: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; the first job that does not fit gets a reservation, a later
one may start if by its estimate it ends before that, or needs only units which the reservation leaves over.
First and best fit (Majanen et al., "Energy and carbon aware scheduling in supercomputing", which names but does not
define them): only jobs that end before the reservation are candidates; first fit takes them in queue order, best fit
always the one that leaves the fewest units free.
"""

from offpeak.compiled import index, part
from sim_backend.engine.rules import BEST_FIT, EASY, FCFS, Rules
from sim_backend.engine.starts import start_job
from sim_backend.engine.state import NEVER, NOT_YET, State, Workload


@part
def entry(state: State, rank: int) -> int:
    """Return the queue position at `rank` of this pass: the window in its order, then what stands behind it."""
    now = state.scalars[0]
    if rank < now.window:
        return int(state.window.position[state.window.order[rank]])
    return int(now.behind_window + rank - now.window)


@part
def reserve(state: State, size: int) -> None:
    """Set when `size` units will be free by the expected ends, and how many more than `size` there will be then.

    A job that runs longer than expected counts as ending now.
    """
    now = state.scalars[0]
    slots = state.slots
    available = now.free
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
def start_in_order(workload: Workload, state: State) -> int:
    """Start jobs in order until one does not fit; return its rank, or the number considered."""
    now = state.scalars[0]
    for rank in range(now.considered):
        position = entry(state, rank)
        size = state.queue.size[index(position)]
        if size <= now.free:
            start_job(workload, state, position)
        elif size != NEVER:
            return rank
    return int(now.considered)


@part
def next_that_fits(state: State, position: int) -> int:
    """Return the first queue position from `position` on whose job fits, or the queue's tail."""
    now = state.scalars[0]
    size = state.queue.size
    free = now.free
    tail = now.tail
    while position < tail and size[index(position)] > free:
        position += 1
    return position


@part
def start_beside(workload: Workload, state: State, position: int, use_extra: bool) -> None:
    """Start the job at `position`, which fits, unless it would delay the reservation."""
    now = state.scalars[0]
    if now.now_s + state.queue.estimate_s[index(position)] > now.shadow_s:
        size = state.queue.size[index(position)]
        if size > now.extra or not use_extra:
            return
        now.extra -= size
    start_job(workload, state, position)


@part
def fill_beside(workload: Workload, state: State, first: int, use_extra: bool) -> None:
    """Start, in order, the jobs from rank `first` on that do not delay the reservation."""
    now = state.scalars[0]
    for rank in range(first, min(now.window, now.considered)):
        position = entry(state, rank)
        if state.queue.size[index(position)] <= now.free:
            start_beside(workload, state, position, use_extra)
    if now.considered < now.window:
        return
    position = next_that_fits(state, now.behind_window + max(0, first - now.window))
    while position < now.tail:
        start_beside(workload, state, position, use_extra)
        position = next_that_fits(state, position + 1)


@part
def best_fit(state: State, first: int) -> int:
    """Return the position of the widest job from rank `first` on that fits and ends in time, or -1."""
    now = state.scalars[0]
    queue = state.queue
    best = -1
    widest = 0
    for rank in range(first, now.considered):
        position = entry(state, rank)
        size = queue.size[position]
        if widest < size <= now.free and now.now_s + queue.estimate_s[position] <= now.shadow_s:
            best = position
            widest = size
    return best


@part
def fill_best(workload: Workload, state: State, first: int) -> None:
    """Start the best fit from rank `first` on again and again while there is one."""
    position = best_fit(state, first)
    while position >= 0:
        start_job(workload, state, position)
        position = best_fit(state, first)


@part
def only_arrivals_matter(state: State) -> bool:
    """Say whether the last pass's reservation still stands, so that only later submissions need a look.

    Those that were refused then would be refused again: nothing was freed, and they would end later.
    """
    now = state.scalars[0]
    return bool(now.window == 0 and now.ended == 0 and now.shadow_s >= now.now_s)


@part
def backfill(workload: Workload, state: State, rules: Rules) -> None:
    """Run one pass over the considered jobs."""
    now = state.scalars[0]
    first = now.seen - now.behind_window
    if not only_arrivals_matter(state):
        now.shadow_s = NOT_YET
        blocked = start_in_order(workload, state)
        if blocked >= now.considered or now.free == 0 or rules.discipline == FCFS:
            return
        reserve(state, state.queue.size[entry(state, blocked)])
        first = blocked + 1
    if rules.discipline == BEST_FIT:
        fill_best(workload, state, first)
    else:
        fill_beside(workload, state, first, rules.discipline == EASY)
