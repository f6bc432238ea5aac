"""What the nodes of the pools do in a second of `advance`: transitions, decisions, sleep and wake by their policies.

Each pool follows its own policy; a reservation keeps nodes of its pools awake or wakes them.
"""

from offpeak.compiled import apart, index, part
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.plugin.capacity.sleepers import follows_queue, target_for_queue
from offpeak.sim_backend.engine.cells import copy_cell, find_place, put_back
from offpeak.sim_backend.engine.limits import is_limited
from offpeak.sim_backend.engine.planned_wakes import plan_wakes
from offpeak.sim_backend.engine.pool_jobs import take_back_returning
from offpeak.sim_backend.engine.pools import (
    SleepingPools,
    depths_of_pool,
    pool_machine,
    pool_power,
    rules_of_pool,
    schedule_of_pool,
)
from offpeak.sim_backend.engine.power import free_units, log_is_full, refresh_free
from offpeak.sim_backend.engine.power_capacity import (
    expect_needs,
    follow_schedule,
    next_row_s,
    shrink_to_target,
    sleep_due,
    units_without_job,
    wake_needed,
)
from offpeak.sim_backend.engine.power_transitions import arrive
from offpeak.sim_backend.engine.promises import withdraw
from offpeak.sim_backend.engine.queue import forget_blocked, is_hole
from offpeak.sim_backend.engine.reservations import first_reservation
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET, EngineRules
from offpeak.sim_backend.engine.running import begin_anew, hope_again, hope_for_counted
from offpeak.sim_backend.engine.state import SLOTS, State, Tables, Workload


@part
def next_pool_event_s(pools: SleepingPools) -> int:
    """Return the time of the next event of, or decision on, the nodes of any pool."""
    at_s = NEVER
    for pool in range(len(pools.group)):
        nodes = pools.power.scalars[pool]
        at_s = min(at_s, min(nodes.next_ready_s, nodes.wake_due_s), min(nodes.due_s, nodes.next_decision_s))
        at_s = min(at_s, next_row_s(pool_power(pools, pool), schedule_of_pool(pools, pool)))
    return int(at_s)


@part
def is_over(state: State) -> bool:
    """Tell whether no job runs, waits, will wait again or will be submitted."""
    now = state.scalars[0]
    is_idle = now.running == 0 and now.waiting == 0 and now.next_submit_s == NEVER
    return bool(is_idle and now.requeued == now.stops)


@part
def a_log_is_full(pools: SleepingPools) -> bool:
    """Tell whether the entries of a second may no longer fit into the log of a pool."""
    full = 0
    for pool in range(len(pools.group)):
        full += log_is_full(pool_power(pools, pool))
    return full > 0


@part
def change_pool_cell(state: State, cell: int, column: int, amount: int) -> None:
    """Add available resources to the cell."""
    state.free[index(column), index(cell)] += amount
    copy_cell(state.late, state.free, cell)
    copy_cell(state.ahead, state.free, cell)


@part
def offer_shared_nodes(tables: Tables, workload: Workload, state: State, pools: SleepingPools, pool: int) -> None:
    """Offer to jobs the shared nodes of the pool that they may get in their present states, and no others."""
    on_demand = pools.policies.rules[pool, 0] != 0
    first = int(tables.cell_first[pool])
    for cell in range(first, tables.cell_first[pool + 1]):
        held = pools.power.table.state[index(pools.node_first[pool] + cell - first)]
        is_offered = held == ACTIVE or (on_demand and held > FAILED and held % 3 != 2)
        if is_offered == (pools.offered[index(cell)] == 1):
            continue
        pools.offered[index(cell)] = 1 if is_offered else 0
        for column in range(len(state.free)):
            whole = int(tables.capacity[index(column), index(cell)])
            change_pool_cell(state, cell, column, whole if is_offered else -whole)
        if is_offered:
            hope_again(tables, workload, state, cell)


@part
def offer_nodes(tables: Tables, workload: Workload, state: State, pools: SleepingPools, pool: int) -> bool:
    """Bring the pool's cells up to date with the states of its nodes; return whether other nodes are available.

    Reservations are made anew then.
    """
    machine = pool_machine(pools, pool)
    power = pool_power(pools, pool)
    now = machine.scalars[0]
    now.ended = 0
    changed = refresh_free(machine, power, rules_of_pool(pools, pool))
    if tables.need is None:
        state.free[SLOTS, 0] = now.free
        hope_for_counted(tables, state)
    elif pools.is_counted[pool]:
        cell = int(tables.cell_first[pool])
        more = now.free - state.free[SLOTS, index(cell)]
        if more != 0:
            change_pool_cell(state, cell, SLOTS, more)
        if more > 0:
            hope_again(tables, workload, state, cell)
    elif pools.power.scalars[pool].log_length != pools.seen[pool]:
        pools.seen[pool] = pools.power.scalars[pool].log_length
        offer_shared_nodes(tables, workload, state, pools, pool)
    group = int(pools.group[pool])
    if now.ended and group != NOT_YET:
        forget_blocked(state, group)
        state.groups[group].is_stale = 1
    return bool(changed)


@part
def make_due(state: State, pools: SleepingPools, pool: int) -> None:
    """Let the next pass look at the jobs that could use the pool."""
    group = int(pools.group[pool])
    if group != NOT_YET:
        state.groups[group].is_due = 1
        state.groups[group].is_backfill_due = 1


@part
def offer_all(tables: Tables, workload: Workload, state: State, pools: SleepingPools) -> bool:
    """Bring the cells of all pools up to date, and return whether other nodes are available."""
    any_change = False
    for pool in range(len(pools.group)):
        if offer_nodes(tables, workload, state, pools, pool):
            make_due(state, pools, pool)
            any_change = True
    return any_change


@part
def take_node_events(pools: SleepingPools, now_s: int) -> None:
    """Start and end all due transitions of this second."""
    for pool in range(len(pools.group)):
        pools.machine[pool].now_s = now_s
        if pools.power.scalars[pool].next_ready_s <= now_s:
            arrive(pool_machine(pools, pool), pool_power(pools, pool), depths_of_pool(pools, pool))


@part
def follow_schedules(state: State, pools: SleepingPools) -> bool:
    """Move to the current rows of the schedules, and return whether one of them is another one."""
    any_change = False
    for pool in range(len(pools.group)):
        schedule = schedule_of_pool(pools, pool)
        if follow_schedule(pool_power(pools, pool), schedule, state.scalars[0].now_s):
            make_due(state, pools, pool)
            any_change = True
    return any_change


@apart
def drop_too_wide(tables: Tables, state: State, pools: SleepingPools) -> bool:
    """Remove the jobs that need more nodes than are left from the queue, and return whether there were any.

    They can never start, and would keep all others from starting.
    """
    if pools.power.nodes_in[0, FAILED] == 0 or pools.policies.repair_s[0] != NEVER:
        return False
    here = state.groups[0]
    waiting = state.waiting
    most = most_usable(pools, 0) * pools.power.scalars[0].units_per_node
    dropped = False
    for position in range(here.head, here.tail):
        if not most < waiting.size[index(position)] < NEVER:
            continue
        if state.promises is not None:
            withdraw(state, state.promises, position)
        own_class = waiting.request_class[index(position)]
        waiting.of_class[index(own_class)] -= 1
        here.hopeful -= 1 - waiting.misfit[index(own_class)]
        here.waiting -= 1
        state.scalars[0].waiting -= 1
        waiting.size[index(position)] = NEVER
        waiting.request_class[index(position)] = len(tables.class_group)
        dropped = True
    if dropped:
        begin_anew(state, 0)
    return dropped


@part
def nodes_in_use(tables: Tables, state: State, pools: SleepingPools, pool: int) -> int:
    """Return how many nodes of the pool jobs hold, including nodes that come up for them; counted units are packed."""
    found = 0
    if tables.need is None:
        here = state.groups[0]
        per_node = pools.power.scalars[0].units_per_node
        for at in range(here.first, here.first + here.listed):
            found += state.slots.pieces[index(state.expected[index(at)])]
        return int(-(-found // per_node))
    for node in range(pools.node_first[pool], pools.node_first[pool + 1]):
        found += pools.power.table.busy[index(node)] > 0
    return int(found)


@part
def take_decisions(tables: Tables, state: State, pools: SleepingPools) -> bool:
    """Let forecasts decide that are due, and return whether an external decision is due."""
    now_s = state.scalars[0].now_s
    is_external = False
    for pool in range(len(pools.group)):
        nodes = pools.power.scalars[pool]
        if nodes.next_decision_s > now_s:
            continue
        rules = rules_of_pool(pools, pool)
        nodes.next_decision_s = now_s + rules.period_s
        if rules.worth_s == 0:
            is_external = True
        else:
            expect_needs(pool_power(pools, pool), rules, now_s, nodes_in_use(tables, state, pools, pool))
    return is_external


@part
def least_units(tables: Tables, request_class: int, pool: int) -> int:
    """Return how many nodes of the pool a job of the class takes at most, 0 if it can use none."""
    found = 0
    for chunk in range(tables.chunk_first[index(request_class)], tables.chunk_first[index(request_class + 1)]):
        for option in range(tables.option_first[index(chunk)], tables.option_first[index(chunk + 1)]):
            if tables.option_pool[index(option)] != pool:
                continue
            parts_per_node = tables.room[index(option)]
            if tables.is_ranked[index(option)] and tables.most[index(option)] > 1:
                parts_per_node = tables.most[index(option)]
            found += -(-tables.copies[index(chunk)] // parts_per_node)
    return found


@part
def most_usable(pools: SleepingPools, pool: int) -> int:
    """Return how many nodes of the pool jobs may use some day: all but those that have failed for good."""
    nodes = pools.node_first[pool + 1] - pools.node_first[pool]
    is_repaired = pools.policies.repair_s[pool] != NEVER
    return int(nodes if is_repaired else nodes - pools.power.nodes_in[pool, FAILED])


@part
def widest_waiting(tables: Tables, state: State, pools: SleepingPools, pool: int) -> int:
    """Return how many nodes of the pool the widest waiting job would take; counted units must fit on its nodes."""
    group = int(pools.group[pool])
    widest = 0
    if group == NOT_YET:
        return widest
    per_node = pools.power.scalars[pool].units_per_node
    most = most_usable(pools, pool)
    for at in range(tables.group_class_first[index(group)], tables.group_class_first[index(group + 1)]):
        own_class = tables.group_class[index(at)]
        if state.waiting.of_class[index(own_class)] == 0:
            continue
        if tables.need is not None:
            widest = max(widest, min(most, least_units(tables, own_class, pool)))
        elif tables.units[index(own_class)] <= most * per_node:
            widest = max(widest, -(-tables.units[index(own_class)] // per_node))
    return int(widest)


@part
def leave_beyond_target(tables: Tables, state: State, pools: SleepingPools) -> None:
    """Adjust the targets to the queues, and put idle nodes beyond them to sleep before jobs can get them."""
    for pool in range(len(pools.group)):
        rules = rules_of_pool(pools, pool)
        if rules.on_demand:
            continue
        power = pool_power(pools, pool)
        nodes = power.scalars[0]
        if follows_queue(rules, nodes.target, power.nodes_in[ACTIVE] - nodes.idle_nodes):
            widest = widest_waiting(tables, state, pools, pool)
            nodes.target = target_for_queue(rules, nodes.target, widest, len(power.ready_s))
        machine = pool_machine(pools, pool)
        shrink_to_target(machine, power, depths_of_pool(pools, pool), rules, schedule_of_pool(pools, pool))


@part
def first_waiting(tables: Tables, state: State, group: int) -> int:
    """Return the position of the first waiting job of the group, NOT_YET if none waits."""
    here = state.groups[group]
    for position in range(here.head, here.tail):
        if not is_hole(tables, state, position):
            return int(position)
    return NOT_YET


@part
def show_reservation(tables: Tables, state: State, pools: SleepingPools, rules: EngineRules, pool: int) -> None:
    """Write the first reservation of the pool's group into the pool's scalars, as its capacity rules read it."""
    now = pools.machine[pool]
    group = int(pools.group[pool])
    now.shadow_s = NOT_YET
    now.waiting = 0 if group == NOT_YET else state.groups[group].waiting
    if tables.need is None:
        position = first_waiting(tables, state, 0)
        now.first_size = 0 if position == NOT_YET else state.waiting.size[index(position)]
    if group == NOT_YET or state.groups[group].reserved == 0 or rules.reservations == 0:
        return
    here = state.groups[group]
    holds = state.holds
    own = first_reservation(rules, group)
    if tables.need is None:
        now.shadow_s = holds.start_s[0]
        now.extra = here.extra
        return
    asleep = 0
    first = tables.cell_first[pool]
    for hold in range(here.first_hold, here.first_hold + here.holds):
        cell = holds.cell[index(hold)]
        if holds.reservation[index(hold)] != own or tables.cell_pool[index(cell)] != pool:
            continue
        now.shadow_s = holds.start_s[index(own)]
        now.extra = holds.spare[index(hold), SLOTS]
        held = pools.power.table.state[index(pools.node_first[pool] + cell - first)]
        asleep += held > FAILED and pools.jobs[index(cell)] == 0
    if not pools.is_counted[pool]:
        now.extra = pools.power.scalars[pool].spare_units + now.returning - asleep


@part
def would_start(tables: Tables, state: State, pools: SleepingPools, group: int, request_class: int) -> bool:
    """Tell whether a job of the class lacks nothing but nodes that are not available as long as they sleep."""
    now = state.scalars[0]
    lacking = False
    if tables.need is None:
        units = tables.units[index(request_class)]
        power = pool_power(pools, 0)
        return bool(free_units(power, rules_of_pool(pools, 0)) < units <= units_without_job(power))
    for at in range(tables.group_cell_first[index(group)], tables.group_cell_first[index(group + 1)]):
        cell = tables.group_cell[index(at)]
        pool = int(tables.cell_pool[index(cell)])
        if pools.is_counted[pool]:
            more = units_without_job(pool_power(pools, pool)) - pools.machine[pool].free
            state.ahead[SLOTS, index(cell)] += more
            lacking |= more > 0
        elif pools.offered[index(cell)] == 0:
            lacking = True
            for column in range(len(state.ahead)):
                state.ahead[index(column), index(cell)] += tables.capacity[index(column), index(cell)]
    found = 0
    if lacking:
        now.searches += 1
        found = find_place(state.free, tables, state.picks, request_class, now.searches)
        put_back(state.free, tables, state.picks, found)
        lacking = found == 0
        now.searches += 1
        found = find_place(state.ahead, tables, state.picks, request_class, now.searches)
    take_back_returning(tables, state, group)
    return bool(lacking and found > 0)


@part
def note_planned_since(workload: Workload, state: State, pools: SleepingPools) -> None:
    """Record since when each of the first waiting jobs would have run if no node slept.

    Where jobs do not take sleeping nodes, a job that waits for a boot keeps back those behind it.
    """
    here = state.groups[0]
    wanted_s = pools.power.wanted_s
    left = units_without_job(pool_power(pools, 0))
    for position in range(here.head, here.tail):
        units = state.waiting.size[index(position)]
        job = state.waiting.job[index(position)]
        if units == NEVER or is_limited(workload.limits, state.limit_used, job):
            continue
        if units > left:
            return
        left -= units
        if wanted_s[index(job)] == NOT_YET:
            wanted_s[index(job)] = state.scalars[0].now_s


@part
def note_blocked_since(tables: Tables, workload: Workload, state: State, pools: SleepingPools) -> None:
    """Record since when the first waiting job of each group waits only for sleeping nodes."""
    now = state.scalars[0]
    wanted_s = pools.power.wanted_s
    if now.waiting == 0 or now.wanted_pass_s != NEVER or now.wanted_backfill_s != NEVER:
        return
    if tables.need is None and rules_of_pool(pools, 0).plan_s > 0:
        note_planned_since(workload, state, pools)
        return
    for group in range(len(state.groups)):
        position = first_waiting(tables, state, group)
        if position == NOT_YET or is_limited(workload.limits, state.limit_used, state.waiting.job[index(position)]):
            continue
        job = state.waiting.job[index(position)]
        if wanted_s[index(job)] != NOT_YET:
            continue
        if would_start(tables, state, pools, group, state.waiting.request_class[index(position)]):
            wanted_s[index(job)] = now.now_s


@part
def keep_nodes(tables: Tables, workload: Workload, state: State, pools: SleepingPools, rules: EngineRules) -> bool:
    """Put to sleep and wake the nodes that are due after the passes; return whether jobs may count on more of them."""
    for pool in range(len(pools.group)):
        show_reservation(tables, state, pools, rules, pool)
        machine = pool_machine(pools, pool)
        power = pool_power(pools, pool)
        depths = depths_of_pool(pools, pool)
        own = rules_of_pool(pools, pool)
        if tables.need is None and own.plan_s > 0:
            plan_wakes(workload, state, pools, rules)
        sleep_due(machine, power, depths, own, schedule_of_pool(pools, pool))
        wake_needed(machine, power, depths, own)
    note_blocked_since(tables, workload, state, pools)
    any_more = False
    for pool in range(len(pools.group)):
        now = pools.machine[pool]
        free = now.free
        expected = free + now.returning
        offer_nodes(tables, workload, state, pools, pool)
        if now.free > free or now.free + now.returning > expected:
            make_due(state, pools, pool)
            any_more = True
    return any_more
