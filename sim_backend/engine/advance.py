"""The event loop: ends, submissions and price changes advance the clock; scheduling passes start jobs.

The order within a second: transitions of nodes end, jobs end, jobs are submitted, jobs whose nodes come up may move to
others, an external decision is requested, nodes beyond the target leave, jobs start, and finally due nodes fall asleep
and needed nodes are woken. Without nodes that sleep (`nodes` is None) all that concerns them is left out at
compilation.

There is one pass a second after all events of that second, ends first, because a scheduler acts on a state, not on a
message. With `pass_per_event` each event has its own pass, as in the simulator pyss: within a second submissions come
before ends, and a job releases its nodes at its expected end.
"""

from offpeak.compiled import in_place, part
from offpeak.plugin.window_policy import ARRIVAL, EXTERNAL
from offpeak.sim_backend.engine.backfill import next_backfilled, next_promised, open_backfill, open_promises
from offpeak.sim_backend.engine.peak_shaving import is_held, look_again, meter_draw
from offpeak.sim_backend.engine.power import PoweredNodes, log_is_full, refresh_free
from offpeak.sim_backend.engine.power_capacity import (
    expect_needs,
    follow_schedule,
    is_to_reserve,
    keep_nodes,
    leave_beyond_target,
    next_power_s,
    nodes_needed,
)
from offpeak.sim_backend.engine.power_jobs import drop_too_wide, end_powered, rebind, start_powered
from offpeak.sim_backend.engine.power_transitions import arrive
from offpeak.sim_backend.engine.queue import close_pass, note_passed_over, smallest_waiting, submit_next
from offpeak.sim_backend.engine.running_jobs import (
    add_free,
    end_first,
    expect_end,
    held_until_s,
    release,
    start_job,
    unlist,
)
from offpeak.sim_backend.engine.state import (
    CAN_BE_OUTLIVED,
    CAPACITY,
    CONSERVATIVE,
    DECIDE,
    FINISHED,
    LOG_FULL,
    NEVER,
    PAUSED,
    PeakTimes,
    SchedulingRules,
    State,
    Workload,
)
from offpeak.sim_backend.engine.window import open_window, order_window

ORDER_REQUESTED, CAPACITY_REQUESTED = 1, 2


@part
def correct_predictions(workload: Workload, state: State) -> None:
    """Replace the predicted run time of running jobs that have outlived it by the user's estimate."""
    now = state.scalars[0]
    slots = state.slots
    at = 0
    while at < now.listed and slots.expected_end_s[state.expected[at]] <= now.now_s:
        slot = int(state.expected[at])
        job = slots.job[slot]
        corrected_s = state.start_s[job] + workload.estimate_s[job]
        if corrected_s <= now.now_s:
            at += 1
            continue
        if now.breakpoints > 0:
            add_free(state, held_until_s(state, slot), corrected_s, -slots.size[slot])
            now.corrected = 1
        unlist(state, slot)
        expect_end(state, slot, corrected_s)
        now.ended = 1


@part
def release_expected(state: State) -> None:
    """Release the nodes of running jobs whose expected end has come, before their end is handled."""
    now = state.scalars[0]
    while now.listed > 0 and state.slots.expected_end_s[state.expected[0]] <= now.now_s:
        release(state, int(state.expected[0]))


@part
def next_event_s(state: State, peaks: PeakTimes) -> int:
    """Return the time of the next event, NEVER if there is none."""
    now = state.scalars[0]
    at_s = min(now.next_submit_s, now.next_end_s)
    if now.waiting > 0:
        at_s = min(at_s, now.wanted_pass_s)
        if now.next_peak < len(peaks.at_s):
            at_s = min(at_s, peaks.at_s[now.next_peak])
    return int(at_s)


@part
def take_event(workload: Workload, state: State, rules: SchedulingRules) -> bool:
    """Handle one event of this second, a submission before an end, and return whether there was one."""
    now = state.scalars[0]
    if now.next_submit_s <= now.now_s:
        submit_next(workload, state, rules)
        return True
    if now.next_end_s <= now.now_s:
        end_first(workload, state, rules)
        return True
    return False


@part
def take_events(workload: Workload, state: State, rules: SchedulingRules, nodes: PoweredNodes | None) -> bool:
    """Handle all events of this second, ends first, and return whether there were any."""
    now = state.scalars[0]
    any_event = False
    while now.next_end_s <= now.now_s:
        if nodes is None:
            end_first(workload, state, rules)
        else:
            end_powered(workload, state, nodes.power, nodes.schedule, rules)
        any_event = True
    while now.next_submit_s <= now.now_s:
        submit_next(workload, state, rules)
        any_event = True
    return any_event


@part
def move_nodes(workload: Workload, state: State, nodes: PoweredNodes) -> bool:
    """Let jobs move to nodes that are free, follow the schedule, and return whether a pass may start other jobs."""
    rebind(workload, state, nodes.power, nodes.capacity, nodes.schedule)
    changed = follow_schedule(nodes.power, nodes.schedule, state.scalars[0].now_s)
    if nodes.depths.repair_s == NEVER:
        changed |= drop_too_wide(state, nodes.power)
    return bool(changed | refresh_free(state, nodes.power, nodes.capacity))


@part
def needs_decision(state: State, nodes: PoweredNodes) -> bool:
    """Let the forecast decide if it is due, and return whether an external decision is due."""
    now_s = state.scalars[0].now_s
    scalars = nodes.power.scalars[0]
    if scalars.next_decision_s > now_s:
        return False
    scalars.next_decision_s = now_s + nodes.capacity.period_s
    if nodes.capacity.worth_s == 0:
        return True
    expect_needs(nodes.power, nodes.capacity, now_s, nodes_needed(state, nodes.power))
    return False


@part
def is_over(state: State) -> bool:
    """Tell whether no job runs, waits or will be submitted."""
    now = state.scalars[0]
    return bool(now.running == 0 and now.waiting == 0 and now.next_submit_s == NEVER)


@part
def take_price_changes(state: State, peaks: PeakTimes) -> bool:
    """Handle the due changes of the price's state, and return whether there were any."""
    now = state.scalars[0]
    before = now.next_peak
    while now.next_peak < len(peaks.at_s) and peaks.at_s[now.next_peak] <= now.now_s:
        now.next_peak += 1
    return bool(now.next_peak > before)


@part
def want_pass(state: State, rules: SchedulingRules) -> None:
    """Request a scheduling pass at the next multiple of the period."""
    now = state.scalars[0]
    now.wanted_pass_s = now.now_s
    if rules.period_s > 0:
        now.wanted_pass_s += -now.now_s % rules.period_s


@part
def nothing_can_start(state: State, rules: SchedulingRules) -> bool:
    """Tell whether a pass would change nothing: no job waits, or none fits into the free units."""
    now = state.scalars[0]
    if now.waiting == 0 or rules.discipline == CONSERVATIVE:
        return bool(now.waiting == 0)
    # Ordering a window costs more than checking whether any job fits.
    if rules.policy != ARRIVAL and now.free >= now.smallest:
        now.smallest = smallest_waiting(state)
    return bool(now.free < now.smallest)


@part
def next_to_start(state: State, rules: SchedulingRules) -> int:
    """Return the queue position of the job that the discipline starts next in this pass, or -1."""
    return next_promised(state, rules) if rules.discipline == CONSERVATIVE else next_backfilled(state, rules)


@part
def is_to_pass(state: State, rules: SchedulingRules, nodes: PoweredNodes | None) -> bool:
    """Tell whether a pass may change anything."""
    if not nothing_can_start(state, rules):
        return True
    return nodes is not None and is_to_reserve(state, nodes.capacity)


@part
def run_pass(workload: Workload, state: State, rules: SchedulingRules, nodes: PoweredNodes | None) -> None:
    """Start the jobs that the discipline starts now."""
    if rules.discipline == CONSERVATIVE:
        open_promises(state)
    else:
        open_backfill(state)
    is_late = False
    if nodes is not None:
        nodes.power.scalars[0].held_until_s = NEVER
    position = next_to_start(state, rules)
    while position >= 0:
        if nodes is None:
            start_job(workload, state, rules, position)
        elif not is_held(workload, state, nodes.power, nodes.peak, position):
            is_late |= start_powered(workload, state, nodes.power, nodes.depths, nodes.capacity, position)
        position = next_to_start(state, rules)
    if rules.policy != ARRIVAL:
        note_passed_over(state)
    close_pass(state)
    if nodes is not None:
        look_again(state, nodes.power)
    if is_late:
        # The reservation was made before the late ends of the jobs beside it were known.
        state.scalars[0].ended = 1


@in_place
def advance(
    workload: Workload,
    peaks: PeakTimes,
    rules: SchedulingRules,
    state: State,
    nodes: PoweredNodes | None,
    until_s: int,
) -> int:
    """Handle all events up to and including second `until_s`.

    Returns PAUSED if later events are left; FINISHED if none are left, or no job is left and the nodes need not go on
    (`rest_until_s`); DECIDE if an external policy must write `state.window.order` before the next call; CAPACITY if one
    must write `target` and `reserve` of the nodes' scalars; and LOG_FULL if the nodes' log must be emptied
    (`log_length` 0) before the next call.
    """
    now = state.scalars[0]
    while True:
        if now.deciding == 0:
            if nodes is not None and log_is_full(nodes.power):
                return LOG_FULL
            at_s = next_event_s(state, peaks)
            if nodes is not None:
                at_s = min(at_s, next_power_s(nodes.power, nodes.schedule))
                if is_over(state) and at_s > nodes.power.scalars[0].rest_until_s:
                    return FINISHED
            if at_s == NEVER:
                return FINISHED
            if at_s > until_s:
                return PAUSED
            if nodes is not None:
                meter_draw(nodes.power, nodes.peak, at_s)
            now.now_s = max(now.now_s, at_s)
            if nodes is not None:
                arrive(state, nodes.power, nodes.depths)
            changed = take_price_changes(state, peaks)
            if rules.pass_per_event:
                changed |= take_event(workload, state, rules)
            else:
                changed |= take_events(workload, state, rules, nodes)
            if nodes is not None:
                changed |= move_nodes(workload, state, nodes)
            if changed:
                want_pass(state, rules)
            if nodes is not None and needs_decision(state, nodes):
                now.deciding = CAPACITY_REQUESTED
                return CAPACITY
        if nodes is not None and now.deciding != ORDER_REQUESTED:
            now.deciding = 0
            if leave_beyond_target(state, nodes):
                want_pass(state, rules)
        if now.wanted_pass_s <= now.now_s:
            is_open = now.deciding == ORDER_REQUESTED
            if not is_open:
                if rules.estimates >= CAN_BE_OUTLIVED:
                    correct_predictions(workload, state)
                if rules.pass_per_event:
                    release_expected(state)
                is_open = is_to_pass(state, rules, nodes)
                if is_open:
                    open_window(state, 0 if rules.policy == ARRIVAL else rules.window)
                    if rules.policy == EXTERNAL:
                        now.deciding = ORDER_REQUESTED
                        return DECIDE
                    if rules.policy != ARRIVAL:
                        order_window(now, state.window, state.queue.passed_over_s, peaks, rules, free=now.free)
            now.deciding = 0
            now.wanted_pass_s = NEVER
            if is_open:
                run_pass(workload, state, rules, nodes)
        if nodes is not None and keep_nodes(state, nodes):
            want_pass(state, rules)
