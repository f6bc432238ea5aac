"""States to begin with in which jobs hold units already, where the units of one pool are only counted."""

import numpy as np

from offpeak.compiled import in_place, index
from offpeak.model.arrays import Int64
from offpeak.sim_backend.engine.allocation import take_nodes
from offpeak.sim_backend.engine.cells import new_picks
from offpeak.sim_backend.engine.pools import SleepingPools, pool_machine
from offpeak.sim_backend.engine.rules import NEVER, EngineRules
from offpeak.sim_backend.engine.running import await_end, expect_end
from offpeak.sim_backend.engine.state import SLOTS, State, Tables, Workload, new_state


def resumed_state(
    tables: Tables,
    workload: Workload,
    rules: EngineRules,
    *,
    holders: int,
    now_s: int,
    sleeping: SleepingPools | None = None,
) -> State:
    """Return the state at `now_s` in which the first `holders` jobs of the workload hold their units.

    These jobs are listed in the order of their starts; their real and expected ends are their run times after `now_s`.
    The others are submitted from `now_s` on. Conservative backfilling cannot resume, because its promises are unknown.
    """
    state = new_state(tables, workload, rules, new_picks(tables), sleeping=sleeping)
    state.scalars["now_s"] = now_s
    state.scalars["next_job"] = holders
    state.scalars["next_submit_s"] = workload.submit_s[holders] if holders < len(workload.submit_s) else NEVER
    state.start_s[:holders] = now_s
    hold(tables, workload, state, np.argsort(workload.runtime_s[:holders], kind="stable"))
    return state


@in_place
def hold(tables: Tables, workload: Workload, state: State, jobs: Int64) -> None:
    """Give `jobs`, in the order of their ends, their units for their run times from now."""
    now = state.scalars[0]
    slots = state.slots
    for job in jobs:
        units = tables.units[index(workload.request_class[index(job)])]
        slot = now.free_slot
        held = index(slot)
        now.free_slot = slots.following[held]
        slots.job[held] = job
        slots.group[held] = 0
        slots.started[held] = job
        slots.end_s[held] = now.now_s + workload.runtime_s[index(job)]
        slots.expected_end_s[held] = slots.end_s[held]
        slots.pieces[held] = units
        if state.sleeping is not None:
            state.sleeping.units[held] = take_nodes(pool_machine(state.sleeping, 0).nodes, units)
        expect_end(state, 0, slot)
        await_end(state, slot)
        now.started += 1
        state.free[SLOTS, 0] -= units
