"""The state machine of a node: a record and one event give the next record. Nothing else changes a record.

In this order: the steps towards a desired state, by the sleep methods; what a failure does (the next step, a
longer pause, and in the end the operator has the node); the door's answer to an order (a refused order is due again
later); an observation (after a change that no order explains the agent pauses); and the passing of time.
"""

import math
from dataclasses import dataclass, replace

from offpeak.door.effect import AGENT, SCHEDULER, Refusal
from offpeak.errors import AccessRefused, ErrorKind, WrongDevice
from offpeak.machines.inventory import SleepMethod
from offpeak.model.clock import backoff_s
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import (
    ASLEEP,
    SETTLED,
    UNKNOWN_CAUSE,
    Attempts,
    DesiredStateChange,
    Event,
    Fault,
    HoldChange,
    Instant,
    MeasuredDuration,
    NodeObservation,
    NodeRecord,
    ObservedState,
    Opened,
    OrderAnswer,
    PendingOrder,
    Release,
    SchedulerReport,
    SentOrder,
    TimePassed,
    WakesElsewhere,
    is_goal,
    sleep_order_of,
)
from offpeak.power.lifecycle.observations import count_silent_polls, determine_state

BOOT = "boot"
CHANGE_OF_ORDER = {NodeOrder.STANDBY: "suspend", NodeOrder.SOFT_OFF: "shutdown", NodeOrder.HARD_OFF: "shutdown"}

NOT_UP, NOT_DOWN, NOT_REACHED = "does not come up", "does not go down", "takes no orders"

DONE = "done"
FINAL_ERRORS = (ErrorKind.ACCESS_REFUSED, ErrorKind.WRONG_DEVICE)
"""Errors that another attempt cannot resolve, and may make worse."""
NOT_SENT = (ErrorKind.NOT_SUPPORTED, ErrorKind.ORDER_TOO_LATE)
"""Errors after which the device cannot follow the order. After every other error it may."""

FLAPPING = "changes by itself"
UNSEEN = "cannot be seen"
NO_LOGIN = "lets nobody in"
FAULTS_OF_POLLING = (UNSEEN, NO_LOGIN)
NOT_FOLLOWED = (NOT_UP, NOT_DOWN)
COMING = (NodeState.BOOTING, NodeState.ON)

SHUTDOWN_BEGINS_S = 120.0
"""So long after an order to sleep a node whose operating system is not about to sleep did not get it."""

UNSEEN_CYCLES, UNSEEN_PART = 2, 1 / 4
"""A change is measured whose end was seen within so many cycles, or within this part of its duration."""


@dataclass(frozen=True, slots=True)
class OrderStep:
    """An order, its way ("bmc", "wol", "" for the only one), and the time-out of its effect."""

    order: NodeOrder
    way: str
    time_out_s: float


def name_change(order: NodeOrder, was: NodeState) -> str:
    """Return the name of the change that the order makes to a node in that state, as times are learned by."""
    if order is NodeOrder.ON:
        return "resume" if was is NodeState.STANDBY else BOOT
    return CHANGE_OF_ORDER[order]


def list_steps(order: NodeOrder, was: NodeState, context: NodeContext) -> tuple[OrderStep, ...]:
    """Return the steps from that state to the result of the order, none if the hardware has no such method."""
    return _list_wake_steps(was, context) if order is NodeOrder.ON else _list_sleep_steps(order, context)


def _list_wake_steps(was: NodeState, context: NodeContext) -> tuple[OrderStep, ...]:
    method = _find_sleep_method(was, context)
    if method is None:
        return ()
    change = name_change(NodeOrder.ON, was)
    return tuple(
        OrderStep(NodeOrder.ON, way, context.times.time_out_s(change, method.wake_timeout_s)) for way in method.wake
    )


def _list_sleep_steps(order: NodeOrder, context: NodeContext) -> tuple[OrderStep, ...]:
    orders = [order]
    if order is NodeOrder.SOFT_OFF and context.retry.cut_power:
        orders.append(NodeOrder.HARD_OFF)
    methods = [(each, context.hardware.sleep_method(each)) for each in orders]
    return tuple(
        OrderStep(each, "", context.times.time_out_s(CHANGE_OF_ORDER[each], method.enter_timeout_s))
        for each, method in methods
        if method is not None
    )


def _find_sleep_method(was: NodeState, context: NodeContext) -> SleepMethod | None:
    """Return the sleep method of a node in that state, or another one if the hardware lacks it."""
    if was not in ASLEEP:
        return None
    methods = context.hardware.sleep_methods
    fitting = (method for method in methods if (method.order is NodeOrder.STANDBY) is (was is NodeState.STANDBY))
    return next(fitting, methods[0] if methods else None)


def take_next_step(record: NodeRecord, pending: PendingOrder, reason: str, context: NodeContext) -> NodeRecord | None:
    """Return the record before its next step, None if the failed step was the last."""
    attempts = record.attempts
    if record.desired is None or attempts.step + 1 >= len(list_steps(record.desired.order, pending.was, context)):
        return None
    return replace(record, attempts=replace(attempts, pending=None, step=attempts.step + 1, failure=reason))


def record_failure(record: NodeRecord, reason: str, now: Instant, context: NodeContext, *, ours: bool) -> NodeRecord:
    """Return the record after all steps to the desired state have failed once more."""
    retry, tries = context.retry, record.attempts.tries + 1
    pause_s = backoff_s(tries, first_s=retry.first_pause_s, longest_s=retry.longest_pause_s)
    fault = record.fault
    if tries >= retry.tries:
        tries, pause_s = retry.tries, retry.ours_again_s
        up = record.desired is not None and record.desired.order is NodeOrder.ON
        if ours:
            what, hint = NOT_REACHED, f"does its BMC work? try: offpeak check {record.node}"
        else:
            what = NOT_UP if up else NOT_DOWN
            hint = _console_hint(record)
        since_unix_s = (
            record.fault.since_unix_s if record.fault is not None and record.fault.what == what else now.unix_s
        )
        fault = Fault(what, reason, hint, ours, since_unix_s)
    next_try_s = now.monotonic_s + context.spread(pause_s)
    attempts = replace(
        record.attempts,
        pending=None,
        step=0,
        tries=tries,
        next_try_s=next_try_s,
        refusal=None,
        refusals=0,
        failure=reason,
    )
    return replace(record, attempts=attempts, fault=fault)


def hand_over(record: NodeRecord, reason: str, hint: str, now: Instant) -> NodeRecord:
    """Return the record of a node whose BMC refused the login, or is another than enrolled: there is no retry."""
    fault = Fault(NOT_REACHED, reason, hint or f"offpeak check {record.node}", False, now.unix_s)
    return replace(record, fault=fault, attempts=replace(record.attempts, pending=None, step=0, failure=reason))


def record_hang(record: NodeRecord, reason: str, now: Instant) -> NodeRecord:
    """Return the record of a node that has power and does not come up: no order would help."""
    hint, missing = _console_hint(record), record.observed.problem
    if missing:
        reason = f"{missing}, and {reason}"
        hint = f"see nvidia-smi or amd-smi, and dmesg; `offpeak nodes {record.node} wake` takes the node as it is"
    fault = Fault(NOT_UP, f"it has power, but {reason}", hint, False, now.unix_s)
    return replace(record, fault=fault, attempts=replace(record.attempts, pending=None, step=0, failure=reason))


def _console_hint(record: NodeRecord) -> str:
    return f"look at its console; when it is fixed: offpeak nodes {record.node} release"


def record_sending(record: NodeRecord, order: NodeOrder, by: str, now: Instant) -> NodeRecord:
    """Return the record with an order that is being sent: from now on the node may follow it."""
    was = record.attempts.pending.was if record.attempts.pending is not None else record.observed.state
    return replace(record, sent=SentOrder(order, by, now.monotonic_s, was, clear=False, at_unix_s=now.unix_s))


def record_answer(record: NodeRecord, answered: OrderAnswer, now: Instant, context: NodeContext) -> NodeRecord:
    """Return the record after the door's answer. A failed order may have been executed, its answer being lost."""
    answer, before = answered.answer, record.attempts.pending
    if answer.error_kind in FINAL_ERRORS:
        return hand_over(record, answer.message, answer.hint if isinstance(answer, Refusal) else "", now)
    if isinstance(answer, Refusal):
        order = answered.order
        retry, times = context.retry, record.attempts.refusals + 1
        # A job waits for a node that is being woken.
        in_a_row = 1 if order is NodeOrder.ON else times
        pause_s = backoff_s(in_a_row, first_s=retry.refused_pause_s, longest_s=retry.longest_refused_pause_s)
        next_try_s = now.monotonic_s + context.spread(pause_s)
        return replace(record, attempts=replace(record.attempts, refusal=answer, refusals=times, next_try_s=next_try_s))
    done = answer.result == DONE
    if before is not None and (before.order, before.way) == (answered.order, answered.way):
        pending = replace(before, sent=before.sent + 1, sent_s=now.monotonic_s if done else before.sent_s)
    else:
        pending = PendingOrder(answered.order, answered.way, answered.by, now.monotonic_s, 1, record.observed.state)
    clear = done and pending.sent == 1 and record.attempts.step == 0
    given = SentOrder(pending.order, pending.by, now.monotonic_s, pending.was, clear, now.unix_s)
    sent = record.sent if answer.error_kind in NOT_SENT else given
    if not done and pending.sent == 1:
        return _record_not_accepted(replace(record, sent=sent), pending, answer.message or answer.result, now, context)
    attempts = Attempts(pending, record.attempts.step, record.attempts.tries, record.attempts.next_try_s)
    return replace(record, sent=sent, attempts=attempts)


def _record_not_accepted(
    record: NodeRecord, pending: PendingOrder, reason: str, now: Instant, context: NodeContext
) -> NodeRecord:
    # Only a wake has another step: power is not cut because a BMC rejects an order.
    other_way = take_next_step(record, pending, reason, context) if pending.order is NodeOrder.ON else None
    return other_way or record_failure(record, reason, now, context, ours=True)


def record_observation(
    record: NodeRecord, observation: NodeObservation, now: Instant, context: NodeContext
) -> NodeRecord:
    """Return the record after the poll."""
    state, problem = determine_state(record, observation, context)
    unknown = state is NodeState.UNKNOWN
    observed = replace(
        record.observed,
        at_unix_s=observation.bmc.at_unix_s,
        at_s=now.monotonic_s,
        watts=observation.watts,
        silent_in_row=count_silent_polls(record, observation, context),
        problem=problem,
        goes_down=observation.goes_down is True,
        unknown_since_s=record.observed.unknown_since_s if unknown else None,
    )
    if unknown:
        return _record_unknown(replace(record, observed=observed), observation, now)
    if record.fault is not None and record.fault.what in FAULTS_OF_POLLING:
        record = replace(record, fault=None)
    if _stays_up(record, observation, now):
        record = replace(record, sent=None)
    return _record_state(record, observed, state, now, context)


def _record_unknown(record: NodeRecord, observation: NodeObservation, now: Instant) -> NodeRecord:
    observed = record.observed
    if observed.unknown_since_s is None:
        observed = replace(
            observed,
            state=NodeState.UNKNOWN,
            since_unix_s=now.unix_s,
            unknown_since_s=now.monotonic_s,
        )
    fault = record.fault
    if fault is None and isinstance(observation.problem, AccessRefused | WrongDevice):
        fault = Fault(NO_LOGIN, observed.problem, observation.problem.hint, False, now.unix_s)
    return replace(record, observed=observed, fault=fault)


def _record_state(
    record: NodeRecord, observed: ObservedState, state: NodeState, now: Instant, context: NodeContext
) -> NodeRecord:
    by = _find_cause(record, state, now, context)
    if state is not record.observed.state:
        observed = replace(observed, state=state, since_unix_s=now.unix_s, by=record.observed.by if by is None else by)
    if state in SETTLED and state is not observed.known:
        observed = replace(observed, known=state)
    surprising = by == UNKNOWN_CAUSE and record.observed.known is not None
    gap_s = _unseen_s(record.observed, now)
    after = _close_reached_order(replace(record, observed=observed), state, now, context, gap_s=gap_s)
    return _record_surprise(after, now, context) if surprising else after


def _stays_up(record: NodeRecord, observation: NodeObservation, now: Instant) -> bool:
    """Whether the node itself says that it will not follow the last order to sleep."""
    sent = sleep_order_of(record)
    if sent is None or record.attempts.pending is not None:
        return False
    return observation.goes_down is False and now.monotonic_s - sent.at_s > SHUTDOWN_BEGINS_S


def _find_cause(record: NodeRecord, state: NodeState, now: Instant, context: NodeContext) -> str | None:
    """Return what changed the node from its last stable state, None if it has not changed."""
    observed, sent = record.observed, record.sent
    if state is observed.known:
        return None
    if sent is not None and _explains(sent.order, state) and _order_is_recent(record, now, context):
        return sent.by
    if state in COMING and (record.scheduler_state is SchedulerState.BOOTS or _was_woken_by_scheduler(record)):
        return SCHEDULER
    goes_on = observed.state is state or (observed.state is NodeState.BOOTING and state is NodeState.ON)
    if goes_on:
        return observed.by if observed.by != UNKNOWN_CAUSE else None
    return UNKNOWN_CAUSE


def _was_woken_by_scheduler(record: NodeRecord) -> bool:
    """Whether it slept by an order of the agent, and the scheduler has woken it between two polls."""
    return (
        record.scheduler_state in (SchedulerState.UP, SchedulerState.BUSY)
        and record.observed.known in ASLEEP
        and record.observed.by == AGENT
    )


def _order_is_recent(record: NodeRecord, now: Instant, context: NodeContext) -> bool:
    """Whether the last order may still have its effect: a shutdown may be delayed for any time."""
    sent = record.sent
    if record.attempts.pending is not None or sleep_order_of(record) is not None:
        return True
    return sent is not None and now.monotonic_s - sent.at_s < context.retry.late_s


def _explains(order: NodeOrder, state: NodeState) -> bool:
    if order is NodeOrder.ON:
        return state in COMING
    return state in (NodeState.GOING_DOWN, NodeState.STANDBY, NodeState.OFF)


def _unseen_s(before: ObservedState, now: Instant) -> float:
    """Return the time [s] since the last poll that showed the state of the node.

    Both clocks count: the monotonic one stands still while the head node itself is stopped, as for a snapshot.
    """
    if before.unknown_since_s is not None:
        return math.inf
    return max(now.monotonic_s - before.at_s, now.unix_s - before.at_unix_s)


def _close_reached_order(
    record: NodeRecord, state: NodeState, now: Instant, context: NodeContext, *, gap_s: float
) -> NodeRecord:
    """Return the record without the order and the attempts that have reached their goal.

    The goal was reached within the last `gap_s`. A change that ended while nobody looked, as while the agent was
    stopped or the BMC was silent, measures nothing: it would count as longer than it was.
    """
    sent = record.sent
    if sent is not None and is_goal(sent.order, state):
        took_s = now.monotonic_s - sent.at_s
        was_seen = gap_s <= max(UNSEEN_CYCLES * context.retry.cycle_s, UNSEEN_PART * took_s)
        certain = was_seen and sent.clear and sent.was in SETTLED and not is_goal(sent.order, sent.was)
        measured = MeasuredDuration(name_change(sent.order, sent.was), took_s) if certain else record.measured
        fault = None if record.fault is not None and record.fault.what in NOT_FOLLOWED else record.fault
        record = replace(
            record, sent=None, measured=measured, fault=fault, attempts=replace(record.attempts, pending=None)
        )
    if record.desired is not None and is_goal(record.desired.order, state) and record.attempts.pending is None:
        fault = record.fault if record.fault is not None and record.fault.what == FLAPPING else None
        if record.attempts != Attempts() or fault is not record.fault:
            record = replace(record, attempts=Attempts(), fault=fault)
    return record


def _record_surprise(record: NodeRecord, now: Instant, context: NodeContext) -> NodeRecord:
    retry = context.retry
    recent = [at_s for at_s in record.surprises if now.monotonic_s - at_s < retry.surprises_within_s]
    times = (*recent, now.monotonic_s)[-retry.surprises :]
    fault = record.fault
    if len(times) >= retry.surprises and (fault is None or fault.what != FLAPPING):
        reason = f"changed {len(times)} times in {times[-1] - times[0]:.0f} s, and offpeak did not order it"
        hint = "does the scheduler, a script or a loose cable switch it? look at the BMC's event log"
        fault = Fault(FLAPPING, reason, hint, False, now.unix_s)
    paused_until_s = now.monotonic_s + retry.pause_after_change_s
    return replace(record, surprises=times, fault=fault, paused_until_s=paused_until_s)


def record_time(record: NodeRecord, now: Instant, context: NodeContext) -> NodeRecord:
    """Return the record after the passing of time."""
    record = _record_long_silence(record, now, context)
    pending = record.attempts.pending
    if pending is None or now.monotonic_s - pending.sent_s < order_timeout_s(pending, context):
        return record
    desired, observed = record.desired, record.observed
    reason = f"{pending.order} was not followed within {now.monotonic_s - pending.sent_s:.0f} s"
    if pending.order is NodeOrder.ON and observed.is_incomplete:
        # The scheduler may count it as up by now, and then nothing is desired of it any more.
        return record_hang(record, reason, now)
    if desired is None or (desired.order is NodeOrder.ON) is not (pending.order is NodeOrder.ON):
        # The order belonged to an earlier desired state: nothing has failed.
        return replace(record, attempts=replace(record.attempts, pending=None, step=0))
    if observed.state is NodeState.UNKNOWN:
        return record_failure(record, f"{reason}; {observed.problem}", now, context, ours=True)
    if pending.order is NodeOrder.ON and observed.state is NodeState.BOOTING:
        return record_hang(record, reason, now)
    return take_next_step(record, pending, reason, context) or record_failure(record, reason, now, context, ours=False)


def order_timeout_s(pending: PendingOrder, context: NodeContext) -> float:
    """Return after how long [s] the order counts as not followed."""
    steps = list_steps(pending.order, pending.was, context)
    return next((step.time_out_s for step in steps if (step.order, step.way) == (pending.order, pending.way)), 0.0)


def _record_long_silence(record: NodeRecord, now: Instant, context: NodeContext) -> NodeRecord:
    since_s = record.observed.unknown_since_s
    if record.fault is not None or since_s is None or now.monotonic_s - since_s < context.retry.unseen_s:
        return record
    hint = f"try: offpeak check {record.node}"
    return replace(record, fault=Fault(UNSEEN, record.observed.problem, hint, True, now.unix_s))


def apply_event(record: NodeRecord, event: Event, now: Instant, context: NodeContext) -> NodeRecord:
    """Return the record after the event. The wall clock appears in texts for people only."""
    match event:
        case NodeObservation():
            return record_observation(record, event, now, context)
        case TimePassed():
            return record_time(record, now, context)
        case OrderAnswer():
            return record_answer(record, event, now, context)
        case SchedulerReport(scheduler_state):
            return (
                record
                if scheduler_state is record.scheduler_state
                else replace(record, scheduler_state=scheduler_state)
            )
        case DesiredStateChange(desired):
            # The same state again changes nothing.
            before = record.desired
            if before is not None and desired is not None and (before.order, before.by) == (desired.order, desired.by):
                return record
            # An admin's order is tried again, whatever failed before.
            fault = record.fault if desired is None or desired.by == AGENT else None
            return replace(record, desired=desired, fault=fault, attempts=Attempts(pending=record.attempts.pending))
        case HoldChange(hold):
            return replace(record, hold=hold)
        case Release():
            attempts = Attempts(pending=record.attempts.pending)
            return replace(record, hold=None, fault=None, attempts=attempts, surprises=(), paused_until_s=0.0)
        case Opened():
            return record if sleep_order_of(record) is None else replace(record, sent=None)
        case WakesElsewhere():
            # An order that may still have its effect stays known.
            return record if record.sent is not None else record_sending(record, NodeOrder.ON, SCHEDULER, now)
