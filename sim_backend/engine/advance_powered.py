"""The event loop of a replay in which nodes sleep: that of `advance`, and the nodes' own events.

The order within a second: transitions end, jobs end, jobs are submitted, jobs whose nodes come up may move to others,
an external decision is requested, nodes beyond the target leave, jobs start, and finally due nodes fall asleep and
needed nodes are woken.

Peak shaving: jobs that would draw a new highest quarter-hour wait, and the engine meters its draw. The rule is
`plugin.capacity.peak_shaving`, which also makes the agent's cap. The draw is that of the jobs, at the power of their
nodes from the moment they get them, of idle units, and of nodes asleep; powers are in mW.
"""

from typing import NamedTuple

from offpeak.compiled import in_place, index, part
from offpeak.model.constants import QUARTER_S
from offpeak.model.node_states import ACTIVE
from plugin.capacity.peak_shaving import NO_CAP, NO_SHAVING, PeakRules, soft_cap
from plugin.capacity.rules import CapacityRules, CapacitySchedule, DepthTable
from plugin.window_policy import ARRIVAL, EXTERNAL
from sim_backend.engine import advance, power_capacity
from sim_backend.engine.backfill import open_backfill, open_promises
from sim_backend.engine.power import Power, log_is_full, refresh_free
from sim_backend.engine.power_jobs import drop_too_wide, end_powered, rebind, start_powered
from sim_backend.engine.power_transitions import arrive
from sim_backend.engine.queue import close_pass, note_passed_over, submit_next
from sim_backend.engine.state import CAN_BE_OUTLIVED, CONSERVATIVE, NEVER, PeakTimes, SchedulingRules, State, Workload
from sim_backend.engine.window import open_window, order_window

CAPACITY, LOG_FULL = 3, 4
ORDER_REQUESTED, CAPACITY_REQUESTED = 1, 2


class PoweredRules(NamedTuple):
    """The rules of a call: how jobs are scheduled, when nodes sleep, and what transitions take."""

    scheduling: SchedulingRules
    capacity: CapacityRules
    schedule: CapacitySchedule
    depths: DepthTable
    machine_size: int
    peak: PeakRules = NO_SHAVING


start_cap = part(soft_cap)
"""The rule as a part of kernels, which Python cannot call."""


@part
def draw_mw(power: Power, peak: PeakRules) -> int:
    """Return what the machine draws now."""
    nodes = power.scalars[0]
    total = nodes.jobs_mw + nodes.idle_units * peak.idle_mw
    for state in range(len(peak.state_mw)):
        if state != ACTIVE:
            total += power.nodes_in[state] * peak.state_mw[state]
    return int(total)


@part
def meter_draw(power: Power, peak: PeakRules, now_s: int) -> None:
    """Add the draw since the last event to the quarter-hours, and keep the highest of those that count."""
    if peak.longest_s == 0:
        return
    nodes = power.scalars[0]
    drawn_mw = draw_mw(power, peak)
    while nodes.metered_s < now_s:
        follow_rules(power, peak, nodes.metered_s)
        after_s = peak.at_s[0] + ((nodes.metered_s - peak.at_s[0]) // QUARTER_S + 1) * QUARTER_S
        until_s = min(now_s, after_s)
        nodes.quarter_mj += drawn_mw * (until_s - nodes.metered_s)
        nodes.metered_s = until_s
        if until_s == after_s:
            for charge in range(len(peak.target_mw)):
                if peak.target_mw[charge, index(nodes.peak_row)] != NO_CAP:
                    power.peaks_mw[charge] = max(power.peaks_mw[charge], nodes.quarter_mj // QUARTER_S)
            nodes.quarter_mj = 0
    follow_rules(power, peak, now_s)


@part
def follow_rules(power: Power, peak: PeakRules, at_s: int) -> None:
    """Move to the row of the rules that holds then; nothing is paid in a new period."""
    nodes = power.scalars[0]
    while nodes.peak_row + 1 < len(peak.at_s) and peak.at_s[index(nodes.peak_row + 1)] <= at_s:
        nodes.peak_row += 1
        for charge in range(len(peak.is_new)):
            if peak.is_new[charge, index(nodes.peak_row)]:
                power.peaks_mw[charge] = 0


@part
def is_held(workload: Workload, state: State, power: Power, peak: PeakRules, position: int) -> bool:
    """Tell whether the job at queue `position` waits because it would draw a new peak; others may pass it."""
    if peak.longest_s == 0:
        return False
    now = state.scalars[0]
    nodes = power.scalars[0]
    job = index(state.queue.job[index(position)])
    size = state.queue.size[index(position)]
    job_mw = int(1000 * workload.node_power_w[job] * size)
    drawn_mw = draw_mw(power, peak) + job_mw - min(size, nodes.idle_units) * peak.idle_mw
    waited_s = now.now_s - workload.submit_s[job]
    cap_mw = NO_CAP
    for charge in range(len(peak.target_mw)):
        target_mw = peak.target_mw[charge, index(max(nodes.peak_row, 0))]
        cap_mw = min(cap_mw, start_cap(target_mw, power.peaks_mw[charge], waited_s, peak.longest_s))
    if drawn_mw <= cap_mw:
        return False
    nodes.held_until_s = min(nodes.held_until_s, now.now_s + peak.longest_s - waited_s)
    return True


@part
def look_again(state: State, power: Power) -> None:
    """End a pass: if it held a job, the next one looks at all jobs again, at the latest when that has waited enough."""
    held_until_s = power.scalars[0].held_until_s
    if held_until_s != NEVER:
        state.scalars[0].ended = 1
        state.scalars[0].wanted_pass_s = min(state.scalars[0].wanted_pass_s, held_until_s)


@part
def next_power_s(power: Power, schedule: CapacitySchedule) -> int:
    """Return the time of the next event of, or decision on, the nodes."""
    nodes = power.scalars[0]
    at_s = min(nodes.next_ready_s, nodes.wake_due_s)
    return int(min(at_s, nodes.due_s, nodes.next_decision_s, power_capacity.next_row_s(power, schedule)))


@part
def is_over(state: State) -> bool:
    """Tell whether no job runs, waits or will be submitted."""
    now = state.scalars[0]
    return bool(now.running == 0 and now.waiting == 0 and now.next_submit_s == NEVER)


@part
def take_powered_events(
    workload: Workload, state: State, power: Power, schedule: CapacitySchedule, rules: SchedulingRules
) -> bool:
    """Handle all ends and submissions of this second, ends first, and say whether there were any."""
    now = state.scalars[0]
    any_event = False
    while now.next_end_s <= now.now_s:
        end_powered(workload, state, power, schedule, rules)
        any_event = True
    while now.next_submit_s <= now.now_s:
        submit_next(workload, state, rules)
        any_event = True
    return any_event


@part
def run_powered_pass(workload: Workload, state: State, power: Power, rules: PoweredRules) -> None:
    """Start the jobs that the discipline starts now."""
    if rules.scheduling.discipline == CONSERVATIVE:
        open_promises(state, rules.machine_size)
    else:
        open_backfill(state)
    is_late = False
    power.scalars[0].held_until_s = NEVER
    position = advance.next_to_start(state, rules.scheduling)
    while position >= 0:
        if not is_held(workload, state, power, rules.peak, position):
            is_late |= start_powered(workload, state, power, rules.depths, rules.capacity, position)
        position = advance.next_to_start(state, rules.scheduling)
    if rules.scheduling.policy != ARRIVAL:
        note_passed_over(state)
    close_pass(state)
    look_again(state, power)
    if is_late:
        # The reservation was made before the late ends of the jobs beside it were known.
        state.scalars[0].ended = 1


@part
def is_to_reserve(state: State, capacity: CapacityRules) -> bool:
    """Tell whether a pass is needed for the reservation alone: nodes may have to stay awake or be woken for it."""
    return bool(capacity.on_demand and capacity.ahead_s > 0 and state.scalars[0].waiting > 0)


@part
def keep_nodes(state: State, power: Power, rules: PoweredRules) -> None:
    """Put to sleep and wake the nodes that are due after a pass."""
    power_capacity.sleep_due(state, power, rules.depths, rules.capacity, rules.schedule)
    power_capacity.wake_needed(state, power, rules.depths, rules.capacity)
    power_capacity.note_blocked_since(state, power, rules.capacity)


@in_place
def advance_powered(
    workload: Workload, peaks: PeakTimes, rules: PoweredRules, state: State, power: Power, until_s: int
) -> int:
    """Handle all events up to and including second `until_s`.

    Returns PAUSED if later events are left, FINISHED if no job is left and the nodes need not go on (`rest_until_s`),
    DECIDE if an external policy must write `state.window.order`, CAPACITY if one must write `power.scalars.target` and
    `reserve`, and LOG_FULL if the log must be emptied (`log_length` 0) before the next call.
    """
    now = state.scalars[0]
    nodes = power.scalars[0]
    scheduling = rules.scheduling
    capacity = rules.capacity
    schedule = rules.schedule
    depths = rules.depths
    while True:
        if now.deciding == 0:
            if log_is_full(power):
                return LOG_FULL
            at_s = min(advance.next_event_s(state, peaks), next_power_s(power, schedule))
            if at_s == NEVER or (is_over(state) and at_s > nodes.rest_until_s):
                return advance.FINISHED
            if at_s > until_s:
                return advance.PAUSED
            meter_draw(power, rules.peak, at_s)
            now.now_s = max(now.now_s, at_s)
            arrive(state, power, depths)
            changed = advance.take_price_changes(state, peaks)
            changed |= take_powered_events(workload, state, power, schedule, scheduling)
            rebind(workload, state, power, capacity, schedule)
            changed |= power_capacity.follow_schedule(power, schedule, now.now_s)
            if depths.repair_s == NEVER:
                changed |= drop_too_wide(state, power)
            changed |= refresh_free(state, power, capacity)
            if changed:
                advance.want_pass(state, scheduling)
            if nodes.next_decision_s <= now.now_s:
                nodes.next_decision_s = now.now_s + capacity.period_s
                if capacity.worth_s == 0:
                    now.deciding = CAPACITY_REQUESTED
                    return CAPACITY
                power_capacity.expect_needs(power, capacity, now.now_s, power_capacity.nodes_needed(state, power))
        if now.deciding != ORDER_REQUESTED:
            now.deciding = 0
            power_capacity.set_target(state, power, depths, capacity)
            power_capacity.shrink_to_target(state, power, depths, capacity, schedule)
            if refresh_free(state, power, capacity):
                advance.want_pass(state, scheduling)
        if now.wanted_pass_s <= now.now_s:
            if now.deciding == 0:
                now.wanted_pass_s = NEVER
                if scheduling.estimates >= CAN_BE_OUTLIVED:
                    advance.correct_predictions(workload, state)
                if not advance.nothing_can_start(state, scheduling) or is_to_reserve(state, capacity):
                    open_window(state, 0 if scheduling.policy == ARRIVAL else scheduling.window)
                    if scheduling.policy == EXTERNAL:
                        now.deciding = ORDER_REQUESTED
                        now.wanted_pass_s = now.now_s
                        return advance.DECIDE
                    if scheduling.policy != ARRIVAL:
                        order_window(now, state.window, state.queue.passed_over_s, peaks, scheduling, free=now.free)
                    run_powered_pass(workload, state, power, rules)
            else:
                now.deciding = 0
                now.wanted_pass_s = NEVER
                run_powered_pass(workload, state, power, rules)
        free = now.free
        expected = free + now.returning
        keep_nodes(state, power, rules)
        refresh_free(state, power, capacity)
        if now.free > free or now.free + now.returning > expected:
            advance.want_pass(state, scheduling)
