"""Late binding: a job whose nodes still come up starts on other nodes that have become free, if these suffice."""

from offpeak.compiled import apart, index, part
from offpeak.sim_backend.engine.allocation import take_nodes
from offpeak.sim_backend.engine.limits import change_limits
from offpeak.sim_backend.engine.node_units import hold_active, units_coming_up
from offpeak.sim_backend.engine.pool_jobs import count_free
from offpeak.sim_backend.engine.pools import SleepingPools, pool_machine, pool_power, rules_of_pool
from offpeak.sim_backend.engine.profile import add_free, held_until_s
from offpeak.sim_backend.engine.rules import NEVER, EngineRules
from offpeak.sim_backend.engine.running import await_end, expect_end, forget_end, release
from offpeak.sim_backend.engine.state import State, Tables, Workload

NO_SLOT = -1


@part
def next_to_rebind(state: State, behind: int) -> int:
    """Return the slot of the first job, by its start number above `behind`, that waits for its nodes, or NO_SLOT."""
    here = state.groups[0]
    found = NO_SLOT
    first = NEVER
    for at in range(here.first, here.first + here.listed):
        slot = state.expected[index(at)]
        started = state.slots.started[index(slot)]
        waits = state.start_s[index(state.slots.job[index(slot)])] > state.scalars[0].now_s
        if waits and behind < started < first:
            found = slot
            first = started
    return int(found)


@part
def begin_now(
    tables: Tables, workload: Workload, state: State, pools: SleepingPools, rules: EngineRules, slot: int
) -> None:
    """Replace the rising nodes of the job of `slot` by idle ones, and start it."""
    now_s = state.scalars[0].now_s
    slots = state.slots
    held = index(slot)
    job = slots.job[held]
    units = slots.pieces[held]
    hold_s = slots.expected_end_s[held] - state.start_s[index(job)]
    forget_end(state, slot)
    release(tables, workload, state, slot)
    machine = pool_machine(pools, 0)
    power = pool_power(pools, 0)
    head = take_nodes(machine.nodes, units)
    hold_active(machine, power, head)
    count_free(state, pools, power)
    change_limits(workload.limits, state.limit_used, job, 1)
    pools.units[held] = head
    power.failure_s[held] = NEVER
    slots.pieces[held] = units
    slots.end_s[held] = now_s + workload.runtime_s[index(job)] + rules.completing_s
    slots.expected_end_s[held] = now_s + hold_s
    state.start_s[index(job)] = now_s
    expect_end(state, slots.group[held], slot)
    await_end(state, slot)
    if state.promises is not None:
        add_free(state, state.promises, now_s, held_until_s(state, slot), -units)


@apart
def rebind(tables: Tables, workload: Workload, state: State, pools: SleepingPools, rules: EngineRules) -> None:
    """Start jobs that wait for nodes to come up on nodes that have become free, in the order of their allocation."""
    nodes = pools.power.scalars[0]
    is_late = rules_of_pool(pools, 0).late
    if not is_late or nodes.last_up_s <= state.scalars[0].now_s or nodes.idle_units == 0:
        return
    slot = next_to_rebind(state, -1)
    while slot != NO_SLOT and nodes.idle_units > 0:
        started = state.slots.started[index(slot)]
        coming_up = units_coming_up(pool_machine(pools, 0), pool_power(pools, 0), pools.units[index(slot)])
        if coming_up <= nodes.idle_units:
            begin_now(tables, workload, state, pools, rules, slot)
        slot = next_to_rebind(state, started)
