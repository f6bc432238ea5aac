"""The plan of the queue in the engine: what a reservation counts on, and which nodes are woken for jobs.

Jobs start on awake nodes only; offpeak.plugin.capacity.wake_plan has the rule.
"""

from offpeak.bits import NO_BIT, next_bit
from offpeak.compiled import apart, index, part
from offpeak.model.node_states import FAILED
from offpeak.plugin.capacity.rules import CapacityRules, DepthTable
from offpeak.plugin.capacity.sleepers import SHALLOW_TO_DEEP
from offpeak.plugin.capacity.wake_plan import (
    MOST_PLANNED,
    ComingUnits,
    PlannedJobs,
    PoolNow,
    list_units,
    plan_queue,
    start_on,
)
from offpeak.sim_backend.engine.limits import is_limited
from offpeak.sim_backend.engine.pools import SleepingPools, depths_of_pool, pool_power, rules_of_pool
from offpeak.sim_backend.engine.power import STAYS, Power
from offpeak.sim_backend.engine.power_capacity import light_sleepers
from offpeak.sim_backend.engine.rules import NEVER, EngineRules
from offpeak.sim_backend.engine.state import SLOTS, State, Workload

PLAN_S = CapacityRules._fields.index("plan_s")


@part
def longest_wake_s(power: Power, depths: DepthTable) -> int:
    """Return how long the slowest of the nodes that sleep takes to come up, 0 if none sleeps."""
    longest_s = 0
    for depth in range(SHALLOW_TO_DEEP):
        if power.nodes_in[index(3 + 3 * depth)] > 0:
            longest_s = max(longest_s, depths.leave_s[index(depth)])
    return int(longest_s)


@part
def last_rise_s(power: Power) -> int:
    """Return when the last of the nodes that come up to stay is up, 0 if there is none."""
    last_s = 0
    node = next_bit(power.moving, 0)
    while node != NO_BIT:
        at = index(node)
        held = power.table.state[at]
        if held > FAILED and held % 3 == 1 and power.deeper[at] == STAYS:
            last_s = max(last_s, power.ready_s[at])
        node = next_bit(power.moving, node + 1)
    return int(last_s)


@part
def list_coming(state: State, coming: ComingUnits, power: Power, depths: DepthTable) -> int:
    """List the units of running jobs at their expected ends, of rising nodes and, after a boot, of falling ones.

    Returns how many entries there are. A job that outlasts its expected end says nothing of when it ends.
    """
    here = state.groups[0]
    now_s = state.scalars[0].now_s
    listed = 0
    for rank in range(here.listed):
        slot = index(state.expected[index(rank)])
        if state.slots.expected_end_s[slot] > now_s:
            listed = list_units(coming, 0, listed, state.slots.expected_end_s[slot], state.slots.pieces[slot])
    per_node = int(power.scalars[0].units_per_node)
    node = next_bit(power.moving, 0)
    while node != NO_BIT:
        at = index(node)
        held = int(power.table.state[at])
        if held > FAILED and held % 3 == 1 and power.deeper[at] == STAYS:
            listed = list_units(coming, 0, listed, power.ready_s[at], per_node)
        elif held > FAILED and held % 3 == 2:
            up_s = power.ready_s[at] + depths.leave_s[index(held // 3)]
            listed = list_units(coming, 0, listed, up_s, per_node)
        node = next_bit(power.moving, node + 1)
    return listed


@apart
def reserve_in_plan(state: State, pools: SleepingPools, units: int) -> None:
    """Reserve the earliest start of the blocked job, as if all sleeping nodes were woken now."""
    here = state.groups[0]
    coming = pools.coming
    power = pool_power(pools, 0)
    depths = depths_of_pool(pools, 0)
    now_s = int(state.scalars[0].now_s)
    available = int(state.free[SLOTS, 0])
    for rank in range(here.listed):
        slot = index(state.expected[index(rank)])
        if state.slots.expected_end_s[slot] <= now_s:
            available += state.slots.pieces[slot]
    listed = list_coming(state, coming, power, depths)
    asleep = light_sleepers(power, SHALLOW_TO_DEEP)
    if asleep > 0:
        asleep_units = asleep * int(power.scalars[0].units_per_node)
        listed = list_units(coming, 0, listed, now_s + longest_wake_s(power, depths), asleep_units)
    start_s, available = start_on(coming, 0, listed, available, units, now_s)
    here.extra = available - units
    here.reserved = 1
    here.changes += 1
    state.holds.start_s[0] = start_s


@apart
def plan_wakes(workload: Workload, state: State, pools: SleepingPools, rules: EngineRules) -> None:
    """Plan the waiting jobs; note how many nodes to wake now, how many idle ones to keep, and when to look again."""
    power = pool_power(pools, 0)
    nodes = power.scalars[0]
    depths = depths_of_pool(pools, 0)
    now_s = int(state.scalars[0].now_s)
    asleep = light_sleepers(power, SHALLOW_TO_DEEP)
    nodes.planned = 0
    nodes.planned_wakes = 0
    nodes.plan_due_s = NEVER
    if state.groups[0].waiting == 0 or (asleep == 0 and nodes.idle_units == 0):
        return
    wake_s = longest_wake_s(power, depths)
    pool = PoolNow(
        now_s=now_s,
        units_per_node=int(nodes.units_per_node),
        idle_units=int(nodes.idle_units),
        asleep=int(asleep),
        wake_s=wake_s,
        # Where a bound spreads wakes, the first nodes of a job are up long before the last.
        keep_until_s=max(now_s + rules_of_pool(pools, 0).plan_s, last_rise_s(power)),
        is_easy=rules.reservations != 0,
    )
    listed = list_coming(state, pools.coming, power, depths)
    nodes.plan_due_s = next_plan_s(state, pools.coming, listed, now_s, wake_s)
    waiting = list_waiting(workload, state, pools.planned)
    nodes.planned_wakes, nodes.planned = plan_queue(pool, pools.planned, waiting, pools.coming, listed)


@part
def list_waiting(workload: Workload, state: State, planned: PlannedJobs) -> int:
    """List the first waiting jobs that no limit holds back; return how many."""
    here = state.groups[0]
    waiting = state.waiting
    listed = 0
    for position in range(here.head, here.tail):
        units = int(waiting.size[index(position)])
        if units == NEVER or is_limited(workload.limits, state.limit_used, waiting.job[index(position)]):
            continue
        planned.size[index(listed)] = units
        planned.hold_s[index(listed)] = waiting.hold_s[index(position)]
        listed += 1
        if listed == MOST_PLANNED:
            break
    return listed


@part
def next_plan_s(state: State, coming: ComingUnits, listed: int, now_s: int, wake_s: int) -> int:
    """Return when a job outlasts its expected end, or more units become free by the end of a boot that begins then."""
    here = state.groups[0]
    found = NEVER
    for rank in range(here.listed):
        end_s = state.slots.expected_end_s[index(state.expected[index(rank)])]
        if end_s > now_s:
            found = end_s
            break
    for at in range(listed):
        if coming.at_s[index(at)] > now_s + wake_s:
            found = min(found, coming.at_s[index(at)] - wake_s)
            break
    return int(found)
