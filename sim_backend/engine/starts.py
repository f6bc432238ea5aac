"""Jobs that start and end: the only places where nodes change hands."""

from offpeak.compiled import index, part
from predictors.run_time import learn_run_time
from sim_backend.engine.ends import drop_first, push
from sim_backend.engine.nodes import give_back, take_nodes
from sim_backend.engine.profile import add_free, held_until_s
from sim_backend.engine.rules import PREDICTED_RUNTIME, Rules
from sim_backend.engine.state import NEVER, NOT_YET, State, Workload


@part
def expect_end(state: State, slot: int, at_s: int) -> None:
    """List the running job of `slot` as ending at `at_s`, behind those that are expected to end in the same second."""
    now = state.scalars[0]
    expected = state.expected
    expected_end_s = state.slots.expected_end_s
    expected_end_s[index(slot)] = at_s
    at = now.listed
    now.listed = at + 1
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
def start_job(workload: Workload, state: State, position: int) -> None:
    """Start the job at queue `position` now; it fits."""
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
    slots.end_s[held] = now.now_s + workload.runtime_s[job]
    slots.pieces[held] = take_nodes(state.nodes, size)
    expect_end(state, slot, now.now_s + state.queue.estimate_s[at])
    push(state.ends, now.running, slots, slot)
    state.start_s[job] = now.now_s
    state.queue.size[at] = NEVER
    now.furthest = max(now.furthest, position)
    now.waiting -= 1
    now.next_end_s = slots.end_s[index(state.ends[0])]
    now.running += 1
    now.started += 1
    now.free -= size


@part
def release(state: State, slot: int) -> None:
    """Give back the nodes of `slot`."""
    now = state.scalars[0]
    unlist(state, slot)
    if now.breakpoints > 0:
        add_free(state, now.now_s, held_until_s(state, slot), state.slots.size[index(slot)])
    give_back(state.nodes, state.slots.pieces[index(slot)])
    state.slots.pieces[index(slot)] = NOT_YET
    now.free += state.slots.size[index(slot)]
    now.ended = 1


@part
def end_first(workload: Workload, state: State, rules: Rules) -> None:
    """End the running job whose end comes first."""
    now = state.scalars[0]
    slots = state.slots
    slot = state.ends[0]
    held = index(slot)
    drop_first(state.ends, now.running, slots)
    now.running -= 1
    now.next_end_s = slots.end_s[index(state.ends[0])] if now.running > 0 else NEVER
    if slots.pieces[held] != NOT_YET:
        release(state, slot)
    job = index(slots.job[held])
    if rules.estimates == PREDICTED_RUNTIME:
        learn_run_time(state.recent_s, workload.user[job], workload.runtime_s[job])
    slots.following[held] = now.free_slot
    now.free_slot = slot
