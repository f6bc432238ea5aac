"""The event loop: ends, submissions and price changes advance the clock, then a pass over each group starts jobs.

Competition groups share no pool, so each has its own queue, window and reservations. A pass starts jobs in order of
partition tier, priority and submission. It ends at the first blocked job (FCFS) or goes on beside reservations. Passes
in which no waiting class of requests can fit are left out.

The order within a second: transitions of nodes end, jobs end, jobs are submitted, external decisions are requested,
nodes beyond their pool's target leave, jobs start, and finally due nodes fall asleep and needed nodes are woken.
Without nodes that sleep (`state.sleeping` is None) all that concerns them is left out at compilation.

With Slurm's timing most passes are like those of its main scheduler: they go in order, and a blocked job closes its
partition and those on the same nodes. Full passes, which reserve and backfill, take place at multiples of
`bf_interval_s`.
"""

from offpeak.compiled import apart, in_place, index, part
from offpeak.plugin.window_policy import ARRIVAL, EXTERNAL
from offpeak.sim_backend.engine import queue
from offpeak.sim_backend.engine.limits import is_limited
from offpeak.sim_backend.engine.node_events import (
    a_log_is_full,
    drop_too_wide,
    follow_schedules,
    is_over,
    keep_nodes,
    leave_beyond_target,
    next_pool_event_s,
    offer_all,
    take_decisions,
    take_node_events,
)
from offpeak.sim_backend.engine.peak_shaving import held_any, is_kept_back, meter_draw
from offpeak.sim_backend.engine.preemption import lacks_room, look_again
from offpeak.sim_backend.engine.promises import run_promised_pass
from offpeak.sim_backend.engine.reservations import (
    drop_reservations,
    first_start_s,
    keeps_reservation,
    reserve,
    reserve_no_place,
    try_start,
)
from offpeak.sim_backend.engine.rules import (
    CAN_BE_OUTLIVED,
    CAPACITY,
    DECIDE,
    FINISHED,
    FULL,
    LOG_FULL,
    NEVER,
    NOT_YET,
    PAUSED,
    EngineRules,
    PeakTimes,
)
from offpeak.sim_backend.engine.running import (
    begin_anew,
    correct_predictions,
    end_first,
    forget_refusals,
    release_expected,
)
from offpeak.sim_backend.engine.state import SLOTS, State, Tables, Workload
from offpeak.sim_backend.engine.window import order_window

EVENTS, TARGETS, PASSES = range(3)
"""What the loop does next in this second: `stage`."""
IN_ORDER, EASY_LIKE = 0, 1


@part
def next_multiple_s(at_s: int, interval_s: int) -> int:
    """Return the first multiple of the interval from then on; that second itself where there is no interval."""
    return int(at_s + -at_s % interval_s if interval_s > 0 else at_s)


@part
def next_stoppable_s(state: State, rules: EngineRules) -> int:
    """Return when jobs look again for others that they may stop, NEVER if none waits for that."""
    at_s = state.scalars[0].next_stoppable_s
    return int(at_s if at_s == NEVER else next_multiple_s(at_s, rules.bf_interval_s))


@part
def next_event_s(state: State, peaks: PeakTimes, rules: EngineRules) -> int:
    """Return when something happens next, NEVER when nothing will."""
    now = state.scalars[0]
    if now.is_interrupted:
        return int(now.now_s)
    at_s = min(now.next_submit_s, now.next_end_s, queue.next_requeue_s(state, rules))
    if now.waiting > 0:
        wanted_s = min(now.wanted_pass_s, now.wanted_backfill_s, now.wanted_order_s)
        at_s = min(at_s, wanted_s, next_stoppable_s(state, rules))
        if now.next_peak < len(peaks.at_s):
            at_s = min(at_s, peaks.at_s[now.next_peak])
    return int(at_s)


@apart
def take_event(tables: Tables, workload: Workload, state: State, rules: EngineRules) -> bool:
    """Handle one event of this second, a submission before an end, and return whether there was one."""
    now = state.scalars[0]
    if now.next_submit_s <= now.now_s:
        queue.submit_next(tables, workload, state, rules)
        return True
    if queue.next_requeue_s(state, rules) <= now.now_s:
        return queue.requeue_next(tables, workload, state, rules)
    if now.next_end_s <= now.now_s:
        end_first(tables, workload, state, rules)
        return True
    return False


@apart
def expect_anew(tables: Tables, workload: Workload, state: State, rules: EngineRules) -> None:
    """Bring the expected ends of running jobs up to date before a pass."""
    if rules.estimates >= CAN_BE_OUTLIVED:
        correct_predictions(workload, state, rules)
    if rules.pass_per_event:
        release_expected(tables, workload, state)


@part
def take_events(tables: Tables, workload: Workload, state: State, peaks: PeakTimes, rules: EngineRules) -> bool:
    """Handle all events of this second, ends first, and return whether there were any."""
    now = state.scalars[0]
    any_event = bool(now.is_interrupted)
    now.is_interrupted = 0
    if next_stoppable_s(state, rules) <= now.now_s:
        look_again(tables, workload, state)
        any_event = True
    while now.next_peak < len(peaks.at_s) and peaks.at_s[now.next_peak] <= now.now_s:
        now.next_peak += 1
        any_event = True
        for group in range(len(state.groups)):
            state.groups[group].is_due = 1
            state.groups[group].is_backfill_due = 1
    if rules.pass_per_event:
        return any_event | take_event(tables, workload, state, rules)
    while now.next_end_s <= now.now_s:
        end_first(tables, workload, state, rules)
        any_event = True
    while queue.next_requeue_s(state, rules) <= now.now_s:
        any_event |= queue.requeue_next(tables, workload, state, rules)
    while now.next_submit_s <= now.now_s:
        queue.submit_next(tables, workload, state, rules)
        any_event = True
    return any_event


@part
def want_order(state: State, rules: EngineRules, from_s: int) -> None:
    """Ask for the next order of the queue at or after that second."""
    if rules.order_interval_s > 0 and rules.policy != ARRIVAL:
        now = state.scalars[0]
        now.wanted_order_s = min(now.wanted_order_s, next_multiple_s(from_s, rules.order_interval_s))


@part
def want_passes(state: State, rules: EngineRules) -> None:
    """Ask for the passes that follow an event, and for the next order of the queue."""
    now = state.scalars[0]
    want_order(state, rules, now.now_s)
    if rules.end_window_s > 0:
        # Where a job is planned depends on the ends of the jobs on all nodes.
        for group in range(len(state.groups)):
            state.groups[group].is_backfill_due = 1
    now.wanted_pass_s = next_multiple_s(now.now_s, rules.sched_interval_s)
    if rules.bf_interval_s > 0:
        now.wanted_backfill_s = next_multiple_s(now.now_s, rules.bf_interval_s)


@part
def open_passes(tables: Tables, workload: Workload, state: State, rules: EngineRules) -> bool:
    """Begin the passes and the ordering of this second, and return whether there are any.

    An order that is written is followed by passes.
    """
    now = state.scalars[0]
    now.is_ordering = 1 if now.wanted_order_s <= now.now_s else 0
    if now.is_ordering:
        now.wanted_order_s = NEVER
        now.wanted_pass_s = min(now.wanted_pass_s, next_multiple_s(now.now_s, rules.sched_interval_s))
        if rules.bf_interval_s > 0:
            now.wanted_backfill_s = min(now.wanted_backfill_s, next_multiple_s(now.now_s, rules.bf_interval_s))
    now.is_full_pass = 1 if now.wanted_backfill_s <= now.now_s or rules.bf_interval_s == 0 else 0
    now.is_pass = 1 if now.wanted_pass_s <= now.now_s or now.wanted_backfill_s <= now.now_s else 0
    if not now.is_pass and not now.is_ordering:
        return False
    if now.wanted_pass_s <= now.now_s:
        now.wanted_pass_s = NEVER
    if now.wanted_backfill_s <= now.now_s:
        now.wanted_backfill_s = NEVER
    if now.is_pass and (rules.estimates >= CAN_BE_OUTLIVED or rules.pass_per_event):
        expect_anew(tables, workload, state, rules)
    now.next_group = 0
    return True


@part
def opens_pass(tables: Tables, state: State, rules: EngineRules, group: int) -> bool:
    """Tell whether a pass over the group may start a job; where it may, begin it."""
    now = state.scalars[0]
    here = state.groups[group]
    if now.is_ordering:
        here.is_due = 1
        here.is_backfill_due = 1
    if not now.is_pass:
        return False
    # A full pass may refuse what a pass in order starts: that one knows no reservations.
    if now.is_full_pass:
        is_due = here.is_backfill_due
        here.is_backfill_due = 0
    else:
        is_due = here.is_due
        here.is_due = 0
    if state.promises is not None:
        return bool(here.waiting > 0)
    # A policy from outside is asked only where a job may start. With Slurm's timing a pass also plans.
    if tables.need is None and rules.bf_interval_s == 0 and state.free[SLOTS, 0] == 0 and not here.reserves_always:
        return False
    return bool(is_due and (here.hopeful > 0 or (here.reserves_always and here.waiting > 0)))


@part
def order_group(
    tables: Tables, workload: Workload, state: State, peaks: PeakTimes, rules: EngineRules, group: int
) -> bool:
    """Write the order of each window of the group; return False where an external policy has to decide first."""
    now = state.scalars[0]
    if now.next_window == 0 and now.deciding == NOT_YET:
        queue.restore_places(workload, state, group)
    while now.next_window < tables.group_windows[index(group)]:
        if now.deciding == NOT_YET:
            queue.open_records(tables, workload, state, rules, group, now.next_window)
            if rules.policy == EXTERNAL and now.window > 0:
                now.deciding = group
                return False
            if rules.policy != EXTERNAL:
                order_window(now, state.window, state.waiting.passed_over_s, peaks, rules, free=now.free)
        now.deciding = NOT_YET
        queue.keep_rights(workload, state, rules)
        queue.write_places(workload, state)
        now.next_window += 1
    now.next_window = 0
    return True


@part
def open_queue(tables: Tables, state: State, rules: EngineRules, group: int) -> None:
    """Continue after the jobs of the last pass if its reservations are still valid, else start again.

    The jobs that were refused then would be refused again: nothing was freed, and they would end later.
    """
    now = state.scalars[0]
    here = state.groups[group]
    is_known = now.window == 0 and now.is_full_pass and here.is_stale == 0 and here.blocked != NOT_YET
    is_ahead = is_known and first_start_s(state, rules, group) >= now.now_s
    if is_ahead and keeps_reservation(tables, state, rules, group):
        now.cursor = here.seen - now.behind_window
        return
    drop_reservations(state, group)
    queue.forget_blocked(state, group)
    here.is_stale = 0
    forget_refusals(tables, state, group)


@part
def has_free_slot(tables: Tables, state: State, group: int) -> bool:
    """Tell whether a cell of the group has a free slot."""
    for at in range(tables.group_cell_first[group], tables.group_cell_first[group + 1]):
        if state.free[SLOTS, index(tables.group_cell[index(at)])] > 0:
            return True
    return False


@part
def reserve_blocked(tables: Tables, state: State, rules: EngineRules, group: int) -> bool:
    """Reserve the start of the first blocked job if it has no reservation yet; False if that is impossible."""
    here = state.groups[group]
    # Where all nodes have jobs, no node could be woken for a reservation.
    if here.reserves_always and not has_free_slot(tables, state, group):
        return False
    if here.reserved > 0 or reserve(tables, state, rules, here.blocked):
        return True
    return bool(rules.reservations == EASY_LIKE and reserve_no_place(state, rules, group))


@part
def reserve_first(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int) -> None:
    """Reserve the start of the first job in the order of this pass, if that of no job is reserved."""
    here = state.groups[group]
    if here.reserved > 0 or rules.reservations == IN_ORDER or not has_free_slot(tables, state, group):
        return
    position = int(here.blocked)
    if position == NOT_YET:
        state.scalars[0].cursor = 0
        position = queue.next_entry(tables, state, group, False)
        while position != NOT_YET and is_limited(workload.limits, state.limit_used, state.waiting.job[position]):
            position = queue.next_entry(tables, state, group, False)
    if position != NOT_YET:
        reserve(tables, state, rules, position)


@part
def run_full_pass(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int) -> None:
    """Start the jobs of the group that fit beside the reservations of those that are blocked."""
    here = state.groups[group]
    state.scalars[0].tried_size = NEVER
    while here.hopeful > 0:
        is_blocked = here.blocked != NOT_YET
        if is_blocked and rules.reservations == IN_ORDER:
            return
        all_reserved = is_blocked and (rules.reservations == EASY_LIKE or here.reserved == rules.reservations)
        if tables.need is None and all_reserved and not reserve_blocked(tables, state, rules, group):
            return
        if all_reserved and rules.widest_first:
            position = queue.widest_entry(tables, workload, state, rules, group)
        elif all_reserved:
            position = queue.next_startable_entry(tables, state, rules, group)
        else:
            position = queue.next_entry(tables, state, group, False)
        if position == NOT_YET:
            return
        if is_limited(workload.limits, state.limit_used, state.waiting.job[position]):
            continue
        if is_blocked and not reserve_blocked(tables, state, rules, group):
            return
        if (
            state.sleeping is not None
            and tables.need is None
            and is_kept_back(workload, state, state.sleeping, position)
        ):
            continue
        if queue.may_start(state, position) and try_start(tables, workload, state, rules, position):
            continue
        if here.blocked == NOT_YET:
            here.blocked = position
        elif here.reserved < rules.reservations:
            reserve(tables, state, rules, position)
    if rules.reservations > EASY_LIKE:
        queue.forget_blocked(state, group)


@part
def run_pass_in_order(tables: Tables, workload: Workload, state: State, group: int, rules: EngineRules) -> None:
    """Start the jobs of the group in order; a blocked job closes the partitions that have only nodes of its own."""
    now = state.scalars[0]
    here = state.groups[group]
    now.searches += 1
    closing = now.searches
    while here.hopeful > 0:
        position = queue.next_entry(tables, state, group, False)
        if position == NOT_YET:
            break
        job = state.waiting.job[position]
        partition = workload.partition[job]
        if state.closed[partition] == closing or is_limited(workload.limits, state.limit_used, job):
            continue
        if not (queue.may_start(state, position) and try_start(tables, workload, state, rules, position)):
            for other in range(len(state.closed)):
                if workload.closes[index(partition), index(other)]:
                    state.closed[index(other)] = closing
    queue.forget_blocked(state, group)


@apart
def run_pass(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int) -> None:
    """Start the jobs of the group that can start now."""
    started = state.scalars[0].started
    if state.promises is not None:
        run_promised_pass(tables, workload, state, state.promises, rules)
    else:
        run_queued_pass(tables, workload, state, rules, group)
    if state.sleeping is not None and state.sleeping.peak is not None and held_any(state, state.sleeping):
        begin_anew(state, group)
    if rules.policy != ARRIVAL:
        queue.note_passed_over(tables, state, group)
    queue.close_pass(tables, state, group)
    if state.scalars[0].started > started:
        want_order(state, rules, state.scalars[0].now_s + 1)


@part
def run_queued_pass(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int) -> None:
    """Start the jobs of the group in order, and those that may pass blocked ones."""
    open_queue(tables, state, rules, group)
    if state.scalars[0].is_full_pass:
        run_full_pass(tables, workload, state, rules, group)
        if state.groups[group].reserves_always:
            reserve_first(tables, workload, state, rules, group)
    else:
        run_pass_in_order(tables, workload, state, group, rules)


@part
def run_passes(tables: Tables, workload: Workload, state: State, peaks: PeakTimes, rules: EngineRules) -> bool:
    """Make the passes of this second; return whether an external policy must order a group's window first."""
    now = state.scalars[0]
    while now.next_group < len(state.groups):
        group = int(now.next_group)
        here = state.groups[group]
        if now.deciding == NOT_YET:
            now.is_open = opens_pass(tables, state, rules, group)
        if here.is_simple == 0:
            is_ordered = now.is_ordering or (now.is_open and rules.order_interval_s == 0)
            if is_ordered and not order_group(tables, workload, state, peaks, rules, group):
                return True
        if not now.is_open:
            now.next_group += 1
            continue
        if here.is_simple == 0:
            queue.open_places(tables, workload, state, group)
        elif now.deciding == NOT_YET:
            queue.open_window(tables, workload, state, rules, group, 0 if rules.policy == ARRIVAL else rules.window)
            if rules.policy == EXTERNAL:
                now.deciding = group
                return True
            if rules.policy != ARRIVAL:
                order_window(now, state.window, state.waiting.passed_over_s, peaks, rules, free=now.free)
        now.deciding = NOT_YET
        if here.is_simple == 1 and rules.policy != ARRIVAL:
            queue.keep_rights(workload, state, rules)
        run_pass(tables, workload, state, rules, group)
        now.next_group += 1
    return False


@in_place
def advance(
    tables: Tables, workload: Workload, peaks: PeakTimes, rules: EngineRules, state: State, until_s: int
) -> int:
    """Handle all events up to and including second `until_s`.

    Returns PAUSED when later events are left; FINISHED when none are, or no job is left and the nodes need not go on
    (`rest_until_s`); DECIDE when an external policy must write `state.window.order` for the group scalars.deciding
    before the next call; FULL when the next call needs the state `with_room` for the runs that other jobs stop;
    CAPACITY when an external policy must write the targets of the pools that are due (`next_decision_s` was moved on);
    and LOG_FULL when the logs must be emptied before the next call.
    """
    now = state.scalars[0]
    while True:
        if now.stage == EVENTS:
            if state.sleeping is not None and a_log_is_full(state.sleeping):
                return LOG_FULL
            at_s = next_event_s(state, peaks, rules)
            if state.sleeping is not None:
                at_s = min(at_s, next_pool_event_s(state.sleeping))
                if is_over(state) and at_s > state.sleeping.power.scalars[0].rest_until_s:
                    return FINISHED
            if at_s == NEVER:
                return FINISHED
            # The first row of a pool's schedule lies before the clock's begin.
            if max(at_s, now.now_s) > until_s:
                return PAUSED
            if state.sleeping is not None:
                meter_draw(state.sleeping, at_s)
            now.now_s = max(now.now_s, at_s)
            if state.sleeping is not None:
                take_node_events(state.sleeping, now.now_s)
            changed = take_events(tables, workload, state, peaks, rules)
            if state.sleeping is not None:
                if tables.need is None:
                    changed |= drop_too_wide(tables, state, state.sleeping)
                changed |= follow_schedules(state, state.sleeping)
                changed |= offer_all(tables, workload, state, state.sleeping)
            if changed:
                want_passes(state, rules)
            if lacks_room(state):
                return FULL
            if state.sleeping is not None and take_decisions(tables, state, state.sleeping):
                now.stage = TARGETS
                return CAPACITY
        if now.stage != PASSES:
            if state.sleeping is not None:
                leave_beyond_target(tables, state, state.sleeping)
                if offer_all(tables, workload, state, state.sleeping):
                    want_passes(state, rules)
            now.stage = PASSES
            if not open_passes(tables, workload, state, rules):
                now.next_group = len(state.groups)
        if run_passes(tables, workload, state, peaks, rules):
            return DECIDE
        now.stage = EVENTS
        if state.sleeping is not None and keep_nodes(tables, workload, state, state.sleeping, rules):
            want_passes(state, rules)
