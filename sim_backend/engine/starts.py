"""Jobs that start and end. Where all nodes are up nobody asks which ones a job holds: its units are only counted."""

from offpeak.compiled import index, part
from predictors.run_times.last_two_kernel import learn_run_time
from sim_backend.engine.ends import drop_first, push
from sim_backend.engine.profile import add_free, held_until_s
from sim_backend.engine.rules import EXACT_RUNTIME, PREDICTED_RUNTIME, Rules
from sim_backend.engine.state import NEVER, NOT_YET, State, Workload

STRIDE = 16
UNNUMBERED = 0
"""The pieces of a job whose units are only counted."""


@part
def expect_end(state: State, slot: int, at_s: int) -> None:
    """List the running job of `slot` as ending at `at_s`, behind those that are expected to end in the same second."""
    now = state.scalars[0]
    expected = state.expected
    expected_end_s = state.slots.expected_end_s
    expected_end_s[index(slot)] = at_s
    at = now.listed
    now.listed = at + 1
    # In a long list whole strides are compared and moved at once.
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
    """Take the running job of `slot` off the list of expected ends."""
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
def await_end(state: State, slot: int) -> None:
    """Let the job of `slot` end when its time has come."""
    now = state.scalars[0]
    push(state.ends, now.running, state.slots, slot)
    now.next_end_s = state.slots.end_s[index(state.ends[0])]
    now.running += 1


@part
def are_foreseen(rules: Rules) -> bool:
    """Say whether each job ends when expected: the list of expected ends is that of all ends, and no heap is kept."""
    return bool(rules.estimates == EXACT_RUNTIME and not rules.pass_per_event)


@part
def first_expected_s(state: State) -> int:
    """Return when the first running job is expected to end, NEVER when none runs."""
    if state.scalars[0].listed == 0:
        return NEVER
    return int(state.slots.expected_end_s[index(state.expected[0])])


@part
def start_job(workload: Workload, state: State, rules: Rules, position: int) -> None:
    """Start the job at queue `position` now; it fits."""
    now = state.scalars[0]
    slot = place_job(workload, state, position, UNNUMBERED, now.now_s)
    if are_foreseen(rules):
        now.running += 1
        now.next_end_s = first_expected_s(state)
    else:
        await_end(state, slot)


@part
def release(state: State, slot: int) -> None:
    """Give back the units of `slot`."""
    now = state.scalars[0]
    unlist(state, slot)
    if now.breakpoints > 0:
        add_free(state, now.now_s, held_until_s(state, slot), state.slots.size[index(slot)])
    state.slots.pieces[index(slot)] = NOT_YET
    now.free += state.slots.size[index(slot)]
    now.ended = 1


@part
def first_end(state: State) -> int:
    """Take the running job whose end comes first off the heap of ends, and return its slot."""
    now = state.scalars[0]
    slot = state.ends[0]
    drop_first(state.ends, now.running, state.slots)
    now.running -= 1
    now.next_end_s = state.slots.end_s[index(state.ends[0])] if now.running > 0 else NEVER
    return int(slot)


@part
def close_slot(state: State, slot: int) -> None:
    """Let another job use the slot."""
    now = state.scalars[0]
    state.slots.following[index(slot)] = now.free_slot
    now.free_slot = slot


@part
def learn_from(workload: Workload, state: State, rules: Rules, job: int) -> None:
    """Let the predictor, if there is one, learn how long the job ran."""
    if rules.estimates == PREDICTED_RUNTIME:
        learn_run_time(state.recent_s, workload.user[index(job)], workload.runtime_s[index(job)])


@part
def end_first(workload: Workload, state: State, rules: Rules) -> None:
    """End the running job whose end comes first."""
    now = state.scalars[0]
    slot = int(state.expected[0]) if are_foreseen(rules) else first_end(state)
    if state.slots.pieces[index(slot)] != NOT_YET:
        release(state, slot)
    if are_foreseen(rules):
        now.running -= 1
        now.next_end_s = first_expected_s(state)
    learn_from(workload, state, rules, state.slots.job[index(slot)])
    close_slot(state, slot)
