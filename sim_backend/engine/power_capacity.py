"""Puts nodes to sleep and wakes them by the capacity policy's rules, at one instant of the replay.

A forecast, passed to the engine every period, sets how many idle nodes stay awake and how many are woken.
"""

from offpeak.bits import NO_BIT, next_bit, previous_bit
from offpeak.compiled import index, part
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.plugin.capacity import sleepers
from offpeak.plugin.capacity.rules import NEVER, CapacityRules, CapacitySchedule, DepthTable
from offpeak.sim_backend.engine.allocation import PoolMachine
from offpeak.sim_backend.engine.power import Power, falling_nodes, rising_nodes
from offpeak.sim_backend.engine.power_transitions import go_deeper, put_to_sleep, wake
from offpeak.sim_backend.engine.rules import NOT_YET

A_MINUTE_S = 60
ROUNDING = 1e-6


@part
def first_due_s(schedule: CapacitySchedule, row: int, idle_since_s: int) -> int:
    """Return when a node that has been idle since then is due for its first depth, NEVER if for none."""
    earliest = NEVER
    for depth in range(sleepers.SHALLOW_TO_DEEP):
        if schedule.after_s[row, depth] != NEVER:
            earliest = min(earliest, idle_since_s + schedule.after_s[row, depth])
    return int(earliest)


@part
def follow_schedule(power: Power, schedule: CapacitySchedule, now_s: int) -> bool:
    """Move to the current row of the schedule, and return whether it is another one."""
    nodes = power.scalars[0]
    row = nodes.row
    while row + 1 < len(schedule.at_s) and schedule.at_s[index(row + 1)] <= now_s:
        row += 1
    if row == nodes.row:
        return False
    nodes.row = row
    nodes.target = schedule.target[index(row)]
    nodes.reserve = schedule.reserve[index(row)]
    nodes.due_s = now_s
    return True


@part
def next_row_s(power: Power, schedule: CapacitySchedule) -> int:
    """Return when the next row of the schedule starts, NEVER if there is none."""
    following = power.scalars[0].row + 1
    return int(schedule.at_s[index(following)]) if following < len(schedule.at_s) else NEVER


@part
def sleeps_left(power: Power, rules: CapacityRules) -> int:
    """Return how many more nodes the limit allows to be put to sleep in the minute of the last sleeps."""
    return int(rules.sleeps_per_min * (1.0 - power.rates[0].slept_share) + ROUNDING)


@part
def within_rate(power: Power, rules: CapacityRules, wanted: int, now_s: int) -> int:
    """Return how many of the wanted sleeps the limit per minute allows, and count them."""
    if rules.sleeps_per_min == 0:
        return wanted
    rates = power.rates[0]
    if rates.slept_minute != now_s // A_MINUTE_S:
        rates.slept_minute = now_s // A_MINUTE_S
        rates.slept_share = 0.0
    granted = min(wanted, sleeps_left(power, rules))
    rates.slept_share += granted / rules.sleeps_per_min
    return int(granted)


@part
def sleep_some(
    machine: PoolMachine, power: Power, depths: DepthTable, criteria: sleepers.SleepCriteria, allowed: int
) -> bool:
    """Put up to `allowed` idle nodes to sleep; return whether more nodes are due."""
    now_s = criteria.now_s
    table = power.table
    rules = criteria.rules
    due = sleepers.eligible_up_to(criteria, NEVER)
    left = within_rate(power, rules, max(0, min(allowed, due)), now_s)
    limited = left < due
    last = NEVER
    ties = 0
    if 0 < left < due:
        last = sleepers.last_key(criteria, left)
        ties = left - sleepers.eligible_up_to(criteria, last - 1)
    before = previous_bit(table.idle, len(table.state) - 1)
    while left > 0 and before != NO_BIT:
        node = before
        before = previous_bit(table.idle, node - 1)
        key = sleepers.sleep_key(table, rules, node, now_s)
        if key > last or (key == last and ties == 0):
            continue
        if sleepers.may_sleep(criteria, node):
            put_to_sleep(machine, power, depths, node, sleepers.depth_to_enter(criteria, node))
            left -= 1
            ties -= key == last
    return bool(limited)


@part
def may_leave(power: Power, rules: CapacityRules) -> int:
    """Return how many nodes, with jobs and without, are awake beyond those that must be.

    Nodes that come up do not count, because a node that leaves in their place might have to be woken again. However, a
    target limits the nodes of jobs, so nodes that come up for a job count.
    """
    nodes = power.scalars[0]
    idle = nodes.idle_nodes - max(max(nodes.reserve, nodes.keep), nodes.planned)
    coming = 0 if rules.on_demand else rising_nodes(power) - nodes.rising_idle
    return int(min(power.nodes_in[ACTIVE] + coming - sleepers.floor_nodes_part(rules, power.scalars[0].target), idle))


@part
def shrink_to_target(
    machine: PoolMachine, power: Power, depths: DepthTable, rules: CapacityRules, schedule: CapacitySchedule
) -> None:
    """Put idle nodes beyond the target to sleep before jobs can get them."""
    nodes = power.scalars[0]
    if rules.on_demand:
        return
    nodes.due_s = NEVER
    excess = may_leave(power, rules)
    if excess <= 0 or sleepers.deepest_in_use(schedule, nodes.row) == sleepers.NO_DEPTH:
        return
    before = nodes.idle_nodes
    now_s = machine.scalars[0].now_s
    sleep_some(
        machine, power, depths, sleepers.SleepCriteria(power.table, rules, schedule, nodes.row, now_s, True), excess
    )
    if before - nodes.idle_nodes < excess:
        nodes.due_s = next_leave_s(power, rules, now_s)


@part
def next_leave_s(power: Power, rules: CapacityRules, now_s: int) -> int:
    """Return when the next limit that keeps a node awake ends, or NEVER."""
    earliest = next_rate_s(power, rules, now_s)
    node = next_bit(power.table.idle, 0)
    while node != NO_BIT:
        free_s = sleepers.free_to_sleep_s(power.table, rules, node, now_s)
        if free_s > now_s:
            earliest = min(earliest, free_s)
        node = next_bit(power.table.idle, node + 1)
    return int(earliest)


@part
def next_rate_s(power: Power, rules: CapacityRules, now_s: int) -> int:
    """Return when nodes may be put to sleep again if this minute's are used up, else NEVER."""
    if rules.sleeps_per_min == 0 or sleeps_left(power, rules) > 0:
        return NEVER
    return int((now_s // A_MINUTE_S + 1) * A_MINUTE_S)


@part
def light_sleepers(power: Power, deepest: int) -> int:
    """Return how many nodes sleep in depths above the deepest one in use."""
    found = 0
    for depth in range(deepest):
        found += power.nodes_in[index(3 + 3 * depth)]
    return int(found)


@part
def deepen_due(
    machine: PoolMachine, power: Power, depths: DepthTable, rules: CapacityRules, schedule: CapacitySchedule
) -> int:
    """Send to a deeper sleep the nodes that are due for one; return when the next one is, or NEVER."""
    now_s = machine.scalars[0].now_s
    row = power.scalars[0].row
    earliest = NEVER
    after = next_bit(power.away, 0)
    while after != NO_BIT:
        node = after
        after = next_bit(power.away, node + 1)
        at = index(node)
        if power.table.busy[at] > 0:
            continue
        depth = sleepers.depth_at_age(schedule, row, now_s - power.table.idle_since_s[at])
        is_due = depth != sleepers.NO_DEPTH and sleepers.is_shallower(power.table.state[at], depth)
        if is_due and not sleepers.is_spent(power.table, rules, node, now_s):
            go_deeper(machine, power, depths, rules.wakes_per_min, node, depth)
        earliest = min(earliest, sleepers.due_in_s(power.table, rules, schedule, row, node, now_s))
    return int(earliest)


@part
def sleep_due(
    machine: PoolMachine, power: Power, depths: DepthTable, rules: CapacityRules, schedule: CapacitySchedule
) -> None:
    """Put to sleep, or to a deeper sleep, the nodes that are due by their idle time and not kept awake."""
    now_s = machine.scalars[0].now_s
    nodes = power.scalars[0]
    if not rules.on_demand or (nodes.due_s > now_s and nodes.limited == 0):
        return
    stay = is_awaited(machine, rules) or waits_for_repair(machine, power, depths)
    allowed = 0 if stay else may_leave(power, rules)
    criteria = sleepers.SleepCriteria(power.table, rules, schedule, nodes.row, now_s, False)
    nodes.limited = 1 if sleep_some(machine, power, depths, criteria, allowed) else 0
    earliest = NEVER
    if light_sleepers(power, sleepers.deepest_in_use(schedule, nodes.row)) > 0:
        earliest = deepen_due(machine, power, depths, rules, schedule)
    node = next_bit(power.table.idle, 0)
    while node != NO_BIT:
        earliest = min(earliest, sleepers.due_in_s(power.table, rules, schedule, nodes.row, node, now_s))
        node = next_bit(power.table.idle, node + 1)
    nodes.due_s = min(earliest, next_rate_s(power, rules, now_s)) if nodes.limited else earliest


@part
def has_reservation(machine: PoolMachine, rules: CapacityRules) -> bool:
    """Tell whether a waiting job has a reservation for which nodes come up or stay awake."""
    now = machine.scalars[0]
    return bool(rules.on_demand and rules.ahead_s > 0 and now.waiting > 0 and now.shadow_s != NOT_YET)


@part
def is_awaited(machine: PoolMachine, rules: CapacityRules) -> bool:
    """Tell whether idle nodes stay awake because a reservation will need them soon."""
    now = machine.scalars[0]
    return has_reservation(machine, rules) and bool(now.shadow_s - now.now_s <= rules.ahead_s)


@part
def waits_for_repair(machine: PoolMachine, power: Power, depths: DepthTable) -> bool:
    """Tell whether the first waiting job lacks only nodes that are being repaired.

    If the other nodes slept meanwhile, some of them would fail to wake up for the job, and so on: a job that needs a
    hundred nodes of which one in fifty fails would hardly ever start.
    """
    now = machine.scalars[0]
    if depths.repair_s == NEVER or now.waiting == 0:
        return False
    units = units_without_job(power)
    failed = power.nodes_in[FAILED] * power.scalars[0].units_per_node
    return bool(units < now.first_size <= units + failed)


@part
def units_without_job(power: Power) -> int:
    """Return the units without a job on all nodes that have not failed."""
    nodes = power.scalars[0]
    return int(nodes.idle_units + nodes.spare_units + falling_nodes(power) * nodes.units_per_node)


@part
def needed_for_reservation(machine: PoolMachine, power: Power, rules: CapacityRules) -> int:
    """Return how many sleeping nodes the reservation of the first waiting job will need, and set when to wake them."""
    now = machine.scalars[0]
    nodes = power.scalars[0]
    nodes.wake_due_s = NEVER
    missing = nodes.spare_units + now.returning - now.extra
    if not has_reservation(machine, rules) or missing <= 0:
        return 0
    if now.shadow_s - now.now_s > rules.ahead_s:
        nodes.wake_due_s = now.shadow_s - rules.ahead_s
        return 0
    needed = (missing + nodes.units_per_node - 1) // nodes.units_per_node
    return int(max(0, needed - nodes.rising_idle))


@part
def wake_needed(machine: PoolMachine, power: Power, depths: DepthTable, rules: CapacityRules) -> None:
    """Wake nodes up to the floor, to the reserve, for the reservation, and for the plan of the queue.

    Nodes in the lightest sleep are woken first, and among these the ones that are last in line to sleep.
    """
    now_s = machine.scalars[0].now_s
    nodes = power.scalars[0]
    missing = sleepers.floor_nodes_part(rules, power.scalars[0].target) - power.nodes_in[ACTIVE] - rising_nodes(power)
    missing = max(missing, nodes.reserve - nodes.idle_nodes - nodes.rising_idle)
    missing = max(missing, max(needed_for_reservation(machine, power, rules), nodes.planned_wakes))
    nodes.wake_due_s = min(nodes.wake_due_s, nodes.plan_due_s)
    for depth in range(sleepers.SHALLOW_TO_DEEP):
        after = next_bit(power.away, 0) if power.nodes_in[index(3 + 3 * depth)] > 0 else NO_BIT
        while missing > 0 and after != NO_BIT:
            node = after
            after = next_bit(power.away, node + 1)
            if power.table.state[index(node)] != 3 + 3 * depth:
                continue
            rested_s = power.table.slept_s[index(node)] + rules.min_asleep_s
            if rested_s > now_s:
                nodes.wake_due_s = min(nodes.wake_due_s, rested_s)
                continue
            wake(machine, power, depths, rules.wakes_per_min, node)
            missing -= 1


@part
def expect_needs(power: Power, rules: CapacityRules, now_s: int, needed: int) -> None:
    """Learn from the nodes that are needed now, and set how many idle nodes stay awake and how many must be awake."""
    nodes = power.scalars[0]
    sleepers.observe_need(power.needs, now_s, needed)
    nodes.keep = sleepers.last_rank(power.needs, 1 / rules.worth_s)
    nodes.reserve = sleepers.last_rank(power.needs, sleepers.WAKE_AHEAD_AT / rules.worth_s)
