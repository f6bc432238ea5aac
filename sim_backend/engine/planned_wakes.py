"""Jobs that start on awake nodes only: what their reservations count on, and which nodes are woken for them.

A unit is free now, at the end of a job, after a boot, or after a shutdown and a boot. The waiting jobs are planned on
these times as EASY starts jobs. Sleeping nodes are woken for a job only where it starts earlier so, as few as it lacks
then, and just in time: a job waits for a node that is about to become free instead of a boot. An idle node is not put
to sleep before a start for which it would have to be woken at once. The idea is that of the power-state-aware scheduler
in arXiv 2512.13268.
"""

from offpeak.bits import NO_BIT, next_bit
from offpeak.compiled import apart, index, part
from offpeak.model.node_states import FAILED
from offpeak.plugin.capacity.rules import CapacityRules, DepthTable
from offpeak.plugin.capacity.sleepers import SHALLOW_TO_DEEP
from offpeak.sim_backend.engine.limits import is_limited
from offpeak.sim_backend.engine.pools import (
    MOST_PLANNED,
    ComingUnits,
    SleepingPools,
    depths_of_pool,
    pool_power,
    rules_of_pool,
)
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
def list_units(coming: ComingUnits, first: int, listed: int, at_s: int, units: int) -> int:
    """Add units to the list, which has one entry for each second, from `first` on; return its new length."""
    place = listed
    while place > first and coming.at_s[index(place - 1)] > at_s:
        place -= 1
    if place > first and coming.at_s[index(place - 1)] == at_s:
        coming.units[index(place - 1)] += units
        return listed
    for later in range(listed, place, -1):
        coming.at_s[index(later)] = coming.at_s[index(later - 1)]
        coming.units[index(later)] = coming.units[index(later - 1)]
    coming.at_s[index(place)] = at_s
    coming.units[index(place)] = units
    return listed + 1


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


@part
def start_on(coming: ComingUnits, first: int, listed: int, available: int, units: int, from_s: int) -> tuple[int, int]:
    """Return when so many units are available, from a second on at which some are, and how many there are then.

    If all do not suffice, it is the last second at which some become free.
    """
    start_s = from_s
    for at in range(first, listed):
        if available >= units and coming.at_s[index(at)] > start_s:
            break
        start_s = max(start_s, coming.at_s[index(at)])
        available += coming.units[index(at)]
    return int(start_s), int(available)


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
    here = state.groups[0]
    waiting = state.waiting
    coming = pools.coming
    power = pool_power(pools, 0)
    nodes = power.scalars[0]
    depths = depths_of_pool(pools, 0)
    now_s = int(state.scalars[0].now_s)
    per_node = int(nodes.units_per_node)
    idle = int(nodes.idle_units)
    asleep = light_sleepers(power, SHALLOW_TO_DEEP)
    nodes.planned = 0
    nodes.planned_wakes = 0
    nodes.plan_due_s = NEVER
    if here.waiting == 0 or (asleep == 0 and idle == 0):
        return
    wake_s = longest_wake_s(power, depths)
    up_s = now_s + wake_s
    # Where a bound spreads wakes, the first nodes of a job are up long before the last.
    keep_until_s = max(now_s + rules_of_pool(pools, 0).plan_s, last_rise_s(power))
    listed = list_coming(state, coming, power, depths)
    nodes.plan_due_s = next_plan_s(state, coming, listed, now_s, wake_s)
    first = 0
    kept = 0
    ready = 0
    blocked = False
    shadow_s = NEVER
    extra = 0
    left = MOST_PLANNED
    for position in range(here.head, here.tail):
        if left == 0 or (idle == 0 and asleep == 0):
            break
        units = int(waiting.size[index(position)])
        if units == NEVER or is_limited(workload.limits, state.limit_used, waiting.job[index(position)]):
            continue
        left -= 1
        own = min(units, idle)
        found = own
        start_s = now_s
        behind = first
        while found < units and behind < listed and coming.at_s[index(behind)] <= up_s:
            start_s = int(coming.at_s[index(behind)])
            found += coming.units[index(behind)]
            behind += 1
        needed = -(-max(0, units - found) // per_node)
        if needed > 0:
            start_s = up_s
        end_s = start_s + max(1, int(waiting.hold_s[index(position)]))
        if blocked and ((end_s > shadow_s and units > extra) or needed > asleep):
            continue
        if own == units:
            # It waits for its turn, or lets another job go first, which must not wait for it.
            ready = max(ready, units)
            continue
        if needed > asleep:
            blocked = True
            shadow_s, extra = start_on(coming, behind, listed, idle + found - own + asleep * per_node, units, up_s)
            extra -= units
            kept += own if shadow_s <= keep_until_s else 0
            if rules.reservations == 0:
                break
            continue
        if blocked and end_s > shadow_s:
            extra -= units
        idle -= own
        kept += own
        asleep -= needed
        nodes.planned_wakes += needed
        first = behind
        if needed == 0 and found > units:
            first -= 1
            coming.units[index(first)] = found - units
        elif found + needed * per_node > units:
            listed = list_units(coming, first, listed, up_s, found + needed * per_node - units)
        listed = list_units(coming, first, listed, end_s, units)
    nodes.planned = -(-max(kept, ready) // per_node)


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
