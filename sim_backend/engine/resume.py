"""A state in the middle of a schedule: jobs that already hold units, and others that wait."""

import numpy as np

from offpeak.compiled import in_place, index
from sim_backend.engine.ends import push
from sim_backend.engine.nodes import take_nodes
from sim_backend.engine.rules import Rules
from sim_backend.engine.starts import expect_end
from sim_backend.engine.state import NEVER, Int64, State, Workload, new_state


def resumed_state(workload: Workload, rules: Rules, *, machine_size: int, holders: int, now_s: int) -> State:
    """Return the state at `now_s` in which the first `holders` jobs of the workload hold their units.

    They are listed in the order of their starts and end, really and as expected, after their run time from `now_s`.
    The others are submitted from `now_s` on. Conservative backfilling cannot resume: its promises are not known.
    """
    state = new_state(workload, rules, machine_size=machine_size)
    state.scalars["now_s"] = now_s
    state.scalars["next_job"] = holders
    state.scalars["next_submit_s"] = workload.submit_s[holders] if holders < len(workload.submit_s) else NEVER
    state.start_s[:holders] = now_s
    hold(state, np.argsort(workload.runtime_s[:holders], kind="stable"), workload.size, workload.runtime_s)
    return state


@in_place
def hold(state: State, jobs: Int64, size: Int64, left_s: Int64) -> None:
    """Give `jobs`, in the order of their ends, their units for `left_s` from now."""
    now = state.scalars[0]
    slots = state.slots
    for job in jobs:
        slot = now.free_slot
        held = index(slot)
        now.free_slot = slots.following[held]
        slots.job[held] = job
        slots.size[held] = size[index(job)]
        slots.started[held] = job
        slots.end_s[held] = now.now_s + left_s[index(job)]
        slots.pieces[held] = take_nodes(state.nodes, size[index(job)])
        expect_end(state, slot, slots.end_s[held])
        push(state.ends, now.running, slots, slot)
        now.next_end_s = slots.end_s[index(state.ends[0])]
        now.running += 1
        now.started += 1
        now.free -= size[index(job)]
