"""Conservative backfilling on a pool of which only units are counted: every job has a promised start.

A promise is never postponed to let another job pass. Source: Mu'alem and Feitelson, "Utilization, predictability,
workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling", IEEE TPDS 12(6), 2001. When a job
ends early, each job of the queue, in order, moves to the earliest start that is free beside all other promises. A
window policy changes that order, and so which job moves first. Only jobs that run longer than expected can break a
promise; then all promises are made again, in order.
"""

from offpeak.compiled import apart, index, part
from offpeak.sim_backend.engine.peak_shaving import is_kept_back
from offpeak.sim_backend.engine.profile import add_free, earliest, forget_past, held_until_s
from offpeak.sim_backend.engine.queue import is_hole
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET, EngineRules
from offpeak.sim_backend.engine.running import expect_end, run_job, unlist
from offpeak.sim_backend.engine.state import BREAKPOINTS, CORRECTED, SLOTS, Promises, State, Tables, Workload
from offpeak.sim_backend.engine.window import entry


@part
def duration_of(state: State, position: int) -> int:
    """Return the duration of a promise: how long the job is expected to hold its nodes, at least a second."""
    return int(max(1, state.waiting.hold_s[index(position)]))


@part
def promise(state: State, promises: Promises, rules: EngineRules, position: int) -> None:
    """Promise the job at `position` the earliest start that is free beside all other promises."""
    size = state.waiting.size[index(position)]
    duration_s = duration_of(state, position)
    promised_s = promises.start_s[index(position)]
    held_s = NEVER if promised_s == NOT_YET else promised_s
    from_s = earliest(state, promises, size, duration_s, rules.sched_interval_s, held_s)
    if from_s == held_s:
        return
    if promised_s != NOT_YET:
        add_free(state, promises, promised_s, promised_s + duration_s, size)
    add_free(state, promises, from_s, from_s + duration_s, -size)
    promises.start_s[index(position)] = from_s


@part
def withdraw(state: State, promises: Promises, position: int) -> None:
    """Take the promise to the waiting job at `position` back, if it has one."""
    promised_s = promises.start_s[index(position)]
    if promised_s != NOT_YET:
        end_s = promised_s + duration_of(state, position)
        add_free(state, promises, promised_s, end_s, state.waiting.size[index(position)])
        promises.start_s[index(position)] = NOT_YET


@part
def a_promise_is_broken(tables: Tables, state: State, promises: Promises) -> bool:
    """Tell whether a promised start has passed, or a running job was given more time than the promises assume."""
    if promises.counts[CORRECTED]:
        return True
    here = state.groups[0]
    for position in range(here.head, here.tail):
        is_past = NOT_YET < promises.start_s[index(position)] < state.scalars[0].now_s
        if is_past and not is_hole(tables, state, position):
            return True
    return False


@part
def open_promises(tables: Tables, state: State, promises: Promises) -> None:
    """Begin a pass: start the profile now, drop promises that cannot be kept, and let late jobs end in a second."""
    now_s = state.scalars[0].now_s
    here = state.groups[0]
    if promises.counts[BREAKPOINTS] == 0:
        promises.at_s[0] = now_s
        promises.free[0] = tables.capacity[SLOTS, 0]
        promises.counts[BREAKPOINTS] = 1
    if a_promise_is_broken(tables, state, promises):
        for position in range(here.head, here.tail):
            if not is_hole(tables, state, position):
                withdraw(state, promises, position)
        promises.counts[CORRECTED] = 0
    forget_past(state, promises)
    while here.listed > 0 and state.slots.expected_end_s[state.expected[index(here.first)]] <= now_s:
        slot = int(state.expected[index(here.first)])
        add_free(state, promises, held_until_s(state, slot), now_s + 1, -state.slots.pieces[index(slot)])
        unlist(state, 0, slot)
        state.slots.expected_end_s[index(slot)] = now_s + 1
        expect_end(state, 0, slot)


@apart
def run_promised_pass(tables: Tables, workload: Workload, state: State, promises: Promises, rules: EngineRules) -> None:
    """Promise or move up each considered job in order, and start those whose time has come."""
    now = state.scalars[0]
    here = state.groups[0]
    waiting = state.waiting
    # Nodes were released, or a job was given more time, since the last pass.
    is_changed = bool(here.is_stale)
    here.is_stale = 0
    now.cursor = 0
    open_promises(tables, state, promises)
    while now.cursor < now.considered:
        position = entry(state, now.cursor)
        now.cursor += 1
        if is_hole(tables, state, position):
            continue
        if is_changed or now.window > 0 or promises.start_s[index(position)] == NOT_YET:
            promise(state, promises, rules, position)
        size = waiting.size[index(position)]
        if promises.start_s[index(position)] == now.now_s and size <= state.free[SLOTS, 0]:
            if state.sleeping is not None and is_kept_back(workload, state, state.sleeping, position):
                continue
            run_job(tables, workload, state, rules, position, size)
