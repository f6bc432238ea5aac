"""The queue: submissions join at its end, started jobs leave holes, who was passed over is remembered."""

from offpeak.compiled import index, part
from predictors.run_times.last_two_kernel import predict_run_time
from sim_backend.engine.fitting import forget, next_fitting_of_many
from sim_backend.engine.rules import BEST_FIT, EXACT_RUNTIME, FORESEEN_RUNTIME, PREDICTED_RUNTIME, Rules
from sim_backend.engine.state import NEVER, NOT_YET, State, Workload
from sim_backend.engine.widest import note_estimate, rank_waiting

MOST_HOLES = 64
SCANNED = 1024
"""So many positions are scanned as fast, with vector instructions, as searched for a job that fits."""


@part
def submit_next(workload: Workload, state: State, rules: Rules) -> None:
    """Put the next submitted job at the end of the queue."""
    now = state.scalars[0]
    queue = state.queue
    job = index(now.next_job)
    estimate_s = workload.estimate_s[job]
    if rules.estimates == EXACT_RUNTIME:
        estimate_s = workload.runtime_s[job]
    elif rules.estimates == PREDICTED_RUNTIME:
        estimate_s = predict_run_time(state.recent_s, workload.user[job], estimate_s)
    elif rules.estimates == FORESEEN_RUNTIME:
        estimate_s = workload.foreseen_s[job]
    at = index(now.tail)
    queue.job[at] = job
    queue.size[at] = workload.size[job]
    queue.estimate_s[at] = estimate_s
    queue.node_power_w[at] = workload.node_power_w[job]
    queue.passed_over_s[at] = NOT_YET
    queue.reserved_s[at] = NOT_YET
    now.next_job += 1
    now.next_submit_s = workload.submit_s[index(now.next_job)] if now.next_job < len(workload.submit_s) else NEVER
    now.tail += 1
    now.waiting += 1
    now.smallest = min(now.smallest, workload.size[job])
    if rules.discipline == BEST_FIT:
        if now.ranked:
            note_estimate(state.by_width, int(job), estimate_s)
        elif now.waiting > now.rank_from:
            rank_waiting(state.by_width, queue, workload.size, now.head, now.tail)
            now.ranked = 1


@part
def smallest_waiting(state: State) -> int:
    """Return a size that no waiting job is below: more than the free units if no job is small enough for these.

    In a short queue it is that of the smallest job, NEVER when none waits.
    """
    now = state.scalars[0]
    queue = state.queue
    if now.tail - now.head > SCANNED:
        found = next_fitting_of_many(
            queue.size, queue.estimate_s, queue.bounds, now.head, now.tail, now.free, now.free, NOT_YET
        )
        return int(now.smallest if found < now.tail else now.free + 1)
    smallest = NEVER
    for position in range(now.head, now.tail):
        smallest = min(smallest, queue.size[index(position)])
    return int(smallest)


@part
def note_passed_over(state: State) -> None:
    """Note the time on each waiting job that a later submission has just overtaken for the first time.

    A start at one position passes over all jobs before it, so those ever passed over are a prefix of the queue.
    """
    now = state.scalars[0]
    for position in range(max(now.passed_over, now.head), now.furthest):
        state.queue.passed_over_s[position] = now.now_s
    now.passed_over = max(now.passed_over, now.furthest)


@part
def compact(state: State) -> None:
    """Move the waiting jobs to the front of the queue's arrays, without holes."""
    now = state.scalars[0]
    queue = state.queue
    write = 0
    passed_over = 0
    forget(queue, now.tail)
    for read in range(now.head, now.tail):
        if queue.size[read] == NEVER:
            continue
        queue.job[write] = queue.job[read]
        queue.size[write] = queue.size[read]
        queue.estimate_s[write] = queue.estimate_s[read]
        queue.node_power_w[write] = queue.node_power_w[read]
        queue.passed_over_s[write] = queue.passed_over_s[read]
        queue.reserved_s[write] = queue.reserved_s[read]
        write += 1
        passed_over += read < now.passed_over
    now.head = 0
    now.tail = write
    now.passed_over = passed_over


@part
def close_pass(state: State) -> None:
    """Tidy up behind a pass: skip the holes at the front, compact when there are more holes than jobs."""
    now = state.scalars[0]
    while now.head < now.tail and state.queue.size[now.head] == NEVER:
        now.head += 1
    if now.tail > 2 * now.waiting + MOST_HOLES:
        compact(state)
    now.seen = now.tail
    now.ended = 0
    now.furthest = 0
